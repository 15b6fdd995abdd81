"""Runs of `sink_query` on one checkpoint, until all its faults have happened and the query has ended."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from compat_tests.harness import apache_kafka, toolchain
from compat_tests.harness.broker import Broker
from compat_tests.harness.topics import new_topic
from compat_tests.harness.waiting import until
from compat_tests.spark import jvm, loads, spark_format
from compat_tests.spark.sink_query import PROGRAM, Fault, Given
from compat_tests.transactions.copiers.committed_values import Follower, Values, committed_values

PARTITIONS = 3
ROWS_OF_A_BATCH = 90
RUN_LIMIT_S = 200.0  # since the last restart of the broker: an Apache Kafka may take a quarter of a minute for each
TIME_MS = 1_700_000_000_000  # of all records: the sink keeps times
KEPT = {"retention.ms": "-1"}  # Kafka deletes such old records half a minute after a start


class SinkQuery:
    """A query over `batches` batches of a topic with numbers as values, and a reader of its output in a loop."""

    def __init__(
        self,
        broker: Broker,
        directory: Path,
        batches: int,
        faults: Sequence[Fault],
        *,
        master: str = "local[2]",
        keeps: bool = False,
        settings: dict[str, str] | None = None,
        options: dict[str, Any] | None = None,
        slow_s: float = 0,
    ) -> None:
        toolchain.module("pyspark", "pip install pyspark==4.1.1")
        toolchain.jars("spark")
        self.broker, self.directory = broker, directory
        directory.mkdir(parents=True, exist_ok=True)
        self.source, self.output = (new_topic(broker.bootstrap, PARTITIONS, KEPT) for _ in range(2))
        self.rows = batches * ROWS_OF_A_BATCH
        produce(broker.bootstrap, self.source, range(self.rows))
        limit = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(ROWS_OF_A_BATCH)}
        self.given: Given = {
            "bootstrap": broker.bootstrap,
            "output": self.output,
            "name": self.output,
            "directory": str(directory),
            "master": master,
            "settings": SETTINGS
            | {"spark.jars": jars(), "spark.executor.extraJavaOptions": jvm.options()}
            | (settings or {}),
            "read": spark_format.options(broker, self.source) | limit,
            "keeps": keeps,
            "faults": [list(one) for one in faults],
            "options": options or {},
            "slow_s": slow_s,
        }
        self._said, self._errors = directory / "said", directory / "errors"
        self._follower = Follower(broker.bootstrap, self._places())

    def _places(self) -> list[tuple[str, int]]:
        return [(self.output, partition) for partition in range(PARTITIONS)]

    @contextlib.contextmanager
    def started(self) -> Iterator[subprocess.Popen[str]]:
        """A run; all its processes are ended whatever happens."""
        with self._errors.open("ab") as errors, self._said.open("ab") as said:
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, json.dumps(self.given)],
                stdout=said,
                stderr=errors,
                text=True,
                env=jvm.environment(),
                start_new_session=True,
            )
        children: set[int] = set()
        try:
            with process:
                try:
                    yield process
                finally:
                    children |= set(loads.descendants(process.pid))
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
        finally:
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)

    def run(self, meanwhile: Callable[[subprocess.Popen[str]], None] = lambda _: None) -> int:
        """The exit code of one run. The broker is killed and started again when the run asks for it."""
        with self.started() as process:
            meanwhile(process)
            give_up_at = time.monotonic() + RUN_LIMIT_S
            while process.poll() is None:
                assert time.monotonic() < give_up_at, f"the run does not end: {self.last_errors()}"
                if self.serve_broker_faults():
                    give_up_at = time.monotonic() + RUN_LIMIT_S
                time.sleep(0.005)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return process.returncode

    def serve_broker_faults(self) -> bool:
        """Whether the broker was killed and started again."""
        asked = list(self.directory.glob("ask-*"))
        for ask in asked:
            ask.unlink()
            self.broker.kill()
            ask.with_name(ask.name.replace("ask", "down")).touch()
            self.broker.start()
        return bool(asked)

    def kill_at_random(self, run: subprocess.Popen[str], chance: random.Random) -> None:
        """Kill the driver, a Python worker or the broker, up to two seconds after the first batch of the run."""
        before = len(self.said)
        until(lambda: run.poll() is not None or len(self.said) > before, "a batch", 120)
        time.sleep(chance.uniform(0, 2))
        children = loads.descendants(run.pid)
        workers = sorted(pid for pid, line in children.items() if "pyspark.daemon" in line)
        victim = chance.choice(("driver", "worker", "broker"))
        if victim == "broker":
            self.broker.kill()
            self.broker.start()
            return
        jvms = [pid for pid, line in children.items() if "java" in line.partition(" ")[0]]
        for pid in [*jvms, run.pid] if victim == "driver" else workers[1:][:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def finish(self, runs: int) -> int:
        """Run until the query ends, at most so often; the runs that were needed."""
        for number in range(runs):
            code = self.run()
            if code == 0:
                return number + 1
            assert code == -signal.SIGKILL, self.last_errors()
        raise AssertionError(f"{runs} runs did not end the query: {self.last_errors()}")

    def assert_exact(self) -> None:
        """All faults have happened; each row is committed once, and the reader in a loop saw the same."""
        happened = sorted(int(path.name.partition("-")[2]) for path in self.directory.glob("fault-*"))
        assert happened == list(range(len(self.given["faults"]))), f"of {self.given['faults']} only {happened}"
        found = self.values()
        assert sorted(int(value) for rows in found.values() for value in rows) == list(range(self.rows))
        if self.given["keeps"]:
            assert [found[place] for place in self._places()] == [
                [b"%d" % number for number in range(partition, self.rows, PARTITIONS)]
                for partition in range(PARTITIONS)
            ]
        follower = self._follower
        until(lambda: follower.values == found, "the reader in a loop to see the same")
        follower.check()
        follower.close()

    def values(self) -> Values:
        return committed_values(self.broker.bootstrap, self._places())

    @property
    def said(self) -> list[dict[str, Any]]:
        """The batches that the runs have told of."""
        return [json.loads(line) for line in self._said.read_text().splitlines()]

    def errors(self) -> str:
        return self._errors.read_text()

    def last_errors(self) -> str:
        return self.errors()[-4000:]


SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def jars() -> str:
    return ",".join(map(str, (apache_kafka.JARS / "spark").glob("*.jar")))


def produce(bootstrap: str, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        producer.produce(topic, b"%d" % number, b"%d" % (number % 11), number % PARTITIONS, timestamp=TIME_MS)
    assert producer.flush(60) == 0
