"""The clients of a simulated cluster: idempotent producers, consumers, and a client that commits offsets.

They do what stock clients do: ask any broker for the leader or the coordinator, ask again after each error that Kafka
calls retriable and after each lost connection, give a repeated batch the sequence that it had, and believe no metadata
that are older than what they know (KIP-320). Any other error is a failure of the simulation. What they were told is in
`History`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple, cast

from headgate.gateway.network.links import Link, Links
from headgate.gateway.runtime.broker_links import LinkLost
from headgate.gateway.runtime.tasks import Task, Tasks, gather, sleep
from headgate.gateway.tests.requests import commit_request, produce_request
from headgate.gateway.tests.simulation.cluster import FIRST_PORT, TOPIC, Cluster
from headgate.gateway.tests.simulation.world import EPOCH_MS, Host
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages import find_coordinator
from headgate.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from headgate.protocol.messages.find_coordinator import FindCoordinatorRequest
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest
from headgate.protocol.messages.list_offsets import (
    LATEST,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from headgate.protocol.records.aborted_batches import AbortedBatches
from headgate.protocol.records.batch import Record, build, iterate, split
from headgate.protocol.schema import Message

GROUP: Final = "g"
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
BACKOFF_MS: Final = 100.0
REQUEST_MS: Final = 2_500.0
LOOKS_AT_LEADER: Final = 4
RETRIABLE: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
)


class ClientFailure(AssertionError):
    """A client was told something that no broker may tell it."""


class CoordinatorKey(NamedTuple):
    """What a coordinator is asked for: `key_type` as in FindCoordinator."""

    name: str
    key_type: int = find_coordinator.GROUP


class Batch(NamedTuple):
    """A batch, and its values."""

    data: bytes
    values: list[bytes]


class History:
    """What the clients were told."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, bytes]] = []
        """(partition, value) of each record that a producer has begun to send."""
        self.acknowledged: dict[tuple[int, bytes], int] = {}
        """(partition, value) of each acknowledged record -> its offset; -1 if the acknowledgement has none."""
        self.seen: dict[tuple[int, int], bytes] = {}
        """(partition, offset) -> the value that a consumer has read there."""
        self.ends: dict[int, int] = {}
        """The end of the records of a partition that clients know to be committed."""
        self.when_grown: list[Callable[[int], None]] = []
        """Called with a partition whose end has grown."""
        self.when_acknowledged: list[Callable[[int, int], None]] = []
        """Called with a partition and the end of the records that were acknowledged."""
        self.committed: dict[tuple[str, int], int] = {}
        """(group, partition) -> the last offset whose commit was acknowledged."""
        self.working = 0
        """The clients that have not ended their work."""

    def note_end(self, index: int, end: int) -> None:
        """Note that a client knows the records of a partition before `end`."""
        if end > self.ends.get(index, 0):
            self.ends[index] = end
            for listener in self.when_grown:
                listener(index)


