"""A whole broker, whose clients copy records exactly once: histories of one seed, with kills, slow disks, lost answers.

Each client reads its partition of `in`, writes to `out`, and commits its offset of the group, all in one transaction.
It goes on as producers do. An answer that was lost is asked for again, or the transaction is aborted; an error of the
moment is waited out; after any other error the client begins anew, from the offset of the group. A zombie is a second
client of the same id.

Some clients speak the old protocol, others the new one (KIP-890). In the new one any request may arrive late, or once
more, whenever it likes, and any marker; in the old one only records may, as Kafka promises no more there.

What holds after each step: no last stable offset goes back, and no offset of the group. What holds at the end, without
faults: every record was copied once and in order, whenever the copies were read, and nothing of a transaction is left
open. A history of a seed is the same every time:

    python -m headgate.gateway.coordinator.transactions.tests.exactly_once SEED
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from headgate.gateway.coordinator.transactions.markers import Marker, Written
from headgate.gateway.replication.replica import READ_COMMITTED, READ_UNCOMMITTED
from headgate.gateway.runtime.purgatory import Waiting
from headgate.gateway.tests.builders import Node, over_the_wire
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headgate.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headgate.protocol.messages.end_txn import EndTxnRequest
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headgate.protocol.messages.update_features import (
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)
from headgate.protocol.records import batch, control
from headgate.protocol.records.batch import BatchHeader, Record, build
from headgate.protocol.schema import Message
from headgate.storage.segment.file_slice import FileSlice
from headgate.storage.tests.crashing_files import CrashingFiles, PowerCut

PARTITIONS: Final = 2
RECORDS: Final = 8
"""In each partition of `in`."""
MOST_AT_ONCE: Final = 3
TIMEOUT_MS: Final = 4_000
STEPS: Final = 250
FINAL_STEPS: Final = 6_000
OFFSETS = "__consumer_offsets"

MOMENTARY = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
)
"""After these a client waits, and asks the same again."""


class Asked(NamedTuple):
    """What a client sends; None in place of it is a pause."""

    request: Message
    version: int


LOST = object()
"""In place of an answer."""
Steps = Generator[Asked | None, Any, Any]


class BeginAnew(Exception):
    """The transaction cannot go on; its producer needs an epoch of its own again."""


class GiveUp(Exception):
    """Records got no answer in time; their transaction is aborted, and they may come late."""


def codes_of(response: Any) -> set[int]:
    """Every error code in a response."""
    if isinstance(response, list):
        return {code for one in response for code in codes_of(one)}
    if not hasattr(type(response), "fields"):
        return set()
    found = {code for field in type(response).fields for code in codes_of(getattr(response, field.name))}
    own = {getattr(response, name, 0) for name in ("error_code", "partition_error_code")}
    return (found | own) - {0}


class Copier:
    """A client: a partition of `in`, a transactional id, a protocol."""

    def __init__(self, index: int, random: Random, *, is_new: bool) -> None:
        self.index = index
        self.is_new = is_new
        self.is_waiting = False
        self.is_done = False
        self.sent: list[Asked] = []
        self._random = random
        self._id, self._epoch = -1, -1
        self._sequences = [0] * PARTITIONS
        self._steps = self._copy()
        self._answer: Any = None

    @property
    def transactional_id(self) -> str:
        return f"id-{self.index}"

    # The outside

    def step(self) -> Asked | None:
        """What it sends next; None for a pause, or at its end."""
        answer, self._answer = self._answer, None
        try:
            asked = self._steps.send(answer)
        except StopIteration:
            self.is_done = True
            return None
        if asked is not None:
            self.is_waiting = True
        return asked

    def take(self, answer: Any) -> None:
        """An answer, or LOST."""
        self._answer, self.is_waiting = answer, False

    # The inside

    def _copy(self) -> Steps:
        is_over = False
        while not is_over:
            try:
                yield from self._begin()
                is_over = yield from self._copy_all()
            except BeginAnew:
                yield None

    def _ask(self, request: Message, version: int) -> Steps:
        """The answer, however often it has to be asked for."""
        while True:
            asked = Asked(request, version)
            self.sent.append(asked)
            answer = yield asked
            if answer is LOST:
                if isinstance(request, ProduceRequest) and self._random.random() < 0.5:
                    raise GiveUp
                continue
            codes = {ErrorCode(code) for code in codes_of(answer)}
            if codes - MOMENTARY:
                raise BeginAnew(codes)
            if not codes:
                return answer
            yield None

    def _begin(self) -> Steps:
        made = yield from self._ask(InitProducerIdRequest(self.transactional_id, TIMEOUT_MS), 4)
        self._take_epoch(made.producer_id, made.producer_epoch)

    def _take_epoch(self, producer_id: int, epoch: int) -> None:
        self._id, self._epoch, self._sequences = producer_id, epoch, [0] * PARTITIONS

    def _copy_all(self) -> Steps:
        topics = [OffsetFetchRequestTopics("in", partition_indexes=[self.index])]
        wanted = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)], require_stable=True)
        fetched = yield from self._ask(wanted, 8)
        position = max(0, fetched.groups[0].topics[0].partitions[0].committed_offset)
        while position < RECORDS:
            end = min(RECORDS, position + self._random.randint(1, MOST_AT_ONCE))
            try:
                yield from self._write(range(position, end))
                yield from self._commit_offset(end)
            except GiveUp:
                yield from self._end(is_commit=False)
                raise BeginAnew from None  # nobody knows which sequence comes next
            is_commit = self._random.random() < 0.7
            yield from self._end(is_commit=is_commit)
            if is_commit:
                position = end
        return True

    def _write(self, numbers: range) -> Steps:
        rows: dict[int, list[int]] = {}
        for number in numbers:
            rows.setdefault(number % PARTITIONS, []).append(number)
        if not self.is_new:
            topics = [AddPartitionsToTxnTopic("out", sorted(rows))]
            request = AddPartitionsToTxnRequest([], self.transactional_id, self._id, self._epoch, topics)
            yield from self._ask(request, 3)
        for out in sorted(rows):
            if self._random.random() < 0.2:
                yield None
            yield from self._produce(out, rows[out])

    def _produce(self, out: int, numbers: list[int]) -> Steps:
        data = build(
            [Record(timestamp=1, value=b"%d %d" % (self.index, number)) for number in numbers],
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=self._sequences[out],
            is_transactional=True,
        )
        topic = TopicProduceData("out", partition_data=[PartitionProduceData(out, memoryview(data))])
        request = ProduceRequest(self.transactional_id, -1, 10_000, [topic])
        yield from self._ask(request, 12 if self.is_new else 9)
        self._sequences[out] += len(numbers)

    def _commit_offset(self, offset: int) -> Steps:
        if not self.is_new:
            yield from self._ask(AddOffsetsToTxnRequest(self.transactional_id, self._id, self._epoch, "g"), 3)
        row = TxnOffsetCommitRequestPartition(self.index, offset)
        topics = [TxnOffsetCommitRequestTopic("in", partitions=[row])]
        request = TxnOffsetCommitRequest(self.transactional_id, "g", self._id, self._epoch, topics=topics)
        yield from self._ask(request, 5 if self.is_new else 3)

    def _end(self, *, is_commit: bool) -> Steps:
        request = EndTxnRequest(self.transactional_id, self._id, self._epoch, is_commit)
        ended = yield from self._ask(request, 5 if self.is_new else 3)
        if self.is_new:
            self._take_epoch(ended.producer_id, ended.producer_epoch)


class Reader:
    """A consumer of a partition of `out`, which reads now and then."""

    def __init__(self, out: int, isolation_level: int) -> None:
        self.out = out
        self.isolation_level = isolation_level
        self.read: list[tuple[int, int]] = []
        self.is_waiting = False
        self.offset = 0

    @property
    def request(self) -> FetchRequest:
        """For what comes next, but not for everything."""
        wanted = FetchPartition(partition=self.out, fetch_offset=self.offset, partition_max_bytes=200)
        topics = [FetchTopic("out", partitions=[wanted])]
        return FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=200, isolation_level=self.isolation_level, topics=topics
        )

    def take(self, reply: Any) -> None:
        """Take up an answer, if there is one."""
        self.is_waiting = False
        if not isinstance(reply, Message):
            return
        response: Any = reply
        row = response.responses[0].partitions[0]
        data = row.records.read() if isinstance(row.records, FileSlice) else bytes(row.records or b"")
        aborted = sorted((one.first_offset, one.producer_id) for one in row.aborted_transactions or ())
        batches = batch.split(memoryview(bytearray(data))) if data else []
        self.read += _committed(batches, aborted)
        if batches:
            self.offset = batches[-1][0].last_offset + 1


class HistoryNode(Node):
    """A node on a disk that may be cut off at any write, at a time that goes on over restarts."""

    def __init__(self, files: CrashingFiles, now_ms: int, **settings: str) -> None:
        self._files = files
        self._now_ms = now_ms
        super().__init__(Path("/data"), **settings)

    def disk(self) -> CrashingFiles:
        return self._files

    def _start(self) -> None:
        self.time.clock.wall_ms = self._now_ms
        super()._start()


class World:
    """The broker and its clients; `step` takes one step of the history."""

    def __init__(self, seed: int, **settings: str) -> None:
        self.random = random = Random(seed)
        self._settings = settings
        self.files = CrashingFiles()
        self.files.short_writes = Random(seed)
        self.now_ms = 1_700_000_000_000
        self.kills = 0
        self._late: list[Asked] = []
        self._markers: list[tuple[Marker, str, int]] = []
        self._works: list[Callable[[], None]] = []
        self._stable: dict[tuple[str, int], int] = {}
        self._committed: dict[int, int] = {}
        self._start()
        for topic in ("in", "out"):
            self.node.services.metadata.create_topic(topic, PARTITIONS)
        protocols = [random.random() < 0.5 for _ in range(PARTITIONS)]
        self.clients = [Copier(index, random, is_new=is_new) for index, is_new in enumerate(protocols)]
        self.readers = [Reader(out, level) for out in range(PARTITIONS) for level in (READ_UNCOMMITTED, READ_COMMITTED)]

    def _start(self) -> None:
        self.node = HistoryNode(self.files, self.now_ms, **self._settings)
        self.node.time.scheduler.threads = self._in_thread
        self._append_marker = self.node.services.markers.append
        self.node.services.markers.append = self._note_marker  # type: ignore[method-assign]
        self.has_faults = True

    def _in_thread(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """A thread ends when the history says so."""

        def run() -> None:
            try:
                result: Any = work()
            except Exception as error:  # noqa: BLE001  as the scheduler hands it on
                result = error
            done(result)

        self._works.append(run)

    # Steps

    def step(self) -> None:
        """One event; a kill may come in the middle of it."""
        event = self.random.choices(list(self.EVENTS), list(self.EVENTS.values()))[0]
        self._guarded(lambda: event(self))
        self.check()

    def _guarded(self, event: Callable[[], None]) -> None:
        try:
            event()
            self.node.services.appends.commit()
            self.node.time.advance()
        except PowerCut:
            self._restart()

    def run_client(self) -> None:
        client = self.random.choice(self.clients)
        if not client.is_waiting and not client.is_done:
            self._send(client)

    def _send(self, client: Copier) -> None:
        asked = client.step()
        if asked is None:
            return
        if self.has_faults and _may_repeat(client, asked) and self.random.random() < 0.05:
            self._late.append(asked)
            client.take(LOST)
            return
        loses = self.has_faults and self.random.random() < 0.05
        outcome = self._handle(asked)
        if loses:
            if isinstance(outcome, Waiting):
                self.node.services.purgatory.park(outcome, lambda _: None)
            client.take(LOST)
        elif isinstance(outcome, Waiting):
            self.node.services.purgatory.park(outcome, lambda reply: client.take(_response(asked, reply)))
        else:
            client.take(_response(asked, outcome))

    def _handle(self, asked: Asked) -> Any:
        return self.node.handle(over_the_wire(asked.request, asked.version), asked.version)

    def read(self, reader: Reader | None = None) -> None:
        """A consumer reads on."""
        reader = reader or self.random.choice(self.readers)
        if reader.is_waiting:
            return
        outcome = self.node.handle(reader.request, 12)
        if isinstance(outcome, Waiting):
            reader.is_waiting = True
            self.node.services.purgatory.park(outcome, reader.take)
        else:
            reader.take(outcome)

    def repeat(self) -> None:
        """A request of long ago arrives once more."""
        client = self.random.choice(self.clients)
        if client.sent:
            asked = self.random.choice(client.sent)
            if _may_repeat(client, asked):
                self._handle_for_nobody(asked)

    def arrive_late(self) -> None:
        """A request arrives whose client has given it up."""
        if self._late:
            self._handle_for_nobody(self._late.pop(self.random.randrange(len(self._late))))

    def _handle_for_nobody(self, asked: Asked) -> None:
        outcome = self._handle(asked)
        if isinstance(outcome, Waiting):
            self.node.services.purgatory.park(outcome, lambda _: None)

    def add_zombie(self) -> None:
        if len(self.clients) < 2 * PARTITIONS:
            original = self.random.choice(self.clients)
            self.clients.append(Copier(original.index, self.random, is_new=original.is_new))

    def end_work(self) -> None:
        """A thread has done its work."""
        if self._works:
            self._works.pop(0)()

    def pass_time(self) -> None:
        self.node.time.advance(self.random.choice([1, 10, 100, 1_000, TIMEOUT_MS]))

    def slow_down(self) -> None:
        """Threads write for a while."""
        for status in self.node.services.partitions.directories.values():
            status.disk.is_slow = True

    def speed_up(self) -> None:
        for status in self.node.services.partitions.directories.values():
            status.disk.is_slow = False

    def _note_marker(self, marker: Marker, topic: str, index: int, written: Written) -> None:
        self._markers.append((marker, topic, index))
        self._append_marker(marker, topic, index, written)

    def repeat_marker(self) -> None:
        """A marker of the new protocol arrives once more, as from a coordinator that was cut off for a while."""
        if self._markers:
            marker, topic, index = self.random.choice(self._markers)
            if marker.has_raised_epoch:
                self._append_marker(marker, topic, index, lambda _: None)
                self.node.services.markers.commit()

    def change_level(self) -> None:
        """An operator finalizes the feature at another level, whatever is open."""
        kind = self.random.choice((UPGRADE, UNSAFE_DOWNGRADE))  # refused in the wrong direction
        update = FeatureUpdateKey("transaction.version", self.random.randint(0, 2), upgrade_type=kind)
        self._handle(Asked(UpdateFeaturesRequest(feature_updates=[update]), 1))

    def fail_write(self) -> None:
        """One of the next writes to a log fails."""
        self.files.fail(errno.ENOSPC, "write", path=".log", after=self.random.randint(0, 5), times=1)

    def cut_soon(self) -> None:
        """The process is killed in the middle of one of its next writes."""
        self.files.cut_after = self.random.randint(0, 12)

    def kill(self) -> None:
        raise PowerCut

    EVENTS: Final = {
        run_client: 60.0,
        end_work: 15.0,
        read: 6.0,
        repeat: 4.0,
        arrive_late: 3.0,
        repeat_marker: 3.0,
        change_level: 1.0,
        fail_write: 1.0,
        pass_time: 3.0,
        add_zombie: 0.5,
        slow_down: 1.0,
        speed_up: 2.0,
        cut_soon: 1.0,
        kill: 0.5,
    }

    def _restart(self) -> None:
        """The process was killed: what was written is there, and nobody hears of what was asked."""
        self.kills += 1
        self.now_ms = self.node.time.clock.now_ms() + 1
        self._works.clear()
        self.files = self.files.crash(self.random, power=False)
        self._start()
        for client in self.clients:
            if client.is_waiting:
                client.take(LOST)
        for reader in self.readers:
            reader.is_waiting = False

    # What holds

    def check(self) -> None:
        """After each step."""
        services = self.node.services
        for replica in services.partitions:
            key = replica.topic, replica.index
            stable = replica.last_stable_offset
            assert stable >= self._stable.get(key, 0), f"the last stable offset of {key} went back"
            self._stable[key] = stable
        try:
            shards = list(services.groups.shards())
        except KafkaError:
            return
        for shard in shards:
            for (_, index), value in shard.offsets.of("g").items():
                assert value.offset >= self._committed.get(index, 0), f"the group went back in partition {index}"
                self._committed[index] = value.offset

    def finish(self) -> None:
        """Without faults everything ends."""
        self.has_faults = False
        self.files.cut_after = None
        self.files.heal()
        while self._late:
            self._guarded(self.arrive_late)
        self._guarded(self.speed_up)
        self.clients = [
            next(one for one in reversed(self.clients) if one.index == index) for index in range(PARTITIONS)
        ]
        for _ in range(FINAL_STEPS):
            if all(client.is_done for client in self.clients):
                break
            self.run_client()
            self.end_work()
            self.node.time.advance(5)
            self.check()
        assert all(client.is_done for client in self.clients), "a client hangs"
        for _ in range(200):
            self.end_work()
            self.node.time.advance(100)
            self.check()
        for replica in self.node.services.partitions:
            assert replica.last_stable_offset == replica.log.end_offset, f"{replica} has an open transaction"
        for shard in self.node.services.groups.shards():
            assert shard.offsets.pending == {}
        self._check_copies()

    def _check_copies(self) -> None:
        copies = [self.read_all(out, READ_COMMITTED) for out in range(PARTITIONS)]
        everything = [(index, number) for index in range(PARTITIONS) for number in range(RECORDS)]
        assert sorted(number for copied in copies for number in copied) == everything, "not every record once"
        for copied in copies:
            for index in range(PARTITIONS):
                mine = [number for number in copied if number[0] == index]
                assert mine == sorted(mine), "not in order"
        for reader in self.readers:
            read = reader.read.copy()
            if reader.isolation_level == READ_COMMITTED:
                assert read == copies[reader.out][: len(read)], "a consumer has read something else"
            else:
                assert read == self.read_all(reader.out, READ_UNCOMMITTED)[: len(read)]
        assert self._committed == dict.fromkeys(range(PARTITIONS), RECORDS)

    def read_all(self, out: int, isolation_level: int) -> list[tuple[int, int]]:
        """What a new consumer reads: (partition of `in`, number)."""
        reader = Reader(out, isolation_level)
        offset = -1
        while reader.offset > offset:
            offset = reader.offset
            self.read(reader)
            while reader.is_waiting:
                self.end_work()
                self.node.time.advance()
        return reader.read


def _committed(
    batches: list[tuple[BatchHeader, memoryview]], aborted: list[tuple[int, int]]
) -> Generator[tuple[int, int], None, None]:
    """The records outside of aborted transactions; `aborted` are (first offset, producer id), in order."""
    dropped: set[int] = set()
    for header, part in batches:
        while aborted and aborted[0][0] <= header.last_offset:
            dropped.add(aborted.pop(0)[1])
        if header.is_control:
            marker = control.read(part)
            if marker is not None and not marker.is_commit:
                dropped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropped):
            for record in batch.iterate(part):
                index, number = (record.value or b"").split()
                yield int(index), int(number)


def _may_repeat(client: Copier, asked: Asked) -> bool:
    """Whether a request may arrive late, or twice: one that begins an epoch would fence its own client."""
    if isinstance(asked.request, ProduceRequest):
        return True
    return client.is_new and not isinstance(asked.request, InitProducerIdRequest | OffsetFetchRequest)


def _response(asked: Asked, reply: Any) -> Any:
    """What the client reads."""
    if isinstance(reply, KafkaError):
        reply = asked.request.error_response(asked.version, reply.code, reply.message)
    assert isinstance(reply, Message), reply
    return over_the_wire(reply, asked.version)


def run(seed: int, **settings: str) -> World:
    """One history."""
    world = World(seed, **settings)
    for _ in range(STEPS):
        world.step()
    world.finish()
    return world


if __name__ == "__main__":
    run(int(sys.argv[1]))
