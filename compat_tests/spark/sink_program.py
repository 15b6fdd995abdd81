"""A program that writes batches with the exactly-once sink, and that can be killed at any step of a batch.

It runs in a process of its own, with `headgate` as a user has it, and does on its own what Spark does for the sink: the
rows of a batch are computed from its number, and a file says which batches are done. `sink_query` is a query of Spark.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROWS = 500
"""Of each batch: the values `<batch> <row>`."""

LIMIT_S = 240.0
STEPS = ("begin", "last", "run_tasks", "add_partitions", "check_written", "commit_positions", "marker", "end", "done")
"""Where the program can be killed, `before` or `after`."""

PROGRAM = r"""
import json, os, signal, sys
from pathlib import Path

given = json.loads(sys.argv[1])
from headgate.spark.sink import batch_log, exactly_once, transaction
from headgate.spark.sink.sink import Sink, sum_reports
from headgate.spark.sink.exactly_once import ExactlyOnce
from headgate.spark.sink.marker import QueryBatch

current = [-1]


def fault(step, moment):
    if given.get("kill") == [step, moment, current[0]]:
        os.kill(os.getpid(), signal.SIGKILL)


def wrap(owner, name, step=None):
    function = getattr(owner, name)

    def wrapped(*arguments, **options):
        fault(step or name, "before")
        found = function(*arguments, **options)
        fault(step or name, "after")
        return found

    setattr(owner, name, wrapped)


for name in ("begin", "add_partitions", "check_written", "commit_positions", "end"):
    wrap(transaction, name)
wrap(batch_log.BatchLog, "last")
wrap(ExactlyOnce, "_mark", "marker")
sink = Sink(given["bootstrap"], topic=given["output"], name=given["name"], **given.get("options", {}))


def without_spark():
    import pyarrow as pa
    from headgate.spark.sink import tasks

    identity = lambda: tasks.TaskIdentity(0, 0)
    done = Path(given["directory"]) / "done"
    for batch in range(int(done.read_text()) + 1 if done.exists() else 0, given["batches"]):
        current[0] = batch
        values = [b"%d %d" % (batch, row) for row in range(given["rows"])]
        keys = [b"%d" % (row % 7) for row in range(given["rows"])]
        rows = pa.record_batch({"key": pa.array(keys), "value": pa.array(values)})

        def run_tasks(producer):
            target = sink.target()
            reports = []
            for half in (rows.slice(0, len(values) // 2), rows.slice(len(values) // 2)):
                encoded = list(tasks.encode_rows(target, [half], identity))
                reports.append(encoded)
            order = [piece for number, pieces in enumerate(reports) for piece in renumbered(pieces, number)]
            fault("run_tasks", "before")
            [report] = tasks.write_batches(target, producer, order, identity)
            fault("run_tasks", "after")
            return sum_reports(row.values() for row in report.to_pylist())

        def renumbered(pieces, number):
            for piece in pieces:
                place = piece.schema.get_field_index("task")
                yield piece.set_column(place, "task", pa.array([number] * piece.num_rows, pa.int64()))

        positions = {given["output"]: {0: batch}}
        outcome = sink.transactions(given["name"]).write(run_tasks, QueryBatch("id", batch, positions))
        print(json.dumps({"batch": batch, "is_written": outcome.is_written, "tries": outcome.tries}), flush=True)
        fault("done", "before")
        done.write_text(str(batch))
        fault("done", "after")


without_spark()
"""


class SinkProgram:
    """Runs of the program with the same sink and the same directory."""

    def __init__(self, bootstrap: str, output: str, directory: Path, **given: Any) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.given = {"bootstrap": bootstrap, "output": output, "directory": str(directory), "name": output, **given}
        self.errors = directory / "errors"

    def start(self, **more: Any) -> subprocess.Popen[str]:
        with self.errors.open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, "-c", PROGRAM, json.dumps(self.given | more)],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def run(self, **more: Any) -> tuple[int, list[dict[str, Any]]]:
        """The exit code of a run, and the batches that it has told of."""
        process = self.start(**more)
        try:
            output, _ = process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()
            process.wait()
        return process.returncode, [json.loads(line) for line in output.splitlines()]

    def last_errors(self) -> str:
        return self.errors.read_text()[-3000:]


def expected(batches: int) -> list[bytes]:
    return [b"%d %d" % (batch, row) for batch in range(batches) for row in range(ROWS)]