class ClientHost(Host):
    """A client process."""

    backoff_ms = BACKOFF_MS

    def __init__(self, cluster: Cluster, name: str, history: History) -> None:
        super().__init__(cluster.world, name)
        self.cluster = cluster
        self.history = history
        self.random: Random = cluster.world.random
        self.tasks = Tasks(self.clock, self.scheduler)
        self._links = Links(self.clock, self.scheduler, cluster.network.transports(self))
        self._opened: dict[int, Link] = {}
        self._places: dict[object, int] = {}
        self._epochs: dict[int, int] = {}  # partition -> the highest leader epoch of metadata

    def begin(self, task: Task[None], *, must_end: bool = True) -> None:
        """Run a task of this client."""
        self.history.working += must_end
        self.deliver(lambda: self._start(task, must_end))

    def _start(self, task: Task[None], must_end: bool) -> None:
        self.tasks.start(task, partial(self._ended, must_end))

    def _ended(self, must_end: bool, result: object) -> None:
        self.history.working -= must_end
        if isinstance(result, Exception):
            self.world.failures.append(f"{self.name}: {type(result).__name__}: {result}")

    # Requests

    def link(self, node_id: int) -> Link:
        link = self._opened.get(node_id)
        if link is None:
            link = self._links.open(node_id, "127.0.0.1", FIRST_PORT + node_id, self.name)
            self._opened[node_id] = link
        return link

    def ask(self, node_id: int, request: Message, version: int) -> Task[Any]:
        """The answer of a broker, or None if there is none."""
        try:
            return (yield self.link(node_id).ask(request, version, REQUEST_MS))
        except LinkLost:
            return None

    def ask_any(self, request: Message, version: int) -> Task[Any]:
        """The answer of some broker, or None."""
        return (yield from self.ask(self.random.choice(self.cluster.node_ids), request, version))

    def back_off(self) -> Task[None]:
        yield sleep(self.scheduler, self.backoff_ms * (0.5 + self.random.random()))

    def check(self, codes: Iterable[int], what: str) -> bool:
        """Whether no error came. Raises ClientFailure for an error that is not retriable."""
        found = {ErrorCode(code) for code in codes} - {ErrorCode.NONE}
        for code in found - RETRIABLE:
            raise ClientFailure(f"{what}: {code.name}")
        return not found

    def leader(self, index: int) -> Task[int]:
        """The leader of a partition, however often some broker has to be asked."""
        while index not in self._places:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
            answer = yield from self.ask_any(request, 9)
            if answer is not None and answer.topics[0].error_code == 0:
                for row in answer.topics[0].partitions:
                    if row.leader_id >= 0 and row.leader_epoch >= self._epochs.get(row.partition_index, 0):
                        self._places[row.partition_index] = row.leader_id
                        self._epochs[row.partition_index] = row.leader_epoch
            if index not in self._places:
                yield from self.back_off()
        return self._places[index]

    def coordinator(self, key: CoordinatorKey) -> Task[int]:
        """The coordinator of a group or of a transactional id."""
        while key not in self._places:
            request = FindCoordinatorRequest(key_type=key.key_type, coordinator_keys=[key.name])
            answer = yield from self.ask_any(request, 4)
            if answer is not None and self.check([answer.coordinators[0].error_code], "FindCoordinator"):
                self._places[key] = answer.coordinators[0].node_id
            else:
                yield from self.back_off()
        return self._places[key]

    def insist(
        self, place: int | CoordinatorKey, request: Message, version: int, codes: Callable[[Any], Iterable[int]]
    ) -> Task[Any]:
        """The answer without an error of the leader of a partition, or of the coordinator."""
        while True:
            node_id = yield from (self.leader(place) if isinstance(place, int) else self.coordinator(place))
            if isinstance(place, int) and isinstance(request, FetchRequest | ListOffsetsRequest):
                request.topics[0].partitions[0].current_leader_epoch = self._epochs[place]
            answer = yield from self.ask(node_id, request, version)
            if answer is not None:
                found = list(codes(answer))
                if self.check(found, type(request).__name__):
                    return answer
                if set(found) == {ErrorCode.CONCURRENT_TRANSACTIONS}:  # it is the right coordinator
                    yield from self.back_off()
                    continue
            self._places.pop(place, None)
            yield from self.back_off()

    # Programs

    def create_topic(self, partitions: int, configs: dict[str, str]) -> Task[None]:
        """Create the topic, with three replicas of each partition."""
        rows = [CreatableTopicConfig(name, value) for name, value in configs.items()]
        request = CreateTopicsRequest(topics=[CreatableTopic(TOPIC, partitions, 3, [], rows)], timeout_ms=2_000)
        while True:
            answer = yield from self.ask_any(request, 5)
            code = -1 if answer is None else answer.topics[0].error_code
            if code in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
                return
            if answer is not None:
                self.check([code], "CreateTopics")
            yield from self.back_off()

    def produce(self, index: int, records: int, gap_ms: float) -> Task[None]:
        """Produce records to a partition, in batches, up to three under way."""
        made = None
        while made is None or not self.check([made.error_code], "InitProducerId"):
            yield from self.back_off()
            made = yield from self.ask_any(InitProducerIdRequest(None, -1), 4)
        sequence = 0
        while sequence < records:
            batches = []
            # The first one goes alone: a log takes any sequence of a producer that it does not know
            for _ in range(self.random.randint(1, 3) if sequence else 1):
                count = min(self.random.randint(1, 3), records - sequence)
                if not count:
                    break
                batches.append(self._batch(index, made, sequence, count))
                sequence += count
            yield from self._send(index, batches)
            yield sleep(self.scheduler, gap_ms * self.random.random() * 2)

    def _batch(self, index: int, made: Any, sequence: int, count: int) -> Batch:
        values = [b"%s %d" % (self.name.encode(), sequence + number) for number in range(count)]
        self.history.sent += [(index, value) for value in values]
        data = build(
            [Record(timestamp=EPOCH_MS, value=value) for value in values],
            producer_id=made.producer_id,
            producer_epoch=made.producer_epoch,
            base_sequence=sequence,
        )
        return Batch(bytes(data), values)

    def _send(self, index: int, batches: list[Batch]) -> Task[None]:
        """Have batches acknowledged that are under way together; what is not is sent again, in its order."""
        while batches:
            node_id = yield from self.leader(index)
            requests = [produce_request(bytearray(batch.data), TOPIC, index, timeout_ms=2_000) for batch in batches]
            answers = yield from gather([self.ask(node_id, request, 9) for request in requests])
            left: list[Batch] = []
            for batch, answer in zip(batches, answers, strict=True):
                # Behind a batch that was refused, the next ones are out of order
                codes = [] if answer is None else [*produce_codes(answer)]
                behind = bool(left) and codes == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
                if answer is None or behind or not self.check(codes, f"Produce of {batch.values[0]!r}"):
                    left.append(batch)
                else:
                    self._acknowledge(index, batch, answer.responses[0].partition_responses[0].base_offset)
            batches = left
            if left:
                self._places.pop(index, None)
                yield from self.back_off()

    def _acknowledge(self, index: int, batch: Batch, base: int) -> None:
        for number, value in enumerate(batch.values):
            self.history.acknowledged[index, value] = base + number if base >= 0 else -1
        if base >= 0:
            end = base + len(batch.values)
            self.history.note_end(index, end)
            for listener in self.history.when_acknowledged:
                listener(index, end)

    def consume(self, index: int, isolation_level: int = READ_UNCOMMITTED) -> Task[None]:
        """Read a partition from its beginning, for ever."""
        offset = 0
        while True:
            row = yield from self.fetch(index, offset, isolation_level)
            aborted = AbortedBatches((each.producer_id, each.first_offset) for each in row.aborted_transactions or ())
            for header, batch in split(memoryview(bytearray(cast("bytes", row.records or b"")))):
                is_seen = not aborted.includes(header, batch) and not header.is_control
                for record in iterate(batch) if is_seen else ():
                    self._see(index, record)
                offset = header.last_offset + 1
                self.history.note_end(index, offset)
            if self.random.random() < 0.2:
                yield from self.look_at_end(index)
            yield sleep(self.scheduler, 600.0 * self.random.random())

    def look_at_end(self, index: int) -> Task[None]:
        """The end that the leader of a partition tells: not before what clients know of it.

        A leader that was deposed, and does not know, may tell an older one.
        """
        known, leader = self.history.ends.get(index, 0), self.cluster.state(index)[:2]
        rows = [ListOffsetsPartition(partition_index=index, timestamp=LATEST)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=rows)])
        answer = yield from self.insist(index, request, 6, _list_codes)
        found = answer.topics[0].partitions[0].offset
        if found < known and leader == self.cluster.state(index)[:2] == (self._places[index], self._epochs[index]):
            raise ClientFailure(f"{index} had records before {known}, and ends at {found}")
        self.history.note_end(index, found)

    def look_at_ends(self, index: int) -> Task[None]:
        """Ask a new leader several times: at first it does not know what its followers have."""
        for _ in range(LOOKS_AT_LEADER):
            yield from self.look_at_end(index)
            yield from self.back_off()

    def fetch(self, index: int, offset: int, isolation_level: int) -> Task[PartitionData]:
        """The answer to a fetch of a partition."""
        wanted = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 16)
        request = FetchRequest(
            max_wait_ms=300,
            min_bytes=1,
            isolation_level=isolation_level,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(TOPIC, partitions=[wanted])],
        )
        answer = yield from self.insist(index, request, 12, _fetch_codes)
        row: PartitionData = answer.responses[0].partitions[0]
        return row

    def _see(self, index: int, record: Record) -> None:
        before = self.history.seen.setdefault((index, record.offset), record.value or b"")
        if before != record.value:
            raise ClientFailure(f"offset {record.offset} of {index} was {before!r}, and is {record.value!r}")

    def commit_offsets(self, count: int, gap_ms: float) -> Task[None]:
        """Commit growing offsets, and look now and then."""
        for offset in range(count):
            yield from self.insist(CoordinatorKey(GROUP), commit_request(GROUP, {0: offset}, TOPIC), 2, commit_codes)
            self.history.committed[GROUP, 0] = offset
            if self.random.random() < 0.3:
                yield from self.committed_offset(GROUP, 0)
            yield sleep(self.scheduler, gap_ms * self.random.random() * 2)

    def look_at_offsets(self) -> Task[None]:
        """Look at all committed offsets."""
        for group, index in self.history.committed:
            yield from self.committed_offset(group, index)

    def committed_offset(self, group: str, index: int) -> Task[int]:
        """The committed offset of a group, which may not be an older one; -1 for none."""
        topics = [OffsetFetchRequestTopics(TOPIC, partition_indexes=[index])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)], require_stable=True)
        known = self.history.committed.get((group, index), -1)
        answer = yield from self.insist(CoordinatorKey(group), request, 8, _offset_codes)
        found: int = answer.groups[0].topics[0].partitions[0].committed_offset
        if found < known:
            raise ClientFailure(f"the committed offset of {group} was {known}, and is {found}")
        return found


def produce_codes(answer: Any) -> list[int]:
    return [answer.responses[0].partition_responses[0].error_code]


def _fetch_codes(answer: Any) -> list[int]:
    return [answer.error_code, answer.responses[0].partitions[0].error_code]


def commit_codes(answer: Any) -> list[int]:
    return [answer.topics[0].partitions[0].error_code]


def _list_codes(answer: Any) -> list[int]:
    return [row.error_code for row in answer.topics[0].partitions]


def _offset_codes(answer: Any) -> list[int]:
    group = answer.groups[0]
    return [group.error_code, *(row.error_code for topic in group.topics for row in topic.partitions)]
