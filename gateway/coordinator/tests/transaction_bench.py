"""A coordinator of transactions over a scripted partition: the second kind of shard that the runtime has.

    begin ──> Ongoing ──end, or its timeout──> Prepare ──effect: markers are written elsewhere──> complete ──> Complete

The shard takes what that of groups takes besides: `write` puts records of a transaction into this very log, as
TxnOffsetCommit does, and `mark` ends it with a marker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch, Records, Ticket
from headgate.gateway.coordinator.internal_topic import InternalTopic
from headgate.gateway.coordinator.tests.coordinator_bench import TIMEOUT_MS, CoordinatorBench
from headgate.gateway.coordinator.transactions import ending
from headgate.gateway.coordinator.transactions.effects import WriteMarkers
from headgate.gateway.coordinator.transactions.settings import TransactionSettings
from headgate.gateway.coordinator.transactions.transaction import Transaction, TransactionState, encode
from headgate.gateway.coordinator.transactions.transaction_shard import TransactionShard
from headgate.gateway.tests.scripted import ScriptedPartition
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal import transactions
from headgate.protocol.internal.transactions import TransactionLogKey
from headgate.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headgate.protocol.messages.heartbeat import HeartbeatResponse
from headgate.protocol.records.control import Marker
from headgate.protocol.schema import Message

TRANSACTION_TIMEOUT_MS = 1_000
TRANSACTIONS_LOG = InternalTopic(
    name="__transaction_state",
    key_name="transactional id",
    invalid_key=ErrorCode.INVALID_REQUEST,
    encode_key=transactions.encode_key,
    encode_value=lambda transaction: encode(transaction, 0),
    partitions=3,
    replication_factor=1,
    configs={},
    compression_codec=0,
    load_buffer_bytes=1 << 20,
    write_timeout_ms=TIMEOUT_MS,
    logger=logging.getLogger("headgate.transactions"),
)
ENDED = EndTxnResponse()


class ShardWithTransactions(TransactionShard):
    """A shard whose own log has records of open transactions, in `pending` by producer id."""

    def __init__(self, timestamp_ms: Callable[[], int], monotonic_ms: Callable[[], float]) -> None:
        settings = TransactionSettings(abort_interval_ms=1)
        super().__init__(settings, timestamp_ms, monotonic_ms, lambda: 1, lambda: 0)
        self.pending: dict[int, dict[str, Transaction]] = {}

    def persistent_state(self) -> object:
        return self.transactions, self.pending

    def replay(
        self, key: Message, value: Transaction | None, timestamp_ms: int, producer: ProducerIdAndEpoch | None = None
    ) -> None:
        if producer is None:
            super().replay(key, value, timestamp_ms)
            return
        assert isinstance(key, TransactionLogKey)
        assert value is not None
        self.pending.setdefault(producer.producer_id, {})[key.transactional_id] = value

    def replay_marker(self, producer: ProducerIdAndEpoch, is_commit: bool) -> None:
        ended = self.pending.pop(producer.producer_id, {})
        if is_commit:
            self.transactions.update(ended)

    # Requests

    def begin(self, key: str, ticket: Ticket) -> Decision:
        """Open a transaction in a new epoch of its producer."""
        known = self.transactions.get(key)
        if known is not None and (known.state is TransactionState.ONGOING or known.is_prepared):
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        epoch = 0 if known is None else known.producer_epoch + 1
        begun = Transaction(sum(key.encode()), epoch, timeout_ms=TRANSACTION_TIMEOUT_MS)
        begun = begun.with_partitions({}, 0, self.timestamp_ms())
        return Decision(self.record(key, begun), [(ticket, reply(epoch))])

    def write(self, keys: Sequence[str], producer: ProducerIdAndEpoch, ticket: Ticket) -> Decision:
        """Records of an open transaction in this log."""
        committed = Transaction(producer.producer_id, state=TransactionState.COMPLETE_COMMIT)
        records: Records = [self.record(key, committed)[0] for key in keys]
        return Decision(records, [(ticket, reply(len(keys)))], producer=producer)

    def mark(self, producer: ProducerIdAndEpoch, ticket: Ticket, *, is_commit: bool) -> Decision:
        """The end of the transaction in this log."""
        return Decision(replies=[(ticket, reply(0))], producer=producer, marker=Marker(is_commit, 0))


def reply(number: int) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=number)


def not_begun(code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


def not_ended(code: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=code)


def markers(key: str, *, epoch: int = 0, is_commit: bool = True) -> WriteMarkers:
    """The effect of an end of what `begin` has begun."""
    return WriteMarkers(key, sum(key.encode()), epoch, is_commit, {}, 0)


class TransactionBench(CoordinatorBench[ShardWithTransactions]):
    """A coordinator of transactions; `performed` are the effects so far, each with the leader epoch that it got.

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

    def new_shard(self) -> ShardWithTransactions:
        return ShardWithTransactions(self.time.clock.now_ms, self.time.clock.monotonic_ms)

    def _perform(self, effects: Sequence[object], leader_epoch: int) -> None:
        for effect in effects:
            assert isinstance(effect, WriteMarkers)
            self.performed.append((effect, leader_epoch))
            if self.completes:
                decide = partial(lambda done, shard, _: shard.complete(done), effect)
                self.coordinator.decide_alone(effect.transactional_id, decide)

    def begin(self, key: str = "a", **options: object) -> list[object]:
        return self.ask(lambda shard, ticket: shard.begin(key, ticket), key, **options)

    def end(self, key: str = "a", *, is_commit: bool = True, **options: object) -> list[object]:
        def decide(shard: TransactionShard, ticket: Ticket) -> Decision:
            known = shard.transactions.get(key)
            epoch = -1 if known is None else known.producer_epoch
            request = EndTxnRequest(key, sum(key.encode()), epoch, is_commit)
            return ending.end_txn(shard, key, request, 4, ticket)

        return self.ask(decide, key, **options)

    def write(self, *keys: str, producer: ProducerIdAndEpoch) -> list[object]:
        return self.ask(lambda shard, ticket: shard.write(keys, producer, ticket), keys[0])

    def mark(self, producer: ProducerIdAndEpoch, *, is_commit: bool) -> list[object]:
        return self.ask(lambda shard, ticket: shard.mark(producer, ticket, is_commit=is_commit), "")

    def status(self, key: str = "a") -> TransactionState | None:
        transaction = self.shard.transactions.get(key)
        return None if transaction is None else transaction.state
