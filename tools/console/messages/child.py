"""The parent's side of the reading process: it is started for one answer, read without waiting for long, and killed.

A few such processes run at a time; another one is refused with a sentence. One that says nothing for a while is killed:
a record or an expression keeps it busy.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from headgate.tools.client.client import ClientError
from headgate.tools.console.messages.process import USAGE, WorkOrder
from headgate.tools.console.parameters import BadParameter

MOST_PROCESSES: Final = 6
SILENT_S: Final = 45.0
_LOOK_S: Final = 0.5
_READ_BYTES: Final = 1 << 16
_LONGEST_LINE: Final = 32 << 20
MODULE: Final = "headgate.tools.console.messages.process"

_slots = threading.BoundedSemaphore(MOST_PROCESSES)


def read_events(order: WorkOrder, silent_s: float = SILENT_S) -> Iterator[dict[str, Any]]:
    """The events of the process; while it works in silence, `{"event": "waiting"}` twice a second.

    Raises ClientError, BadParameter.
    """
    line = bytearray()
    for part in _read(order, silent_s):
        if part is None:
            yield {"event": "waiting"}
            continue
        *whole, rest = part.split(b"\n")
        for each in whole:
            line += each
            yield json.loads(line)
            line.clear()
        line += rest
        if len(line) > _LONGEST_LINE:
            raise ClientError("the answer of the reading process is too long")


def read_bytes(order: WorkOrder, silent_s: float) -> Iterator[bytes]:
    """The bytes that the process writes; empty ones twice a second while it works in silence.

    Raises ClientError, BadParameter.
    """
    return (part or b"" for part in _read(order, silent_s))


def _read(order: WorkOrder, silent_s: float, clock: Callable[[], float] = time.monotonic) -> Iterator[bytes | None]:
    """Parts of the output; None for half a second without any."""
    with _process(order) as process:
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        heard_s = clock()
        while True:
            readable, _, _ = select.select([descriptor], [], [], _LOOK_S)
            if readable:
                part = os.read(descriptor, _READ_BYTES)
                if not part:
                    break
                heard_s = clock()
                yield part
            elif clock() - heard_s > silent_s:
                raise ClientError(f"a message or an expression took longer than {silent_s:g} s; the search was stopped")
            else:
                yield None
        _check_end(process)


@contextmanager
def _process(order: WorkOrder) -> Iterator[subprocess.Popen[bytes]]:
    """The process, which is killed at the end if it still runs. Raises ClientError if too many run."""
    if not _slots.acquire(blocking=False):
        raise ClientError(f"{MOST_PROCESSES} searches run at the moment; stop one, or try again later")
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl+C at the console ends the console, and so this process
        )
        try:
            with process:
                assert process.stdin is not None
                try:
                    with suppress(BrokenPipeError):  # a process that is dead already is noticed below
                        process.stdin.write(json.dumps(order).encode() + b"\n")
                        process.stdin.close()
                    yield process
                finally:
                    process.kill()
        finally:
            process.wait()
    finally:
        _slots.release()


def _check_end(process: subprocess.Popen[bytes]) -> None:
    """Raises ClientError or BadParameter with the sentence of a process that has failed."""
    assert process.stderr is not None
    lines = process.stderr.read(1 << 16).decode(errors="replace").splitlines()
    code = process.wait()
    if code == 0:
        return
    if code < 0:
        raise ClientError(f"the reading process was ended by {signal.Signals(-code).name} at a message that it decoded")
    sentence = _sentence(lines)
    raise BadParameter(sentence) if code == USAGE else ClientError(sentence)


def _sentence(lines: list[str]) -> str:
    try:
        return str(json.loads(lines[-1])["failure"])
    except (IndexError, ValueError, KeyError, TypeError):
        return f"the reading process failed: {lines[-1][:500] if lines else 'it says nothing'}"
