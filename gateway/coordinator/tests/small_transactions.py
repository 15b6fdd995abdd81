"""A second shard: a transaction coordinator in miniature, with everything that a real one asks of the runtime.

    begin ──> Ongoing ──end, or its timeout──> Prepare ──effect: markers are written elsewhere──> completed ──> Complete

`write` puts records of a transaction into this very log, as TxnOffsetCommit does, and `mark` ends it with a marker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from headgate.gateway.coordinator.decision import NEVER, Decision, ProducerIdAndEpoch, Records, Ticket
from headgate.gateway.coordinator.internal_topic import InternalTopic
from headgate.gateway.coordinator.shard import RecordLoader
from headgate.gateway.coordinator.tests.coordinator_bench import TIMEOUT_MS, CoordinatorBench
from headgate.gateway.coordinator.timers import Timers
from headgate.gateway.tests.scripted import ScriptedPartition
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal import transactions
from headgate.protocol.internal.transactions import TransactionLogKey, TransactionLogValue, UnknownVersion
from headgate.protocol.messages.heartbeat import HeartbeatResponse
from headgate.protocol.records.control import Marker
from headgate.protocol.schema import Message

ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(1, 6)
TRANSACTION_TIMEOUT_MS = 1_000
TRANSACTIONS_LOG = InternalTopic(
    name="__transaction_state",
    key_name="transaction",
    invalid_key=ErrorCode.INVALID_REQUEST,
    encode_key=transactions.encode_key,
    encode_value=transactions.encode_value,
    partitions=3,
    replication_factor=1,
    segment_bytes=1 << 20,
    compression_codec=0,
    load_buffer_bytes=1 << 20,
    write_timeout_ms=TIMEOUT_MS,
    logger=logging.getLogger("headgate.transactions"),
)


class WriteMarkers(NamedTuple):
    """The effect: end the transaction in all its partitions."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    is_commit: bool


class TransactionShard:
    """The state of some transactional ids, and what open transactions have written into this log."""

    def __init__(self, timestamp_ms: Callable[[], int]) -> None:
        self.timers = Timers()
        self.timestamp_ms = timestamp_ms
        self.states: dict[str, TransactionLogValue] = {}
        self.pending: dict[int, dict[str, TransactionLogValue]] = {}
        self.deadlines_ms: dict[str, float] = {}
        self.resumed: set[str] = set()
        """Loaded in a Prepare state, or not completed: the markers have to be written once more."""

    # Hard state

    def persistent_state(self) -> object:
        return self.states, self.pending

    def replay(
        self, key: Message, value: Message | None, timestamp_ms: int, producer: ProducerIdAndEpoch | None = None
    ) -> None:
        assert isinstance(key, TransactionLogKey)
        assert value is None or isinstance(value, TransactionLogValue)
        name = key.transactional_id
        if value is None:
            self.states.pop(name, None)
        elif producer is not None:
            self.pending.setdefault(producer.producer_id, {})[name] = value
        else:
            self.states[name] = value

    def replay_marker(self, producer: ProducerIdAndEpoch, is_commit: bool) -> None:
        ended = self.pending.pop(producer.producer_id, {})
        if is_commit:
            self.states.update(ended)

    def record_loader(self) -> RecordLoader:
        def load(key: bytes, value: bytes | None, timestamp_ms: int, producer: ProducerIdAndEpoch | None) -> bool:
            decoded = transactions.decode(key, value)
            if isinstance(decoded, UnknownVersion):
                return False
            self.replay(*decoded, timestamp_ms, producer)
            return True

        return load

    # Time

    def start_clocks(self, now_ms: float) -> Iterator[None]:
        for name, state in self.states.items():
            if state.transaction_status == ONGOING:
                self.deadlines_ms[name] = now_ms + state.transaction_timeout_ms
            elif state.transaction_status in (PREPARE_COMMIT, PREPARE_ABORT):
                self.deadlines_ms[name] = now_ms
                self.resumed.add(name)
            self.note_due(name)
            yield

    def note_due(self, key: str) -> None:
        self.timers.set(key, self.deadlines_ms.get(key, NEVER))

    def take_due(self, now_ms: float) -> str | None:
        return self.timers.take(now_ms)

    def tick(self, key: str, now_ms: float) -> Decision:
        state = self.states.get(key)
        if key in self.resumed and state is not None and state.transaction_status in (PREPARE_COMMIT, PREPARE_ABORT):
            self.resumed.discard(key)
            self.deadlines_ms.pop(key, None)
            return Decision(effects=[effect_of(key, state)])
        if now_ms < self.deadlines_ms.get(key, NEVER):
            return Decision()
        del self.deadlines_ms[key]
        if state is not None and state.transaction_status == ONGOING:
            self.deadlines_ms[key] = now_ms + TRANSACTION_TIMEOUT_MS  # should the write fail
            return self._prepare(key, state, is_commit=False, is_fenced=True)
        return Decision()

    # Requests

    def begin(self, key: str, ticket: Ticket, now_ms: float) -> Decision:
        """Open a transaction in a new epoch of its producer."""
        known = self.states.get(key)
        if known is not None and known.transaction_status in (ONGOING, PREPARE_COMMIT, PREPARE_ABORT):
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        epoch = 0 if known is None else known.producer_epoch + 1
        self.deadlines_ms[key] = now_ms + TRANSACTION_TIMEOUT_MS  # sound without the record: the tick finds no state
        return Decision(self._records(key, ONGOING, epoch), [(ticket, reply(epoch))])

    def end(self, key: str, ticket: Ticket, *, is_commit: bool) -> Decision:
        state = self.states.get(key)
        if state is None or state.transaction_status != ONGOING:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        decision = self._prepare(key, state, is_commit=is_commit, is_fenced=False)
        decision.replies = [(ticket, reply(state.producer_epoch))]
        return decision

    def completed(self, effect: WriteMarkers) -> Decision:
        """All markers are written."""
        state = self.states.get(effect.transactional_id)
        if state is None or effect_of(effect.transactional_id, state) != effect:
            return Decision()
        status = COMPLETE_COMMIT if effect.is_commit else COMPLETE_ABORT
        records = self._records(effect.transactional_id, status, state.producer_epoch)
        return Decision(records, failed=lambda: self.resumed.add(effect.transactional_id))  # the tick is tried again

    def _prepare(self, key: str, state: TransactionLogValue, *, is_commit: bool, is_fenced: bool) -> Decision:
        status, epoch = PREPARE_COMMIT if is_commit else PREPARE_ABORT, state.producer_epoch + is_fenced
        records = self._records(key, status, epoch)
        (_, value), *_ = records
        assert isinstance(value, TransactionLogValue)
        return Decision(records, effects=[effect_of(key, value)])

    def _records(self, key: str, status: int, epoch: int) -> Records:
        value = TransactionLogValue(
            producer_id=sum(key.encode()),
            producer_epoch=epoch,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            transaction_status=status,
            transaction_partitions=[],
            transaction_last_update_timestamp_ms=self.timestamp_ms(),
            transaction_start_timestamp_ms=-1,
        )
        return [(TransactionLogKey(key), value)]

    def write(self, keys: Sequence[str], producer: ProducerIdAndEpoch, ticket: Ticket) -> Decision:
        """Records of an open transaction in this log."""
        records = [self._records(key, COMPLETE_COMMIT, producer.producer_epoch)[0] for key in keys]
        return Decision(records, [(ticket, reply(len(keys)))], producer=producer)

    def mark(self, producer: ProducerIdAndEpoch, ticket: Ticket, *, is_commit: bool) -> Decision:
        """The end of the transaction in this log."""
        return Decision(replies=[(ticket, reply(0))], producer=producer, marker=Marker(is_commit, 0))


