"""A model of partitions on three brokers, whose followers fetch by the real machine, and the rules that must hold.

The leader's side is a model: sessions, epochs, the in-sync set, the high watermark. A seed decides everything: when
requests and works move on, orders that come late, deposed leaders that go on, lost answers, failed appends, kills,
deleted and compacted records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from headgate.gateway.replication.fetching.fetcher import (
    AppendRecords,
    FollowedPartition,
    FollowerWork,
    Question,
    ReceivedRecords,
    ReplicaFetcher,
    RestartAt,
    SyncRecords,
    Truncate,
    progress,
)
from headgate.protocol.client.fetch_session import FetchKey
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headgate.protocol.messages.list_offsets import (
    EARLIEST,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

NODES = (0, 1, 2)
PARTITIONS = tuple(FetchKey("t", bytes(15) + b"\1", index) for index in range(2))


class BrokenRule(AssertionError):
    """A rule of replication does not hold."""


def require(holds: bool, rule: str) -> None:
    if not holds:
        raise BrokenRule(rule)


@dataclass
class Settings:
    """Small limits, so that answers are in pieces."""

    replica_fetch_max_bytes: int = 60
    replica_fetch_response_max_bytes: int = 100
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_backoff_ms: int = 200
    replica_socket_timeout_ms: int = 7_000


class Batch(NamedTuple):
    """Some records of one epoch. The value of a compacted record is missing."""

    base: int
    last: int
    epoch: int
    values: tuple[tuple[int, int], ...]  # (offset, value)

    def encode(self) -> bytes:
        values = ",".join(f"{offset}={value}" for offset, value in self.values)
        return f"{self.base} {self.last} {self.epoch} {values}\n".encode()


def decode(line: bytes) -> Batch:
    base, last, epoch, values = line.decode().split(" ")
    pairs = [pair.split("=") for pair in values.split(",") if pair]
    return Batch(int(base), int(last), int(epoch), tuple((int(offset), int(value)) for offset, value in pairs))


class ModelLog:
    """A log in memory. `fsyncs`: records are durable once they are synced."""

    def __init__(self, *, fsyncs: bool = False) -> None:
        self.batches: list[Batch] = []
        self.epochs: list[tuple[int, int]] = []
        self.start_offset = self.high_watermark = self.end_offset = self.synced_end = 0
        self.fsyncs = fsyncs

    @property
    def is_durable(self) -> bool:
        return not self.fsyncs or self.synced_end == self.end_offset

    @property
    def durable_end(self) -> int:
        return self.synced_end if self.fsyncs else self.end_offset

    @property
    def last_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        if not self.epochs or epoch > self.last_epoch or epoch < 0:
            return -1, -1
        if epoch == self.last_epoch:
            return epoch, self.end_offset
        earlier = [known for known, _ in self.epochs if known <= epoch]
        return earlier[-1] if earlier else epoch, self.epochs[len(earlier)][1]

    def add(self, batch: Batch) -> None:
        require(batch.base >= self.end_offset, f"batch {batch.base} is below the end {self.end_offset}")
        if batch.epoch > self.last_epoch:
            self.epochs.append((batch.epoch, self.end_offset))
        self.batches.append(batch)
        self.end_offset = batch.last + 1

    def append_as_follower(self, records: ReceivedRecords) -> None:
        """Whole batches. An empty log that begins within the first batch begins again with that batch."""
        batches = [decode(line) for line in bytes(records).split(b"\n")[:-1]]
        first = batches[0] if batches else None
        if first is not None and first.base < self.end_offset <= first.last and not self.batches:
            self.restart(first.base)
        for batch in batches:
            if batch.base < self.end_offset:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"batch {batch.base} is below {self.end_offset}")
            self.add(batch)

    def truncate(self, offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch.last < offset]
        self.epochs = [entry for entry in self.epochs if entry[1] < offset]
        self.end_offset = offset
        self.high_watermark = min(self.high_watermark, offset)
        self.synced_end = min(self.synced_end, offset)

    def restart(self, offset: int) -> None:
        self.batches, self.epochs = [], []
        self.start_offset = self.end_offset = self.high_watermark = self.synced_end = offset

    def take_over(self, high_watermark: int, start_offset: int) -> None:
        require(high_watermark >= self.high_watermark, "a high watermark goes back")
        require(high_watermark <= self.end_offset, "a high watermark is above the end of its log")
        self.high_watermark = high_watermark
        self.delete_before(start_offset)

    def delete_before(self, start_offset: int) -> None:
        """Move the start of the log. Whole batches before the start go."""
        if start_offset > self.start_offset:
            self.start_offset = start_offset
            self.batches = [batch for batch in self.batches if batch.last >= start_offset]

    def records(self, end_offset: int | None = None) -> dict[int, tuple[int, int]]:
        """Offset -> (epoch, value) of the readable records before `end_offset`."""
        end = self.end_offset if end_offset is None else end_offset
        rows = ((offset, (batch.epoch, value)) for batch in self.batches for offset, value in batch.values)
        return {offset: row for offset, row in rows if self.start_offset <= offset < end}


@dataclass
class PartitionRegistration:
    """What the controller has of a partition."""

    leader: int = 0
    epoch: int = 0
    isr: set[int] = field(default_factory=lambda: set(NODES))


@dataclass
class Node:
    """A broker: its logs, orders and fetchers, and what it knows as a leader."""

    number: int
    logs: dict[FetchKey, ModelLog]
    leaders: dict[FetchKey, int] = field(default_factory=dict)
    epochs: dict[FetchKey, int] = field(default_factory=dict)
    progress: dict[FetchKey, dict[int, int]] = field(default_factory=dict)
    epoch_starts: dict[FetchKey, int] = field(default_factory=dict)
    sessions: dict[int, tuple[int, dict[FetchKey, FetchPartition]]] = field(default_factory=dict)
    followed: dict[FetchKey, FollowedPartition] = field(default_factory=dict)
    fetchers: dict[int, ReplicaFetcher] = field(default_factory=dict)
    questions: dict[int, Question] = field(default_factory=dict)
    works: list[FollowerWork] = field(default_factory=list)


class Cluster:
    """Three brokers and the rules. `steps` runs a history, `settle` ends it without faults."""

    def __init__(self, seed: int, fetcher: type[ReplicaFetcher] = ReplicaFetcher) -> None:
        self.random = Random(seed)
        self.now_ms = 1.0
        self._fetcher_class = fetcher
        fsyncs = self.random.random() < 0.3
        self.nodes = [Node(number, {key: ModelLog(fsyncs=fsyncs) for key in PARTITIONS}) for number in NODES]
        self.registered = {key: PartitionRegistration(leader=self.random.choice(NODES)) for key in PARTITIONS}
        self.committed: dict[FetchKey, dict[int, tuple[int, int]]] = {key: {} for key in PARTITIONS}
        self.compacted: dict[FetchKey, set[int]] = {key: set() for key in PARTITIONS}
        self.deleted_to = dict.fromkeys(PARTITIONS, 0)
        self.orders = {(node, key) for node in NODES for key in PARTITIONS}
        self._value = self._session = 0
        self.is_calm = False

    # The history

    def steps(self, count: int) -> None:
        often = [self._ask, self._answer, self._do_work] * 12 + [self._produce] * 6
        acts = [*often, *[self._order] * 4, *[self._sync] * 3, self._elect, self._shrink, self._delete]
        acts += [self._compact, self._kill, self._retain, self._pass_time]
        for _ in range(count):
            self.random.choice(acts)()

    def settle(self, most: int = 400) -> None:
        """Let all replicas catch up, without further faults."""
        self.is_calm = True
        while self.orders:
            self._order()
        for _ in range(most):
            self.now_ms += 20
            for act in (self._ask, self._answer, self._do_work, self._sync):
                for _ in range(9):
                    act()
            if all(self._is_caught_up(key) for key in PARTITIONS):
                return
        raise BrokenRule("a replica does not catch up")

    def _is_caught_up(self, key: FetchKey) -> bool:
        leader = self.nodes[self.registered[key].leader].logs[key]
        ends = {(node.logs[key].end_offset, node.logs[key].high_watermark) for node in self.nodes}
        if ends != {(leader.end_offset, leader.end_offset)}:
            return False
        for node in self.nodes:
            self._check_committed(key, node.logs[key])
        return True

    # Faults and clients

    def _produce(self) -> None:
        key, node = self.random.choice(PARTITIONS), self.random.choice(self.nodes)
        if node.leaders.get(key) == node.number:
            log = node.logs[key]
            offsets = range(log.end_offset, log.end_offset + self.random.randint(1, 3))
            self._value += 1
            values = tuple((offset, self._value) for offset in offsets)
            log.add(Batch(offsets[0], offsets[-1], node.epochs[key], values))
            self._advance(key, node)

    def _sync(self) -> None:
        """The disk of a leader has everything."""
        key, node = self.random.choice(PARTITIONS), self.random.choice(self.nodes)
        if node.leaders.get(key) == node.number:
            node.logs[key].synced_end = node.logs[key].end_offset
            self._advance(key, node)

    def _elect(self) -> None:
        key = self.random.choice(PARTITIONS)
        state = self.registered[key]
        leader = self.random.choice(sorted(state.isr))
        if self.random.random() < 0.5 and len(state.isr) > 1 and leader != state.leader:
            state.isr.discard(state.leader)
        state.leader, state.epoch = leader, state.epoch + 1
        self.orders.update((node, key) for node in NODES)

    def _shrink(self) -> None:
        key = self.random.choice(PARTITIONS)
        state = self.registered[key]
        leader, gone = self.nodes[state.leader], self.random.choice(NODES)
        if leader.epochs.get(key) == state.epoch and gone != state.leader:
            state.isr.discard(gone)
            self._advance(key, leader)

    def _delete(self) -> None:
        key, node = self.random.choice(PARTITIONS), self.random.choice(self.nodes)
        log = node.logs[key]
        if node.leaders.get(key) == node.number and node.epochs[key] == self.registered[key].epoch:
            start = self.random.randint(log.start_offset, log.high_watermark)
            log.delete_before(start)
            self.deleted_to[key] = max(self.deleted_to[key], start)

    def _retain(self) -> None:
        """Retention moves the start of a follower's log by itself."""
        key, node = self.random.choice(PARTITIONS), self.random.choice(self.nodes)
        log, partition = node.logs[key], node.followed.get(key)
        if partition is not None and partition.fetcher is not None:
            log.delete_before(min(self.deleted_to[key], log.high_watermark))
            partition.fetcher.renew(partition)

    def _compact(self) -> None:
        key, node = self.random.choice(PARTITIONS), self.random.choice(self.nodes)
        log = node.logs[key]
        for number, batch in enumerate(log.batches[:-1]):
            if batch.last < log.high_watermark and self.random.random() < 0.5:
                kept = tuple(row for row in batch.values if self.random.random() < 0.5)
                self.compacted[key].update(dict(batch.values).keys() - dict(kept).keys())
                log.batches[number] = batch._replace(values=kept)
        last = log.batches[-1:]
        log.batches = [batch for batch in log.batches[:-1] if batch.values] + last

    def _kill(self) -> None:
        """Kill a broker that leads nothing: requests and works are lost, and unsynced records."""
        node = self.random.choice(self.nodes)
        if node.number in node.leaders.values() or any(row.leader == node.number for row in self.registered.values()):
            return
        for log in node.logs.values():
            if log.fsyncs:
                whole = [batch.last + 1 for batch in log.batches if batch.last < log.synced_end]
                log.truncate(max(whole, default=min(log.synced_end, log.start_offset)))
            earlier = [batch.last + 1 for batch in log.batches if batch.last < log.high_watermark]
            log.high_watermark = self.random.choice([log.start_offset, log.high_watermark, *earlier])
        fresh = Node(node.number, node.logs)
        self.nodes[node.number] = fresh
        self.orders.update((node.number, key) for key in PARTITIONS)

    def _pass_time(self) -> None:
        self.now_ms += self.random.choice((1, 60, 300))

    # Orders

    def _order(self) -> None:
        if not self.orders:
            return
        number, key = self.random.choice(sorted(self.orders))
        self.orders.discard((number, key))
        node, state = self.nodes[number], self.registered[key]
        partition = node.followed.get(key)
        node.leaders[key], node.epochs[key] = state.leader, state.epoch
        if state.leader == number:
            if partition is not None:
                if partition.fetcher is not None:
                    partition.fetcher.unfollow(partition)
                self._finish_works(node, partition)
            log = node.logs[key]
            node.progress[key], node.epoch_starts[key] = {}, log.end_offset
            self._advance(key, node)
            return
        if partition is None:
            partition = node.followed[key] = FollowedPartition(key, node.logs[key])
        if state.leader not in node.fetchers:
            node.fetchers[state.leader] = self._fetcher_class(number, Settings(), lambda: -1)
        fetcher = node.fetchers[state.leader]
        if partition.fetcher is not None and partition.fetcher is not fetcher:
            partition.fetcher.unfollow(partition)
        self._queue(node, fetcher.follow(partition, state.epoch))

    def _queue(self, node: Node, work: FollowerWork | None) -> None:
        if work is not None:
            node.works.append(work)

    # Requests and answers

    def _ask(self) -> None:
        node = self.random.choice(self.nodes)
        for leader, fetcher in node.fetchers.items():
            node.works += fetcher.resume(self.now_ms)
            question = fetcher.next_question(self.now_ms)
            if question is not None:
                node.questions[leader] = question

    def _answer(self) -> None:
        node = self.random.choice(self.nodes)
        if not node.questions:
            return
        leader = self.random.choice(sorted(node.questions))
        question, fetcher = node.questions.pop(leader), node.fetchers[leader]
        is_lost = not self.is_calm and self.random.random() < 0.05
        if is_lost and self.random.random() < 0.5:
            fetcher.lost(self.now_ms)
            return
        answer = self._respond(self.nodes[leader], node.number, question.message)
        if is_lost:
            fetcher.lost(self.now_ms)
            return
        for work in fetcher.take(answer, self.now_ms):
            if isinstance(work, AppendRecords) and not work.records:
                self._run(node, work)
            else:
                node.works.append(work)

    def _respond(
        self, leader: Node, follower: int, request: FetchRequest | ListOffsetsRequest
    ) -> FetchResponse | ListOffsetsResponse:
        if isinstance(request, ListOffsetsRequest):
            topics = [
                ListOffsetsTopicResponse(
                    name=topic.name, partitions=[self._offset(leader, row) for row in topic.partitions]
                )
                for topic in request.topics
            ]
            return ListOffsetsResponse(topics=topics)
        if not self.is_calm and self.random.random() < 0.02:
            leader.sessions.clear()
        if request.session_epoch == 0:
            leader.sessions.pop(request.session_id, None)
            self._session += 1
            session_id, members = self._session, dict[FetchKey, FetchPartition]()
            if not self.is_calm and self.random.random() < 0.1:
                session_id = 0
        else:
            session_id = request.session_id
            epoch, members = leader.sessions.get(session_id, (0, {}))
            if epoch == 0:
                return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            require(epoch == request.session_epoch, "a session is asked out of order")
        for topic in request.topics:
            for row in topic.partitions:
                members[FetchKey(topic.topic, topic.topic_id, row.partition)] = row
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                del members[FetchKey(forgotten.topic, forgotten.topic_id, index)]
        if session_id:
            leader.sessions[session_id] = request.session_epoch + 1, members
        rows = [self._fetch(leader, follower, key, row, request.max_bytes) for key, row in members.items()]
        self.random.shuffle(rows)
        topics_ = [FetchableTopicResponse(topic_id=PARTITIONS[0].topic_id, partitions=rows)]
        return FetchResponse(session_id=session_id, responses=topics_)

    def _refusal(self, leader: Node, key: FetchKey, epoch: int) -> ErrorCode:
        if leader.leaders.get(key) != leader.number:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if epoch == leader.epochs[key]:
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < leader.epochs[key] else ErrorCode.UNKNOWN_LEADER_EPOCH

    def _fetch(self, leader: Node, follower: int, key: FetchKey, row: FetchPartition, max_bytes: int) -> PartitionData:
        log = leader.logs[key]
        code = self._refusal(leader, key, row.current_leader_epoch)
        if code is not ErrorCode.NONE:
            return PartitionData(partition_index=key.number, error_code=code)
        answer = PartitionData(partition_index=key.number, log_start_offset=log.start_offset)
        if row.last_fetched_epoch >= 0:
            epoch, end = log.end_offset_for(row.last_fetched_epoch)
            if row.last_fetched_epoch > log.last_epoch:  # this epoch begins at the end of the log
                epoch, end = (row.last_fetched_epoch if not log.epochs else log.last_epoch), log.end_offset
            if epoch < row.last_fetched_epoch or end < row.fetch_offset:
                answer.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end)
                answer.high_watermark = log.high_watermark
                return answer
        if not log.start_offset <= row.fetch_offset <= log.end_offset:
            answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            return answer
        leader.progress[key][follower] = row.fetch_offset
        self._expand(key, leader, follower, row.fetch_offset)
        self._advance(key, leader)
        lines = [batch.encode() for batch in log.batches if batch.last >= row.fetch_offset]
        first = lines[0] if lines else b""
        answer.records = first + b"".join(lines[1:])[: max(0, min(row.partition_max_bytes, max_bytes) - len(first))]
        answer.high_watermark, answer.log_start_offset = log.high_watermark, log.start_offset
        return answer

    def _offset(self, leader: Node, row: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        key, index = PARTITIONS[row.partition_index], row.partition_index
        code = self._refusal(leader, key, row.current_leader_epoch)
        if code is not ErrorCode.NONE:
            return ListOffsetsPartitionResponse(partition_index=index, error_code=code)
        log = leader.logs[key]
        offset = log.start_offset if row.timestamp == EARLIEST else log.end_offset
        return ListOffsetsPartitionResponse(partition_index=index, offset=offset)

    def _expand(self, key: FetchKey, leader: Node, follower: int, offset: int) -> None:
        state = self.registered[key]
        is_current = leader.epochs[key] == state.epoch
        if is_current and offset >= max(leader.logs[key].high_watermark, leader.epoch_starts[key]):
            state.isr.add(follower)

    def _advance(self, key: FetchKey, leader: Node) -> None:
        """Move the leader's high watermark to what its in-sync set has, and check that the set has it."""
        state, log = self.registered[key], leader.logs[key]
        if leader.epochs[key] != state.epoch:
            return  # a deposed leader cannot know if the set has changed; here it waits
        has = [leader.progress[key].get(node, -1) for node in state.isr if node != leader.number]
        high_watermark = min([log.durable_end, *has])
        if high_watermark > log.high_watermark:
            for node in state.isr:
                end = self.nodes[node].logs[key].durable_end
                require(end >= high_watermark, f"broker {node} has {end}, and is taken for {high_watermark}")
            log.high_watermark = high_watermark
            self._check_committed(key, log)

    # Works

    def _do_work(self) -> None:
        node = self.random.choice(self.nodes)
        if node.works:
            self._run(node, node.works.pop(self.random.randrange(len(node.works))))

    def _finish_works(self, node: Node, partition: FollowedPartition) -> None:
        """`until_idle`: a replica leads once its work has ended."""
        for work in [work for work in node.works if work.partition is partition]:
            node.works.remove(work)
            self._run(node, work)

    def _run(self, node: Node, work: FollowerWork) -> None:
        partition = work.partition
        key, log = partition.key, node.logs[partition.key]
        error = None
        if isinstance(work, AppendRecords):
            error = self._append(log, work)
            if error is None:
                log.take_over(*progress(log, work))
                self._check_committed(key, log)
        elif isinstance(work, SyncRecords):
            log.synced_end = log.end_offset
        elif isinstance(work, Truncate):
            require(work.offset >= log.high_watermark, "records below the high watermark are cut")
            state = self.registered[key]
            leader = self.nodes[state.leader]
            counted = leader.progress.get(key, {}).get(node.number, -1) if leader.epochs.get(key) == state.epoch else -1
            require(work.offset >= counted, f"the leader counts on {counted}, and broker {node.number} is cut below")
            log.truncate(work.offset)
        elif isinstance(work, RestartAt):
            lost = log.records(log.high_watermark)
            kept = self.committed[key].keys() & lost.keys() - self.compacted[key]
            require(all(offset < self.deleted_to[key] for offset in kept), "committed records go with a restart")
            log.restart(work.offset)
        self._queue(node, partition.end_work(self.now_ms, error))

    def _append(self, log: ModelLog, work: AppendRecords) -> KafkaError | None:
        """Append and sync. Returns the error of a disk, or of a batch that does not fit."""
        if not work.records:
            return None
        if not self.is_calm and self.random.random() < 0.05:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")
        try:
            log.append_as_follower(work.records)
        except KafkaError as failure:
            return failure
        log.synced_end = log.end_offset
        return None

    # Rules

    def _check_committed(self, key: FetchKey, log: ModelLog) -> None:
        """A committed record never changes, and no log lacks one below its high watermark."""
        committed, records = self.committed[key], log.records(log.high_watermark)
        for offset, record in records.items():
            require(committed.setdefault(offset, record) == record, f"committed record {offset} has changed")
        for offset in range(log.start_offset, log.high_watermark):
            missing = offset not in records and offset not in self.compacted[key]
            require(not missing, f"the record at {offset} is missing below a high watermark")
