"""The lines that a JVM with Spark writes to standard error at its start, left out of the output of our commands.

They say nothing about a command's work, and no setting stops all of them. Everything else that the JVM and Python
workers write passes through, such as the last words of a JVM without memory.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterator
from typing import Final

_STDERR: Final = 2
_NOISE: Final = re.compile(
    rb"WARNING: Using incubator modules"
    rb"|Using Spark's default log4j profile"
    rb"|Setting default log level to"
    rb"|To adjust logging level use"
    rb"|\S+ \S+ WARN Utils: (?:Your hostname|Set SPARK_LOCAL_IP)"
    rb"|\S+ \S+ WARN NativeCodeLoader: "
)


@contextlib.contextmanager
def without_jvm_noise() -> Iterator[None]:
    """Start a JVM within: its standard error then goes through a filter, as long as the JVM lives.

    The standard error of this process is the same before and after. A process without one gets no filter.
    """
    try:
        own = os.dup(_STDERR)
    except OSError:
        yield
        return
    outlet, inlet = os.pipe()
    os.dup2(inlet, _STDERR)
    os.close(inlet)
    threading.Thread(target=forward, args=(outlet, own), name="jvm-errors", daemon=True).start()
    try:
        yield
    finally:
        os.dup2(own, _STDERR)


def forward(outlet: int, target: int) -> None:
    """Copy lines from one descriptor to the other without the noise, until the last writer is gone; then close both."""
    with open(outlet, "rb") as lines, open(target, "wb", buffering=0) as kept:
        for line in lines:
            if not _NOISE.match(line):
                kept.write(line)
