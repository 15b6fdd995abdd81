"""Where the tasks of a load run: in Spark, in processes of this machine without a JVM, or one after another."""

from __future__ import annotations

import contextlib
import multiprocessing
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from headgate.spark.jvm_noise import without_jvm_noise
from headgate.spark.load.formats.decoding import BYTES, ERROR, RAW
from headgate.spark.load.output.folder import OutputFolder
from headgate.spark.load.output.load_log import LoadLog
from headgate.spark.load.output.planning import LoadRefused, TaskFailed
from headgate.spark.load.output.tables import TargetTable
from headgate.spark.load.spark_tasks import (
    CONTROL,
    loading_function,
    passing_function,
    reading_function,
    row_schema,
    writing_function,
)
from headgate.spark.load.task import TASK_ERRORS, LoadJob, load_range
from headgate.spark.reading.log_reader import OffsetRange
from headgate.spark.session import find_jars, session_settings

RangeDone = Callable[[OffsetRange], None]
_POLL_S = 1.0
_ATTEMPTS = 4
_DELTA_PARTITIONS = "spark.databricks.delta.snapshotPartitions"
_NO_TABLES = "only Spark writes tables"
_NAMES = "|".join(error.__name__ for error in TASK_ERRORS)
_OURS = re.compile(rf"^headgate\.[\w.]+\.(?:{_NAMES}): (.*)$", re.MULTILINE)


def _session_options(master: str) -> dict[str, str]:
    """A local master gets several attempts for a task, as a cluster has them, and Delta's state few partitions."""
    options = {"spark.master": master, "spark.ui.showConsoleProgress": "false"}
    if master.startswith("local["):
        options[_DELTA_PARTITIONS] = "4"  # of 50 for a table of a few files, each commit takes seconds
    if master.startswith("local[") and "," not in master:
        options["spark.master"] = f"{master[:-1]},{_ATTEMPTS}]"
    return options


class SequentialRunner:
    """One task after another in this process. `output`: the folder with the steps of a test."""

    slots = 1
    has_spark = False

    def __init__(self, output: OutputFolder | None = None) -> None:
        self._output = output

    def run(self, job: LoadJob, tasks: Mapping[int, OffsetRange], done: RangeDone) -> None:
        for index, wanted in tasks.items():
            try:
                load_range(job, index, wanted, self._output)
            except TASK_ERRORS as error:
                raise TaskFailed(str(error)) from error
            done(wanted)

    def append(self, *_: object) -> None:
        """Spark writes tables."""
        raise LoadRefused(_NO_TABLES)

    def close(self) -> None:
        """Nothing to close."""


class ProcessRunner:
    """Tasks in processes of this machine."""

    has_spark = False

    def __init__(self, processes: int) -> None:
        self.slots = processes

    def run(self, job: LoadJob, tasks: Mapping[int, OffsetRange], done: RangeDone) -> None:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(self.slots, len(tasks)), mp_context=context) as pool:
            running = {pool.submit(_load_or_explain, job, index, wanted): wanted for index, wanted in tasks.items()}
            try:
                for future in as_completed(running):
                    future.result()
                    done(running[future])
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def append(self, *_: object) -> None:
        """Spark writes tables."""
        raise LoadRefused(_NO_TABLES)

    def close(self) -> None:
        """Nothing to close: the processes end with their tasks."""


def _load_or_explain(job: LoadJob, index: int, wanted: OffsetRange) -> None:
    """Load in another process. Raises TaskFailed, as not all exceptions can leave a process."""
    try:
        load_range(job, index, wanted)
    except TASK_ERRORS as error:
        raise TaskFailed(str(error)) from None


