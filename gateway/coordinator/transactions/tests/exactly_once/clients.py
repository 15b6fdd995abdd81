"""The clients of the histories in `histories.py`: copiers, writers without transactions, and readers.

A client is a generator of requests, which may be several at once, and gets the answers in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from headgate.gateway.coordinator.transactions.tests.exactly_once.members import Member
from headgate.gateway.tests.requests import produce_request
from headgate.protocol.errors import ErrorCode
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
from headgate.protocol.messages.produce import ProduceRequest
from headgate.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headgate.protocol.records import batch, control
from headgate.protocol.records.batch import BatchHeader, Record, build
from headgate.protocol.schema import Message

PARTITIONS: Final = 2
RECORDS: Final = 8
"""In each partition of `in`, and of each writer."""
MAX_AT_ONCE: Final = 3
TIMEOUT_MS: Final = 4_000
NAP: Final = 15
"""Turns; in each of them a tenth of a session passes."""
WRITERS: Final = 100
"""The number of the first writer, above those of the partitions of `in`."""

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
    """A request of a client."""

    request: Message
    version: int


LOST = object()
"""In place of the answers."""
Steps = Generator[Sequence[Asked], Any, Any]
"""What a client sends; nothing is a pause. What it gets is a list of the answers, or LOST."""
PAUSE: Final[Sequence[Asked]] = ()


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
    codes = (found | own) - {0}
    assert ErrorCode.UNKNOWN_SERVER_ERROR not in codes, f"a fault of the broker: {response}"
    return codes


class Client:
    """Sends what its generator gives, and knows what is under way."""

    def __init__(self, number: int, random: Random) -> None:
        self.number = number
        self.is_waiting = False
        self.is_done = False
        self.naps = 0
        """So many turns it lets pass, as in a long collection of garbage."""
        self.sent: list[Asked] = []
        self._random = random
        self._steps = self._run()
        self._answer: Any = None

    def step(self) -> Sequence[Asked]:
        """What it sends next; nothing for a pause, or at its end."""
        answer, self._answer = self._answer, None
        try:
            asked = self._steps.send(answer)
        except StopIteration:
            self.is_done = True
            return PAUSE
        self.is_waiting = bool(asked)
        self.sent += asked
        return asked

    def take(self, answer: Any) -> None:
        """A list of answers, or LOST."""
        self._answer, self.is_waiting = answer, False

    def may_repeat(self, _asked: Asked) -> bool:
        """Whether a request of this client may arrive late, or twice."""
        raise NotImplementedError

    def _run(self) -> Steps:
        raise NotImplementedError


class Copier(Client):
    """Reads partitions of `in` as a member of the group, and has a transactional id and a protocol."""

    def __init__(
        self, number: int, random: Random, member: Member, is_over: Callable[[], bool], *, is_new: bool
    ) -> None:
        super().__init__(number, random)
        self.is_new = is_new
        self._member = member
        self._is_over = is_over
        self._id, self._epoch = -1, -1
        self._sequences = [0] * PARTITIONS
        self._positions: dict[int, int] = {}

    @property
    def transactional_id(self) -> str:
        return f"id-{self.number}"

    def may_repeat(self, asked: Asked) -> bool:
        """In the old protocol Kafka promises nothing but for records. One that begins an epoch would fence itself."""
        if isinstance(asked.request, ProduceRequest):
            return True
        of_transaction = EndTxnRequest | TxnOffsetCommitRequest
        return self.is_new and isinstance(asked.request, of_transaction)

    def _run(self) -> Steps:
        while not self._is_over():
            try:
                yield from self._begin()
                yield from self._copy_all()
            except BeginAnew:
                yield PAUSE

    def _ask(self, request: Message, version: int, known: Collection[ErrorCode] = ()) -> Steps:
        """The answer, however often it has to be asked for; the caller deals with the errors in `known`."""
        (answer,) = yield from self._ask_all([Asked(request, version)], known)
        return answer

    def _ask_all(self, asked: Sequence[Asked], known: Collection[ErrorCode] = ()) -> Steps:
        """The answers of requests that are under way together."""
        while True:
            answers = yield asked
            if answers is LOST:
                if self._random.random() < 0.2:
                    raise BeginAnew("the client is killed and started again")
                if isinstance(asked[0].request, ProduceRequest) and self._random.random() < 0.5:
                    raise GiveUp
                continue
            codes = {ErrorCode(code) for code in codes_of(answers)}.difference(known)
            if codes - MOMENTARY:
                raise BeginAnew(codes)
            if not codes:
                return answers
            yield PAUSE

    def _begin(self) -> Steps:
        made = yield from self._ask(InitProducerIdRequest(self.transactional_id, TIMEOUT_MS), 4)
        self._take_epoch(made.producer_id, made.producer_epoch)
        self._positions.clear()

    def _take_epoch(self, producer_id: int, epoch: int) -> None:
        self._id, self._epoch, self._sequences = producer_id, epoch, [0] * PARTITIONS

    def _copy_all(self) -> Steps:
        while not self._is_over():
            if not self._positions or self._random.random() < 0.3:
                has_changed = yield from self._member.join(self._ask)
                if has_changed:
                    self._positions.clear()
            for index in self._member.partitions:
                if index not in self._positions:
                    yield from self._fetch_position(index)
                if self._positions[index] < RECORDS:
                    yield from self._copy_some(index)
            yield PAUSE

    def _fetch_position(self, index: int) -> Steps:
        topics = [OffsetFetchRequestTopics("in", partition_indexes=[index])]
        wanted = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)], require_stable=True)
        fetched = yield from self._ask(wanted, 8)
        self._positions[index] = max(0, fetched.groups[0].topics[0].partitions[0].committed_offset)

    def _copy_some(self, index: int) -> Steps:
        """One transaction."""
        position = self._positions[index]
        end = min(RECORDS, position + self._random.randint(1, MAX_AT_ONCE))
        try:
            yield from self._write(index, range(position, end))
            yield from self._nap()
            yield from self._commit_offset(index, end)
            yield from self._nap()
        except GiveUp:
            yield from self._end(is_commit=False)
            raise BeginAnew from None  # nobody knows which sequence comes next
        is_commit = self._random.random() < 0.7
        yield from self._end(is_commit=is_commit)
        if is_commit:
            self._positions[index] = end

    def _nap(self) -> Steps:
        """Now and then, longer than the group waits for its member."""
        if self._member.generation >= 0 and self._random.random() < 0.15:
            self.naps = NAP
            yield PAUSE

    def _write(self, index: int, numbers: range) -> Steps:
        rows: dict[int, list[int]] = {}
        for number in numbers:
            rows.setdefault(number % PARTITIONS, []).append(number)
        if not self.is_new:
            topics = [AddPartitionsToTxnTopic("out", sorted(rows))]
            request = AddPartitionsToTxnRequest([], self.transactional_id, self._id, self._epoch, topics)
            yield from self._ask(request, 3)
        asked = [self._produce(index, out, rows[out]) for out in sorted(rows)]
        if self._random.random() < 0.5:
            yield from self._ask_all(asked)
        else:
            for one in asked:
                yield PAUSE
                yield from self._ask_all([one])
        for out, written in rows.items():
            self._sequences[out] += len(written)

    def _produce(self, index: int, out: int, numbers: list[int]) -> Asked:
        data = build(
            [Record(timestamp=1, value=b"%d %d" % (index, number)) for number in numbers],
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=self._sequences[out],
            is_transactional=True,
        )
        return Asked(
            produce_request(data, "out", out, transactional_id=self.transactional_id), 12 if self.is_new else 9
        )

    def _commit_offset(self, index: int, offset: int) -> Steps:
        if not self.is_new:
            yield from self._ask(AddOffsetsToTxnRequest(self.transactional_id, self._id, self._epoch, "g"), 3)
        row = TxnOffsetCommitRequestPartition(index, offset)
        topics = [TxnOffsetCommitRequestTopic("in", partitions=[row])]
        member = self._member
        request = TxnOffsetCommitRequest(
            self.transactional_id, "g", self._id, self._epoch, member.generation, member.member_id, topics=topics
        )
        yield from self._ask(request, 5 if self.is_new else 3)

    def _end(self, *, is_commit: bool) -> Steps:
        request = EndTxnRequest(self.transactional_id, self._id, self._epoch, is_commit)
        ended = yield from self._ask(request, 5 if self.is_new else 3)
        if self.is_new:
            self._take_epoch(ended.producer_id, ended.producer_epoch)


class Writer(Client):
    """An idempotent producer without transactions, with two batches under way at once.

    Its first one goes alone: a log takes any sequence of a producer that it does not know.
    """

    def may_repeat(self, asked: Asked) -> bool:
        """Records, which the log knows."""
        return isinstance(asked.request, ProduceRequest)

    def _run(self) -> Steps:
        (made,) = yield from self._insist([Asked(InitProducerIdRequest(None, -1), 4)])
        sequence = 0
        while sequence < RECORDS:
            asked = []
            for _ in range(2 if sequence else 1):
                numbers = range(sequence, min(RECORDS, sequence + self._random.randint(1, MAX_AT_ONCE)))
                if numbers:
                    values = [Record(timestamp=1, value=b"%d %d" % (self.number, number)) for number in numbers]
                    data = build(
                        values, producer_id=made.producer_id, producer_epoch=made.producer_epoch, base_sequence=sequence
                    )
                    asked.append(Asked(produce_request(data, "out", self.number % PARTITIONS), 9))
                    sequence = numbers.stop
            yield from self._insist(asked)
            yield PAUSE

    def _insist(self, asked: Sequence[Asked]) -> Steps:
        """The answers without an error, however often it takes."""
        while True:
            answers = yield asked
            if answers is LOST:
                continue
            codes = [codes_of(answer) for answer in answers]
            if not any(codes):
                return answers
            refused = next(number for number, found in enumerate(codes) if found)
            behind = {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER} if refused + 1 < len(codes) else set()
            assert codes[refused] <= MOMENTARY, codes
            assert set().union(*codes[refused + 1 :]) <= MOMENTARY | behind, codes
            yield PAUSE


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

    def take(self, response: Any) -> None:
        """Take up an answer."""
        self.is_waiting = False
        row = response.responses[0].partitions[0]
        aborted = sorted((one.first_offset, one.producer_id) for one in row.aborted_transactions or ())
        batches = batch.split(memoryview(bytearray(row.records))) if row.records else []
        self.read += _committed(batches, aborted)
        if batches:
            self.offset = batches[-1][0].last_offset + 1


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
