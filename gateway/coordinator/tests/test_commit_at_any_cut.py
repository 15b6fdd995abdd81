"""`headgate.flush=commit`, proven: whatever was acknowledged or could be read is on the disk at that moment.

Random histories of produce requests, of threads that sync when they like, and of syncs that fail. After each event the
power is cut, in a copy of the disk: once with the loss of all that was not synced, now and then with the loss of some.
A store opened there has every batch of which a client was told, and reaches to every high watermark.
"""

import copy
import errno
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.tests.builders import HandlerBroker, handler_of
from headgate.gateway.tests.requests import produce_request
from headgate.protocol.records.batch import Record, build
from headgate.protocol.tests.examples import share
from headgate.storage.config import LogConfig
from headgate.storage.log.log import Log
from headgate.storage.tests.builders import NOW_MS, next_offset, open_directory
from headgate.storage.tests.crashing_files import CrashingFiles

DIRECTORY = "/data"
PARTITIONS = 3
CONFIGS = {"headgate.flush": "commit", "segment.bytes": "2000"}
EVENTS = ["produce"] * 6 + ["produce_to_leader", "end_turn", "end_turn", "sync", "sync", "take_up", "take_up", "fail"]


class CrashingNode(HandlerBroker):
    """A node on a disk that forgets."""

    def __init__(self, files: CrashingFiles) -> None:
        self.files = files
        super().__init__(Path(DIRECTORY))

    def disk(self) -> CrashingFiles:
        return self.files


class Told:
    """One produce request: what it sent, and what its client was told."""

    def __init__(self, partition: int, data: bytes) -> None:
        self.partition = partition
        self.data = data
        self.response: Any = None

    def take(self, response: Any) -> None:
        assert self.response is None
        self.response = response

    @property
    def offset(self) -> int | None:
        """Where it was acknowledged, if it was."""
        if self.response is None:
            return None
        ((row,),) = [topic.partition_responses for topic in self.response.responses]
        return row.base_offset if row.error_code == 0 else None


class CommitHistory:
    """A node whose threads run when the history says so."""

    def __init__(self, seed: int, configs: dict[str, str]) -> None:
        self.random = Random(seed)
        self.files = CrashingFiles()
        self.node = CrashingNode(self.files)
        self.node.services.metadata.create_topic("t", PARTITIONS, configs=configs)
        self.worked: list[tuple[Any, Callable[[Any], None]]] = []
        self.working = self.node.time.scheduler.hold().waiting
        self.told: list[Told] = []

    # Events

    def produce(self, acks: int = -1) -> None:
        records = [Record(timestamp=NOW_MS, value=self.random.randbytes(self.random.choice([5, 400])))]
        told = Told(self.random.randrange(PARTITIONS), bytes(build(records)))
        request = produce_request(bytearray(told.data), "t", told.partition, acks=acks, timeout_ms=60_000)
        outcome = handler_of(request, 9)(request, self.node.context(9))
        if is_task(outcome):
            self.node.services.tasks.start(outcome, told.take)
        if acks == -1:
            self.told.append(told)
            if not is_task(outcome):
                told.take(outcome)

    def produce_to_leader(self) -> None:
        """acks=1 is answered before the disk has it, and promises no more."""
        self.produce(1)

    def end_turn(self) -> None:
        self.node.services.batcher.write_all()
        self.node.time.advance()

    def sync(self) -> None:
        """A thread has done its work; the loop does not know yet."""
        if self.working:
            work, done = self.working.pop(self.random.randrange(len(self.working)))
            try:
                result = work()
            except OSError as error:
                result = error
            self.worked.append((result, done))

    def take_up(self) -> None:
        if self.worked:
            result, done = self.worked.pop(self.random.randrange(len(self.worked)))
            done(result)
            self.node.time.advance()

    def fail(self) -> None:
        """The next sync, or the one after it, fails, once."""
        if self.random.random() < 0.3:
            self.files.fail(errno.EIO, "sync", "sync_directory", after=self.random.randint(0, 1), times=1)

    # What holds after each

    def check(self) -> None:
        self.check_after(self.files.copy(only_durable=True))
        if self.random.random() < 0.05:
            self.check_after(copy.deepcopy(self.files).crash(self.random, power=True))

    def check_after(self, files: CrashingFiles) -> None:
        random = Random(0)
        store = open_directory(DIRECTORY, files=files, node_id=0, config=LogConfig(), now_ms=NOW_MS, random=random)
        assert not store.failed
        for told in self.told:
            if told.offset is not None:
                log = store.logs.get(("t", told.partition))
                assert log is not None, "it was acknowledged"
                assert stored_at(log, told.offset) == told.data[16:], "it was acknowledged"
        for index in range(PARTITIONS):
            high_watermark = self.node.services.partitions.get("t", index).high_watermark
            log = store.logs.get(("t", index))
            assert high_watermark <= (log.end_offset if log is not None else 0), "it could be read"


def stored_at(log: Log, offset: int) -> bytes:
    """The batch that begins there, but for what the leader patches."""
    piece = log.read(offset, 1, log.end_offset, at_least_one=True)
    assert piece is not None, f"{log} has nothing at {offset}"
    data = piece.read()
    assert next_offset(data) == offset + 1
    return data[16:]


def run(seed: int, events: list[str], configs: dict[str, str]) -> CommitHistory:
    history = CommitHistory(seed, configs)
    for event in [*events, "end_turn", "sync", "take_up"]:
        getattr(history, event)()
        history.check()
    return history


@pytest.mark.slow
@settings(max_examples=share(50, soak=150))
@given(events=st.lists(st.sampled_from(EVENTS), min_size=20, max_size=50), seed=st.integers(0, 1 << 32))
def test_nothing_is_acknowledged_or_read_before_it_is_on_the_disk(events: list[str], seed: int) -> None:
    run(seed, events, CONFIGS)


def test_requests_are_acknowledged_at_all() -> None:
    events = ["produce", "end_turn", "sync", "take_up"] * 10
    history = run(0, events, CONFIGS)
    assert sum(told.offset is not None for told in history.told) == 10


def test_the_page_cache_alone_does_not_pass() -> None:
    """The proof can fail: with the default policy a request is answered that a power cut takes back."""
    with pytest.raises(AssertionError, match=r"it could be read|it was acknowledged|has nothing"):
        run(0, ["produce", "end_turn"], {})