class SparkRunner:
    """A Spark job with a task for each range. Spark runs a failed task again, at its original position."""

    has_spark = True

    def __init__(self, session: Any, *, slots: int | None = None, is_own: bool = False) -> None:
        """`slots`: tasks at once; default: the session's parallelism. `is_own`: `close` stops the session."""
        self.slots = session.sparkContext.defaultParallelism if slots is None else slots
        self.session = session
        self._is_own = is_own

    @classmethod
    def start(cls, master: str, formats: Sequence[str] = (), settings: Mapping[str, str] | None = None) -> SparkRunner:
        """A runner with the session of the caller, or a new one with the jars of `formats`. Raises JarsMissing."""
        from pyspark.sql import SparkSession

        active = SparkSession.getActiveSession()
        if active is not None:
            return cls(active)
        options = session_settings(formats, find_jars(formats)) | _session_options(master) | dict(settings or {})
        with without_jvm_noise():
            session = SparkSession.builder.appName("headgate spark load").config(map=options).getOrCreate()
            session.sparkContext.setLogLevel("OFF")  # the error of a task comes as an exception, once
        if master.startswith("local"):
            session.sparkContext.pythonExec = sys.executable
        return cls(session, is_own=True)

    def close(self) -> None:
        """Stop a session that `start` has begun."""
        if self._is_own:
            self.session.stop()

    def run(self, job: LoadJob, tasks: Mapping[int, OffsetRange], done: RangeDone) -> None:
        from pyspark.errors import PythonException

        ranges = list(tasks.items())
        numbers = self.session.range(0, len(ranges), 1, len(ranges))  # a row for each partition
        if job.decoding.needs_spark:
            rows = self._rows(job, ranges)
            work = rows.mapInArrow(writing_function(job, ranges), "id bigint")
        else:
            work = numbers.mapInArrow(loading_function(job, ranges), "id bigint")
        with self._watch(job, tasks, done):
            try:
                ended = work.collect()
            except PythonException as error:
                raise TaskFailed(explain(str(error))) from error
        assert len(ended) == len(ranges), f"{len(ended)} of {len(ranges)} tasks ended"

    def append(self, job: LoadJob, tasks: Mapping[int, OffsetRange], name: TargetTable, done: RangeDone) -> None:
        """Add the rows of all tasks to a table in one commit; each task has a result afterwards. Raises TaskFailed.

        Results of a run that did not commit may be of other rows, so they go. Where the table has the rows and results
        are missing, the ranges are read again for their results alone.
        """
        from pyspark.errors import PythonException

        table, log = name.open(self.session), LoadLog(OutputFolder(job.folder))
        try:
            with self._watch(job, tasks, done):
                if not table.has(job.number):
                    log.reset(job.number)
                    table.append(self._passed(job, list(tasks.items())), job.number)
                table.publish(job.number)
                missing = [(index, wanted) for index, wanted in tasks.items() if index not in log.finished(job.number)]
                if missing:
                    self._passed(job, missing).write.format("noop").mode("overwrite").save()
        except PythonException as error:
            raise TaskFailed(explain(str(error))) from error

    def _passed(self, job: LoadJob, ranges: list[tuple[int, OffsetRange]]) -> Any:
        """Decoded rows; their reading records the results."""
        rows = self._rows(job, ranges)
        names = [name for name in rows.columns if name not in (CONTROL, ERROR, BYTES)]
        return rows.mapInArrow(passing_function(job, ranges), rows.select(*names).schema)

    def _rows(self, job: LoadJob, ranges: list[tuple[int, OffsetRange]]) -> Any:
        """Rows of all ranges with the control column, decoded where Spark does it."""
        from headgate.spark.load.formats.spark_columns import decode

        numbers = self.session.range(0, len(ranges), 1, len(ranges))
        rows = numbers.mapInArrow(reading_function(job, ranges), row_schema(job))
        if job.decoding.needs_spark or (job.needs_key and job.decoding.format == RAW):
            return decode(rows, job.decoding, needs_key=job.needs_key)
        return rows

    @contextlib.contextmanager
    def _watch(self, job: LoadJob, tasks: Mapping[int, OffsetRange], done: RangeDone) -> Iterator[None]:
        """Report results in the folder while the job runs."""
        ended, log = threading.Event(), LoadLog(OutputFolder(job.folder))

        def poll() -> None:
            seen: set[int] = set()
            while not ended.wait(_POLL_S):
                with contextlib.suppress(OSError):
                    found = log.finished(job.number) & tasks.keys()
                    for index in found - seen:
                        done(tasks[index])
                    seen |= found

        watcher = threading.Thread(target=poll, name="load-progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def explain(text: str) -> str:
    """The text of the error of ours in the traceback that a Python worker of Spark sent; else the whole traceback."""
    found = _OURS.search(text)
    return found[1] if found else text
