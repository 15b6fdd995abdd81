"""The addresses that the executors of a cluster reach, and their packages: a task on each executor dials the brokers.

`probe` runs there, where perhaps nothing of Headgate is: Spark gets its code, not its name, and it imports nothing but
Python's own modules.
"""

from __future__ import annotations

import platform
import socket
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any, NamedTuple

_TASKS_PER_SLOT = 4
_NAME = "headgate spark doctor"


class ExecutorReport(NamedTuple):
    """Of an executor: `errors` by address, None if a connection was made; `versions` of Python and packages."""

    host: str
    python: str
    errors: Mapping[str, str | None]
    versions: Mapping[str, str | None]


class NoExecutor(Exception):
    """No task has ended; the text says why."""


def probe(addresses: Iterable[str], packages: Iterable[str], timeout_s: float) -> tuple[str, str, Any, Any]:
    """The fields of an Answer, of this process."""
    errors: dict[str, str | None] = {}
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout_s).close()
            errors[address] = None
        except OSError as error:
            errors[address] = error.strerror or str(error)
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for name in packages:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return socket.gethostname(), sys.executable, errors, versions


def ask_executors(
    settings: Mapping[str, str],
    python: str,
    addresses: Sequence[str],
    packages: Sequence[str],
    *,
    timeout_s: float,
    limit_s: float,
) -> list[ExecutorReport]:
    """Ask the executors of a new session; one answer for each host. Raises NoExecutor after `limit_s`."""
    from pyspark import cloudpickle
    from pyspark.sql import SparkSession

    from headgate.spark.jvm_noise import without_jvm_noise

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    waits = {"spark.scheduler.minRegisteredResourcesRatio": "1.0"}
    with without_jvm_noise():
        session = SparkSession.builder.appName(_NAME).config(map=quiet | waits | dict(settings)).getOrCreate()
        context = session.sparkContext
        context.setLogLevel("OFF")
    context.pythonExec = python
    timer = threading.Timer(limit_s, context.cancelAllJobs)
    timer.start()

    def task(_: Iterator[int]) -> Iterator[tuple[str, str, Any, Any]]:
        yield probe(addresses, packages, timeout_s)

    try:
        count = _TASKS_PER_SLOT * context.defaultParallelism
        found = context.parallelize(range(count), count).mapPartitions(task).collect()
    except Exception as error:  # py4j's and PySpark's own have no common class
        late = f"no task ended within {limit_s:g} s"
        raise NoExecutor(cause(str(error)) if timer.is_alive() else late) from error
    finally:
        timer.cancel()
        session.stop()
    return list({host: ExecutorReport(host, *more) for host, *more in found}.values())


def cause(text: str) -> str:
    """The last cause in the stack trace of a JVM, or its first line."""
    lines = text.strip().splitlines() or ["no reason was given"]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return causes[-1].removeprefix("Caused by: ") if causes else lines[0]
