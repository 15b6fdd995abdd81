"""`headgate.flush=commit` through the handlers: what was acknowledged, or shown to a consumer, survives any power cut.

Random histories over a disk that forgets what was not synced: producers of both kinds, consumers, threads that end in
any order, segments that roll, metadata that changes; then the power fails, in the middle of anything.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from headgate.gateway.replication.replica import READ_UNCOMMITTED
from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.tests.builders import HandlerBroker, handler_of
from headgate.gateway.tests.requests import produce_request
from headgate.protocol.errors import KafkaError
from headgate.protocol.records.batch import Record, build, iterate, split
from headgate.protocol.tests.examples import first_in_unit
from headgate.storage.files import Files
from headgate.storage.tests.crashing_files import CrashingFiles, PowerCut

PARTITIONS = 3
CONFIGS = {"headgate.flush": "commit", "segment.bytes": "300"}
Place = tuple[str, int, int]
"""Topic, partition, offset."""


class CrashingNode(HandlerBroker):
    """A node on such a disk."""

    def __init__(self, directory: Path, files: CrashingFiles) -> None:
        self._crashing = files
        super().__init__(directory)

    def disk(self) -> Files:
        return self._crashing


class History:
    """One run of a broker, up to a power cut, and what clients of it know then."""

    def __init__(self, directory: Path, seed: int, *, by_threads: bool = True) -> None:
        self.random = Random(seed)
        self.directory = directory
        self.files = CrashingFiles()
        self.node = CrashingNode(directory, self.files)
        self.acknowledged: dict[Place, bytes] = {}
        self.shown: dict[Place, bytes | None] = {}
        self.topics = ["t0"]
        self.node.services.metadata.create_topic("t0", PARTITIONS, configs=CONFIGS)
        self._next_value = 0
        self.threads = self.node.time.scheduler.hold().waiting if by_threads else []

    def run(self, steps: int) -> None:
        actions = [self.produce] * 6 + [self.end_turn] * 3 + [self.run_thread] * 4 + [self.consume, self.create]
        try:
            for _ in range(steps):
                self.random.choice(actions)()
        except PowerCut:
            pass

    def produce(self) -> None:
        topic, index = self.random.choice(self.topics), self.random.randrange(PARTITIONS)
        acks, count = self.random.choice((-1, -1, 1)), self.random.choice((1, 1, 3))
        values = [b"%d" % (self._next_value + number) for number in range(count)]
        self._next_value += count
        records = [Record(timestamp=self.node.time.clock.now_ms(), value=value) for value in values]
        request = produce_request(build(records), topic, index, acks=acks, timeout_ms=60_000)
        outcome = handler_of(request, 9)(request, self.node.context(9))
        if acks != -1:
            return

        def told(response: Any) -> None:
            (row,) = response.responses[0].partition_responses
            if not row.error_code:
                for number, value in enumerate(values):
                    self.acknowledged[topic, index, row.base_offset + number] = value

        if is_task(outcome):
            self.node.services.tasks.start(outcome, told)
        else:
            told(outcome)

    def end_turn(self) -> None:
        self.node.services.batcher.write_all()
        self.node.time.advance()

    def run_thread(self) -> None:
        self.end_turn()
        if self.threads:
            work, done = self.threads.pop(self.random.randrange(len(self.threads)))
            result: Any
            try:
                result = work()
            except OSError as error:
                result = error
            done(result)
            self.node.time.advance()

    def consume(self) -> None:
        self.end_turn()
        self.shown |= self.readable(self.node)

    def create(self) -> None:
        self.end_turn()
        name = f"t{len(self.topics)}"
        if len(self.topics) < 3:
            self.node.services.metadata.create_topic(name, PARTITIONS, configs=CONFIGS)
            self.topics.append(name)

    def readable(self, node: HandlerBroker) -> dict[Place, bytes | None]:
        """All that a consumer can read."""
        found: dict[Place, bytes | None] = {}
        for replica in node.services.partitions:
            offset = replica.log.start_offset
            while True:
                piece = replica.read(offset, 1 << 20, READ_UNCOMMITTED, at_least_one=True)
                if piece is None:
                    break
                for record in iterate_all(piece.read()):
                    found[replica.topic, replica.index, record.offset] = record.value
                    offset = record.offset + 1
                piece.release()
        return found

    def after_the_cut(self) -> dict[Place, bytes | None]:
        return self.readable(CrashingNode(self.directory, self.files.crash(self.random, power=True)))


def iterate_all(data: bytes) -> list[Record]:
    return [record for _, view in split(memoryview(data)) for record in iterate(view)]


@pytest.mark.parametrize("seed", list(first_in_unit(range(60), 10, some=30)))
def test_nothing_that_anybody_knows_of_is_lost(seed: int) -> None:
    history = History(Path("/data"), seed)
    if seed % 2:
        history.files.cut_after = history.random.randrange(40, 400)
    history.run(90)
    known = {**history.acknowledged, **history.shown}
    found = history.after_the_cut()
    lost = {place: value for place, value in known.items() if found.get(place) != value}
    assert not lost


def test_the_histories_are_about_something() -> None:
    history = History(Path("/data"), 2)
    history.run(200)
    assert len(history.acknowledged) > 30
    assert len(history.shown) > 30
    assert history.threads, "something is under way when the power fails"
    assert any(len(replica.log.segments) > 1 for replica in history.node.services.partitions)


def test_without_the_policy_they_would_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nothing was shown."""
    monkeypatch.setitem(CONFIGS, "headgate.flush", "cache")
    lost = 0
    for seed in range(10):
        history = History(Path("/data"), seed)
        history.run(60)
        found = history.after_the_cut()
        lost += sum(found.get(place) != value for place, value in history.acknowledged.items())
    assert lost


@pytest.mark.slow
def test_a_disk_that_fails_to_sync_acknowledges_nothing() -> None:
    for seed in range(5):
        history = History(Path("/data"), seed)
        history.run(60)
        history.files.fail(5, "sync", path=".log")
        history.run(60)
        known = {**history.acknowledged, **history.shown}
        try:
            found = history.after_the_cut()
        except KafkaError as error:
            pytest.fail(f"seed {seed}: {error}")
        assert not {place: value for place, value in known.items() if found.get(place) != value}
