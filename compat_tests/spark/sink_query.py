"""A query from one topic to another through the exactly-once sink, which kills its own processes at chosen steps.

It runs in a process of its own, with `headgate` as a user has it, and an argument in JSON (`Given`). Each fault happens
once, in whichever run meets the step first: a file in the directory says so. Steps of the driver are those of
`exactly_once`, and `offsets` and `commits` once Spark has written the file of the batch. Steps of tasks are `encode`,
`add` and `write`. The test kills the broker: a file asks for that, and the step goes on when another file says that the
broker is down.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict

DRIVER_STEPS = ("last", "begin", "run_tasks", "check_written", "commit_positions", "marker", "end")
TASK_STEPS = ("encode", "add", "write")


class Fault(NamedTuple):
    """`victim`: driver, worker, executor, broker; or `slow`, a first attempt that waits."""

    batch: int
    step: str
    moment: str
    victim: str


class Given(TypedDict):
    """`options`: more arguments of the sink. `read`: options of Spark's `kafka` format. `keeps`: the partitions."""

    bootstrap: str
    output: str
    name: str
    directory: str
    master: str
    settings: dict[str, str]
    read: dict[str, str]
    keeps: bool
    faults: list[list[Any]]
    options: dict[str, Any]
    slow_s: float


PROGRAM = r'''
from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import namedtuple
from pathlib import Path

Fault = namedtuple("Fault", ("batch", "step", "moment", "victim"))
_ANSWER_LIMIT_S = 60.0


class Faults:
    """Goes to the workers too, so everything here is picklable. `drivers`: process ids, the JVM first."""

    def __init__(self, given: Given, drivers: list[int]) -> None:
        self.directory, self.drivers, self.slow_s = given["directory"], drivers, given["slow_s"]
        self.faults = [Fault(*one) for one in given["faults"]]

    def meet(self, batch: int, step: str, moment: str) -> None:
        """Let the fault of this place happen, if it did not yet."""
        for number, fault in enumerate(self.faults):
            if (batch, step, moment) == fault[:3] and self._is_first(number):
                self._happen(number, fault.victim)

    def _is_first(self, number: int) -> bool:
        try:
            os.close(os.open(f"{self.directory}/fault-{number}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def _happen(self, number: int, victim: str) -> None:
        if victim == "driver":
            for pid in self.drivers:
                os.kill(pid, signal.SIGKILL)
            time.sleep(_ANSWER_LIMIT_S)
        elif victim == "worker":
            os.kill(os.getpid(), signal.SIGKILL)
        elif victim == "executor":
            os.kill(jvm_above(), signal.SIGKILL)
            time.sleep(_ANSWER_LIMIT_S)
        elif victim == "slow":
            time.sleep(self.slow_s)
        else:
            Path(f"{self.directory}/ask-{number}").touch()
            give_up_at = time.monotonic() + _ANSWER_LIMIT_S
            while not Path(f"{self.directory}/down-{number}").exists() and time.monotonic() < give_up_at:
                time.sleep(0.002)

    def around(self, function: Callable[..., Any], batch: Callable[[], int], step: str) -> Callable[..., Any]:
        """The function with its step's faults."""

        def wrapped(*arguments: Any, **options: Any) -> Any:
            self.meet(batch(), step, "before")
            found = function(*arguments, **options)
            self.meet(batch(), step, "after")
            return found

        return wrapped

    def watch(self, checkpoint: Path) -> None:
        """Faults at the files that Spark writes: a thread looks for them."""
        wanted = [(one, checkpoint / one.step / str(one.batch)) for one in self.faults if one.step in _FILES]
        wanted = [(one, path) for one, path in wanted if not path.exists()]
        while wanted:
            for one, path in wanted:
                if path.exists():
                    self.meet(*one[:3])
            wanted = [(one, path) for one, path in wanted if not path.exists()]
            time.sleep(0.0005)


_FILES = ("offsets", "commits")


def jvm_above() -> int:
    """The JVM that this worker works for: an executor, or the driver's with a local master."""
    pid = os.getpid()
    while "java" not in Path(f"/proc/{pid}/comm").read_text():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


def encoding(faults: Faults, batch: int) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Passes rows on; with faults in the task that encodes them."""

    def run(rows: Iterable[Any]) -> Iterator[Any]:
        for place, one in enumerate(rows):
            if place == 0:
                faults.meet(batch, "encode", "before")
            yield one
            if place == 0:
                faults.meet(batch, "encode", "after")

    return run


def writing(name: str, faults: Faults, batch: int) -> Callable[..., Iterator[Any]]:
    """A writing function of the sink, with faults at requests of its task."""

    def run(*arguments: Any) -> Iterator[Any]:
        from headgate.spark.sink import tasks
        from headgate.spark.sink.transaction import TransactionWriter

        originals = {step: getattr(TransactionWriter, step) for step in ("add", "write")}
        for step, original in originals.items():
            setattr(TransactionWriter, step, faults.around(original, lambda: batch, step))
        try:
            yield from getattr(tasks, name)(*arguments)
        finally:
            for step, original in originals.items():
                setattr(TransactionWriter, step, original)

    return run


def main(given: Given) -> None:
    from pyspark.errors import StreamingQueryException
    from pyspark.sql import SparkSession

    from headgate.spark.sink import batch_log, sink, tasks, transaction
    from headgate.spark.sink.exactly_once import ExactlyOnce

    builder = SparkSession.builder.master(given["master"])
    for name, value in given["settings"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    faults = Faults(given, [spark.sparkContext._gateway.proc.pid, os.getpid()])
    current = -1

    def wrap(owner: Any, name: str, step: str) -> None:
        setattr(owner, name, faults.around(getattr(owner, name), lambda: current, step))

    for step in ("begin", "check_written", "commit_positions", "end"):
        wrap(transaction, step, step)
    wrap(batch_log.BatchLog, "last", "last")
    wrap(ExactlyOnce, "_mark", "marker")
    wrap(sink.Sink, "_run", "run_tasks")
    target = sink.Sink(
        given["bootstrap"],
        topic=given["output"],
        name=given["name"],
        keep_partitions=given["keeps"],
        **given["options"],
    )
    checkpoint = Path(given["directory"]) / "checkpoint"

    def each(rows: Any, batch: int) -> None:
        nonlocal current
        current = batch
        for name in ("write_rows", "write_batches"):
            setattr(tasks, name, writing(name, faults, batch))
        outcome = target(rows.mapInArrow(encoding(faults, batch), rows.schema), batch)
        said = {"batch": batch, "is_written": outcome.is_written, "tries": outcome.tries}
        print(json.dumps(said), flush=True)
        faults.meet(batch, "commits", "before")

    threading.Thread(target=faults.watch, args=(checkpoint,), daemon=True).start()
    frame = spark.readStream.format("kafka").options(**given["read"]).load().drop("topic")
    frame = frame if given["keeps"] else frame.drop("partition")
    stream = frame.writeStream.foreachBatch(each).option("checkpointLocation", str(checkpoint))
    try:
        stream.trigger(availableNow=True).start().awaitTermination()
    except StreamingQueryException as error:
        # Spark 4.1 ends a run that repeats a batch by an error of its own report, after the batch (SPARK-55271)
        if "scala.Option.get()" not in str(error):
            raise
        stream.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
'''
