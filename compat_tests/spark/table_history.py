"""A topic of updates and deletions by seed with its last committed values, and a session that runs commands on it.

The session is a process of its own, with `headgate` as a user has it. Its start is what takes the time, so it runs one
command after another.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Producer

from compat_tests.spark import jvm

KEYS = 40
Values = dict[bytes, bytes]


class History:
    """Records with random keys: plain ones, and those of transactions, of which one may stay open for a while."""

    def __init__(self, bootstrap: str, topic: str, seed: int) -> None:
        self.topic = topic
        self.random = random.Random(seed)
        self.committed: dict[tuple[int, int], tuple[bytes, bytes | None]] = {}
        settings = {"bootstrap.servers": bootstrap, "linger.ms": "5", "compression.type": "zstd"}
        self._plain = Producer(settings)
        name = f"table-{self.random.randrange(1 << 40)}"
        limit = {"transaction.timeout.ms": 900_000}  # a transaction stays open while tables are merged
        self._transactional = Producer({**settings, **limit, "transactional.id": name})
        self._transactional.init_transactions(30)
        self._open: dict[tuple[int, int], tuple[bytes, bytes | None]] | None = None

    def step(self) -> None:
        """Append a few records, or begin, go on with, or end a transaction."""
        match self.random.choice(("plain", "plain", "transaction", "end")):
            case "plain":
                self._append(self._plain, self.committed)
            case "transaction":
                if self._open is None:
                    self._transactional.begin_transaction()
                    self._open = {}
                self._append(self._transactional, self._open)
            case _:
                self.end()

    def end(self) -> None:
        """Commit or abort the open transaction."""
        if self._open is None:
            return
        if self.random.random() < 0.5:
            self._transactional.abort_transaction(30)
        else:
            self._transactional.commit_transaction(30)
            self.committed |= self._open
        self._open = None

    def _append(self, producer: Producer, found: dict[tuple[int, int], tuple[bytes, bytes | None]]) -> None:
        def note(error: Any, message: Any) -> None:
            assert error is None, error
            found[message.partition(), message.offset()] = message.key(), message.value()

        for _ in range(self.random.randint(1, 60)):
            key = b"key %d" % self.random.randrange(KEYS)
            value = None if self.random.random() < 0.3 else b"value %d" % self.random.randrange(1 << 40)
            producer.produce(self.topic, value, key, on_delivery=note)
        producer.flush(60)

    def last_values(self, positions: dict[int, int]) -> Values:
        """The last committed values before the positions: a key is in one partition."""
        found: Values = {}
        for (partition, offset), (key, value) in sorted(self.committed.items()):
            if offset < positions.get(partition, 0):
                found.pop(key, None)
                if value is not None:
                    found[key] = value
        return found


def positions(state: Path) -> dict[int, int]:
    """The positions beside a table, by partition."""
    latest = max((state / "_headgate/manifests").iterdir())
    ((_, found),) = json.loads(latest.read_bytes())["positions"].items()
    return {int(number): offset for number, offset in found.items()}


PROGRAM = r"""
import contextlib, json, sys
from headgate.spark.load.command import main_verify
from headgate.spark.table.command import main as table
from headgate.spark.pipelines.command import replay
from headgate.spark.session import session

settings = {
    "spark.sql.catalog.iceberg.warehouse": sys.argv[1],
    "spark.driver.memory": "1g",
    "spark.databricks.delta.snapshotPartitions": "2",
}
spark = session("tables", formats=("delta", "iceberg"), settings=settings)
spark.sparkContext.setLogLevel("OFF")


def rows(name):
    frame = spark.read.format("delta").load(name) if "/" in name else spark.table(name)
    return [[bytes(row.key).decode(), bytes(row.value).decode()] for row in frame.select("key", "value").collect()]


commands = {"verify": main_verify, "table": table, "replay": replay}
for line in sys.stdin:
    command, *words = json.loads(line)
    with contextlib.redirect_stdout(sys.stderr):
        done = rows(*words) if command == "rows" else commands[command](words)
    print(json.dumps(done), flush=True)
spark.stop()
"""


class Session:
    """The process with the session. `errors`: the file with what its commands print."""

    def __init__(self, warehouse: Path, errors: Path) -> None:
        self._errors = errors
        with errors.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(warehouse)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env=jvm.environment(),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()

    def run(self, *words: str) -> None:
        """Run a command that must succeed."""
        code = self._ask(*words)
        assert code == 0, f"{words}: {code}: {self._errors.read_text()[-3000:]}"

    def values(self, name: str) -> Values:
        """The rows of a table. Fails for a key that is there twice."""
        rows = self._ask("rows", name)
        found = {key.encode(): value.encode() for key, value in rows}
        assert len(found) == len(rows), "a key is in the table twice"
        return found

    def _ask(self, *words: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"{words}: the session ended: {self._errors.read_text()[-3000:]}"
        return json.loads(line)