def effect_of(key: str, state: TransactionLogValue) -> WriteMarkers:
    producer = ProducerIdAndEpoch(state.producer_id, state.producer_epoch)
    return WriteMarkers(key, producer, state.transaction_status in (PREPARE_COMMIT, COMPLETE_COMMIT))


def reply(number: int) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=number)


def failure_response(code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


class TransactionBench(CoordinatorBench[TransactionShard]):
    """A coordinator of transactions; `performed` are the effects so far, each with the epoch of its decision.

    With `completes` the markers of an effect are written at once.
    """

    def __init__(
        self,
        prepare: Callable[[ScriptedPartition], None] = lambda _: None,
        *,
        completes: bool = False,
        perform: Callable[[Sequence[object], int], None] | None = None,
    ) -> None:
        self.performed: list[tuple[WriteMarkers, int]] = []
        self.completes = completes
        super().__init__(TRANSACTIONS_LOG, prepare, perform or self._perform)

    def new_shard(self) -> TransactionShard:
        return TransactionShard(self.time.clock.now_ms)

    def _perform(self, effects: Sequence[object], leader_epoch: int) -> None:
        for effect in effects:
            assert isinstance(effect, WriteMarkers)
            self.performed.append((effect, leader_epoch))
            if self.completes:
                self.coordinator.run(effect.transactional_id, lambda shard, _, done=effect: shard.completed(done))  # type: ignore[misc]

    def begin(self, key: str = "a", **options: object) -> list[object]:
        now_ms = self.time.clock.monotonic_ms()
        return self.ask(lambda shard, ticket: shard.begin(key, ticket, now_ms), key, **options)

    def end(self, key: str = "a", *, is_commit: bool = True, **options: object) -> list[object]:
        return self.ask(lambda shard, ticket: shard.end(key, ticket, is_commit=is_commit), key, **options)

    def write(self, *keys: str, producer: ProducerIdAndEpoch) -> list[object]:
        return self.ask(lambda shard, ticket: shard.write(keys, producer, ticket), keys[0])

    def mark(self, producer: ProducerIdAndEpoch, *, is_commit: bool) -> list[object]:
        return self.ask(lambda shard, ticket: shard.mark(producer, ticket, is_commit=is_commit), "")

    def status(self, key: str = "a") -> int | None:
        state = self.shard.states.get(key)
        return None if state is None else state.transaction_status
