"""A session that looks only at dirty partitions answers, after any history, as one that looks at all of them.

`LooksAtAll` is the reference: it plans every partition of the session at each fetch, and remembers what it told.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headgate.gateway.api.fetch.plan import FetchPlan
from headgate.gateway.api.fetch.rows import PartitionReader
from headgate.gateway.api.fetch_sessions import FetchTurn
from headgate.gateway.replication.append_queue import DiskMonitor
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.tasks import Running, is_task
from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler, ManualClock, hung
from headgate.gateway.tests.builders import HandlerBroker, records, start
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headgate.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from headgate.protocol.records import control
from headgate.protocol.records.batch import Record, build
from headgate.protocol.records.control import Marker
from headgate.protocol.tests.examples import share
from headgate.storage.log import flushing, rolling
from headgate.storage.log.validation import BROKER
from headgate.storage.segment.file_slice import FileSlice
from headgate.storage.tests.builders import no_checkpoint
from headgate.storage.tests.truncating import truncate_to

NOW_MS = 1_700_000_000_000
TOPICS = {"t": 3, "u": 2, "v": 1}
Key = tuple[str | bytes, int]
ALL = [(name, index) for name, count in TOPICS.items() for index in range(count)]
ANY_PARTITION = st.sampled_from(ALL)
PLACES = st.sampled_from(["end", "end", "end", "middle", "start", "wrong"])


def said(row: PartitionData) -> tuple[Any, ...]:
    """What a client sees of a row."""
    records = row.records
    piece = (records.position, records.length) if isinstance(records, FileSlice) else len(records or b"")
    offsets = row.high_watermark, row.last_stable_offset, row.log_start_offset
    aborted = [(one.producer_id, one.first_offset) for one in row.aborted_transactions or ()]
    return row.partition_index, int(row.error_code), offsets, piece, aborted, row.diverging_epoch.end_offset


class LooksAtAll:
    """A session that looks at all of its partitions each time."""

    def __init__(self) -> None:
        self.wanted: dict[Key, FetchPartition] = {}
        self.told: dict[Key, tuple[int, int, int]] = {}
        self.is_open = False

    def take(self, named: dict[Key, FetchPartition], forgotten: list[Key]) -> None:
        for key, wanted in named.items():
            self.wanted[key] = wanted
        for key in forgotten:
            self.wanted.pop(key, None)
            self.told.pop(key, None)

    def plan(self, node: HandlerBroker, request: FetchRequest, version: int) -> list[PartitionData]:
        turn = FetchTurn([(key[0], wanted) for key, wanted in self.wanted.items()])
        reader = PartitionReader(node.context(version), request.isolation_level)
        return FetchPlan(request, node.services, turn, 0.0, reader).few_rows(blocking=True) or []

    def select(self, rows: list[PartitionData], is_full: bool) -> list[tuple[str | bytes, tuple[Any, ...]]]:
        found: dict[str | bytes, list[PartitionData]] = {}
        for key, row in zip(list(self.wanted), rows, strict=True):
            before, offsets = self.told.get(key), (row.high_watermark, row.last_stable_offset, row.log_start_offset)
            self.told[key] = (-1, -1, -1) if row.error_code else offsets
            is_new = bool(row.error_code) or offsets != before or row.diverging_epoch.epoch >= 0
            if row.records and not is_full:
                self.wanted[key] = self.wanted.pop(key)
            if is_full or row.records or is_new:
                found.setdefault(key[0], []).append(row)
        return [(topic, said(row)) for topic, its in found.items() for row in its]


HUNG = DiskMonitor(ManualClock(), FakeScheduler(ManualClock(), threads=hung), lambda _: None)
"""A disk on which nothing is synced but by `Histories.sync`."""


class Histories(RuleBasedStateMachine):
    version = 12

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp())
        self.node = HandlerBroker(self.path)
        for name, count in TOPICS.items():
            self.node.services.metadata.create_topic(name, count)
        self.reference = LooksAtAll()
        self.session_id = self.epoch = 0
        self.sequences: dict[tuple[Replica, int], int] = {}
        self.parked: tuple[Running[Any], FetchRequest, list[Any]] | None = None
        self.answers: dict[Key, ErrorCode] = {}  # that ask for another fetch

    def teardown(self) -> None:
        self.node.close()
        shutil.rmtree(self.path)

    def partition(self, which: tuple[str, int]) -> Replica | None:
        try:
            return self.node.services.partitions.get(*which)
        except KafkaError:
            return None

    # What happens to partitions

    @rule(which=ANY_PARTITION, size=st.sampled_from([1, 200]))
    def append(self, which: tuple[str, int], size: int) -> None:
        partition = self.partition(which)
        if partition is not None:
            partition.append(records(bytes(size)), 1, NOW_MS)

    @rule(which=ANY_PARTITION, producer_id=st.sampled_from([7, 8]))
    def append_in_transaction(self, which: tuple[str, int], producer_id: int) -> None:
        partition = self.partition(which)
        if partition is not None:
            sequence = self.sequences.get((partition, producer_id), 0)
            options: Any = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
            data = build([Record(timestamp=NOW_MS, value=b"x")], is_transactional=True, **options)
            with contextlib.suppress(KafkaError):  # what it wrote before may have been cut off
                partition.append(memoryview(data), 1, NOW_MS, BROKER)
                self.sequences[partition, producer_id] = sequence + 1

    @rule(which=ANY_PARTITION, producer_id=st.sampled_from([7, 8]), is_commit=st.booleans())
    def end_transaction(self, which: tuple[str, int], producer_id: int, is_commit: bool) -> None:
        partition = self.partition(which)
        if partition is not None:
            made = control.build(Marker(is_commit, 3), producer_id=producer_id, producer_epoch=0, timestamp=NOW_MS)
            partition.append(memoryview(made), 1, NOW_MS, BROKER)

    @rule(which=ANY_PARTITION, is_on=st.booleans())
    def follow_the_disk(self, which: tuple[str, int], is_on: bool) -> None:
        """From now on the high watermark follows what is synced, or does not."""
        replica = self.partition(which)
        if replica is not None:
            replica.disk = HUNG
            replica.configure(replace(replica.log.config, headgate_flush="commit" if is_on else "cache"))

    @rule(which=ANY_PARTITION)
    def sync(self, which: tuple[str, int]) -> None:
        replica = self.partition(which)
        if replica is not None:
            flushing.flush(replica.log)
            replica.synced()

    @rule(which=ANY_PARTITION)
    def delete_records(self, which: tuple[str, int]) -> None:
        wanted = DeleteRecordsPartition(partition_index=which[1], offset=-1)
        topic = DeleteRecordsTopic(name=which[0], partitions=[wanted])
        self.node.handle(DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2)

    @rule(which=ANY_PARTITION, back=st.integers(1, 3))
    def cut(self, which: tuple[str, int], back: int) -> None:
        replica = self.partition(which)
        if replica is not None:
            truncate_to(replica.log, max(replica.log.start_offset, replica.log.end_offset - back), no_checkpoint)
            replica.apply_truncation()

    @rule(which=ANY_PARTITION)
    def roll(self, which: tuple[str, int]) -> None:
        replica = self.partition(which)
        if replica is not None and replica.log.segments.active.size:
            rolling.roll(replica.log, NOW_MS)

    @rule(name=st.sampled_from(list(TOPICS)), is_wanted=st.sampled_from([True, False, False]))
    def delete_or_make(self, name: str, is_wanted: bool) -> None:
        metadata = self.node.services.metadata
        if not is_wanted and name in metadata.image.topics:
            return
        if name in metadata.image.topics:
            metadata.delete_topic(name)
        else:
            metadata.create_topic(name, TOPICS[name])

    @rule(leader=st.sampled_from([0, 0, 5]), leader_epoch=st.integers(0, 2))
    def lead(self, leader: int, leader_epoch: int) -> None:
        """Topic v is led by another node, or by this one, in some epoch."""
        metadata = self.node.services.metadata
        old = metadata.image
        topic = old.topics.get("v")
        if topic is not None:
            state = topic.partitions[0]._replace(leader=leader, leader_epoch=leader_epoch)
            metadata.image = old._replace(topics={**old.topics, "v": topic._replace(partitions=(state,))})
            self.node.services.partitions.follow(old, metadata.image, ["v"])

    # Fetches

    def key(self, which: tuple[str, int]) -> Key | None:
        topic = self.node.services.metadata.image.topics.get(which[0])
        if self.version < 13:
            return which
        return None if topic is None else (topic.topic_id, which[1])

    def offset(self, which: tuple[str, int], place: str) -> int:
        replica = self.partition(which)
        if replica is None or place == "wrong":
            return 99
        start, end = replica.log.start_offset, replica.log.end_offset
        return {"start": start, "middle": (start + end) // 2, "end": replica.high_watermark}[place]

    def take_note(self, response: FetchResponse) -> None:
        """A client names again what it was told records or an error of, and forgets a topic that is gone."""
        for topic in response.responses:
            for row in topic.partitions:
                key = topic.topic or topic.topic_id, row.partition_index
                if row.error_code or row.records:
                    self.answers[key] = ErrorCode(row.error_code)

    def after_answers(self) -> tuple[dict[tuple[str, int], str], list[Key]]:
        names = {topic.topic_id: name for name, topic in self.node.services.metadata.image.topics.items()}
        named, gone = dict[tuple[str, int], str](), list[Key]()
        for key, code in self.answers.items():
            name = key[0] if isinstance(key[0], str) else names.get(key[0], "")
            if code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID) or not name:
                gone.append(key)
            else:
                named[name, key[1]] = "end" if code == ErrorCode.NONE else "start"
        self.answers.clear()
        return named, gone

    @initialize()
    def open(self) -> None:
        for which in ALL:
            self.append(which, 1)
        limits = {"max_bytes": 1 << 20, "min_bytes": 1, "max_wait_ms": 0, "isolation_level": 0}
        self.fetch_with(dict.fromkeys(ALL, "end"), [], -1, 1 << 20, is_full=True, **limits)

    @rule(
        named=st.dictionaries(ANY_PARTITION, PLACES, max_size=2),
        forgotten=st.sampled_from([None] * 9 + ALL),
        reacts=st.sampled_from([True] * 4 + [False]),
        epoch=st.sampled_from([-1] * 6 + [0, 1]),
        max_bytes=st.sampled_from([1, 300, 1 << 20]),
        partition_max_bytes=st.sampled_from([1, 100, 1 << 20]),
        min_bytes=st.sampled_from([1, 150, 600]),
        max_wait_ms=st.sampled_from([0, 500]),
        isolation_level=st.sampled_from([0, 1, 1]),
        is_full=st.sampled_from([False] * 19 + [True]),
    )
    def fetch(
        self,
        named: dict[tuple[str, int], str],
        forgotten: tuple[str, int] | None,
        reacts: bool,
        epoch: int,
        partition_max_bytes: int,
        is_full: bool,
        **options: Any,
    ) -> None:
        self.settle(is_abandoned=is_full)
        gone = list[Key]()
        if reacts:
            again, gone = self.after_answers()
            named = {**again, **named}
        if forgotten is not None and (key := self.key(forgotten)) is not None:
            gone.append(key)
        is_full = is_full or not self.reference.is_open
        self.fetch_with(named, [] if is_full else gone, epoch, partition_max_bytes, is_full=is_full, **options)

    @rule(isolation_level=st.sampled_from([0, 1]), max_wait_ms=st.sampled_from([0, 500]))
    def fetch_as_before(self, isolation_level: int, max_wait_ms: int) -> None:
        """Name nothing but what the last answer asks for."""
        options = {"isolation_level": isolation_level, "max_wait_ms": max_wait_ms, "max_bytes": 1 << 20, "min_bytes": 1}
        self.settle(is_abandoned=False)
        named, gone = self.after_answers()
        if self.reference.is_open:
            self.fetch_with(named, gone, -1, 1 << 20, is_full=False, **options)

    def fetch_with(
        self,
        named: dict[tuple[str, int], str],
        gone: list[Key],
        epoch: int,
        partition_max_bytes: int,
        *,
        is_full: bool,
        **options: Any,
    ) -> None:
        wanted = {
            key: FetchPartition(partition=key[1], fetch_offset=self.offset(which, place), current_leader_epoch=epoch,
                                partition_max_bytes=partition_max_bytes)
            for which, place in named.items() if (key := self.key(which)) is not None
        }  # fmt: skip
        if is_full and not wanted:
            return
        if is_full:
            self.reference = LooksAtAll()
        self.reference.take(wanted, gone)
        request = self.request(wanted, gone, is_full, **options)
        outcome = self.node.handle(request, self.version)
        if not is_task(outcome):
            self.answered(request, outcome)
        else:
            answers: list[Any] = []
            self.parked = start(self.node, outcome, answers.append), request, answers

    def request(
        self, wanted: dict[Key, FetchPartition], gone: list[Key], is_full: bool, **options: Any
    ) -> FetchRequest:
        def name(key: Key) -> dict[str, Any]:
            return {"topic": key[0]} if isinstance(key[0], str) else {"topic_id": key[0]}

        return FetchRequest(
            session_id=self.session_id,
            session_epoch=0 if is_full else self.epoch,
            topics=[FetchTopic(**name(key), partitions=[partition]) for key, partition in wanted.items()],
            forgotten_topics_data=[ForgottenTopic(**name(key), partitions=[key[1]]) for key in gone],
            **options,
        )

    def answered(self, request: FetchRequest, response: Any) -> None:
        """Compare an answer with what the reference would say in this moment."""
        assert isinstance(response, FetchResponse)
        assert response.error_code == 0
        is_full = request.session_epoch == 0
        told = [(topic.topic or topic.topic_id, said(row)) for topic in response.responses for row in topic.partitions]
        assert told == self.reference.select(self.reference.plan(self.node, request, self.version), is_full)
        self.epoch = 1 if is_full else self.epoch + 1
        self.session_id, self.reference.is_open = response.session_id, bool(response.session_id)
        self.take_note(response)

    def settle(self, is_abandoned: bool) -> None:
        """End the fetch that is parked: its time is up, or its client has gone."""
        if self.parked is None:
            return
        running, request, answers = self.parked
        self.parked = None
        if is_abandoned and request.session_epoch:
            running.cancel()
            self.epoch += 1
        else:
            self.node.time.advance(500)
            self.answered(request, answers[0])

    @rule()
    def go(self) -> None:
        self.settle(is_abandoned=True)

    @invariant()
    def a_parked_fetch_is_answered_when_there_is_enough(self) -> None:
        self.node.time.advance()
        if self.parked is None:
            return
        _, request, answers = self.parked
        if answers:
            self.parked = None
            self.answered(request, answers[0])
        else:
            rows = self.reference.plan(self.node, request, self.version)
            assert not any(row.error_code for row in rows)
            assert sum(len(row.records or b"") for row in rows) < request.min_bytes

    @invariant()
    def only_clean_partitions_are_watched(self) -> None:
        """No watch is left of a partition or a session that is gone."""
        sessions = self.node.services.fetch_sessions
        watches = sum(len(replica.waiters.watches) for replica in self.node.services.partitions)
        assert watches <= sessions.total_partitions


class HistoriesById(Histories):
    version = 13


@pytest.mark.slow
@pytest.mark.parametrize("machine", [Histories, HistoriesById])
def test_a_session_answers_as_one_that_looks_at_all(machine: type[Histories]) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    many = settings(
        max_examples=share(25),
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    run_state_machine_as_test(machine, settings=many)
