"""The shard of the transaction coordinator: the transactional ids of one partition of `__transaction_state`.

Pure: no log, no thread. `replay` is the only mutator of hard state, `transactions`. The requests are functions of the
shard, in `initialization`, `partitions`, `ending` and `listing`.

A Prepare record has an effect, the markers; the Complete record follows by `complete`, when all markers are written.
After a load the effect of each Prepare state is performed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch, Records
from headgate.gateway.coordinator.shard import RecordLoader
from headgate.gateway.coordinator.timers import Timers
from headgate.gateway.coordinator.transactions.effects import WriteMarkers
from headgate.gateway.coordinator.transactions.settings import TransactionSettings
from headgate.gateway.coordinator.transactions.transaction import Transaction, TransactionState
from headgate.protocol.internal.transactions import TransactionLogKey, UnknownVersion, decode
from headgate.protocol.schema import Message

OVERDUE, REPLACED = "overdue", "replaced"
"""Reasons of the coordinator to abort a transaction: its timeout, or another producer with its id."""


class TransactionShard:
    """The state of one partition of `__transaction_state`, as a `CoordinatorShard`.

    timestamp_ms         wall clock, for records
    monotonic_ms         for deadlines
    next_producer_id     a producer id that was never used; raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS) for a moment
    transaction_version  the finalized level of transaction.version
    note_abort           called with an id whose transaction the coordinator aborts, and the reason: OVERDUE, REPLACED
    """

    def __init__(
        self,
        settings: TransactionSettings,
        timestamp_ms: Callable[[], int],
        monotonic_ms: Callable[[], float],
        next_producer_id: Callable[[], int],
        transaction_version: Callable[[], int],
        note_abort: Callable[[str, str], None] = lambda _key, _reason: None,
    ) -> None:
        self.settings = settings
        self.timestamp_ms = timestamp_ms
        self.next_producer_id = next_producer_id
        self.transaction_version = transaction_version
        self.note_abort = note_abort
        self.transactions: dict[str, Transaction] = {}
        self.timers = Timers()
        self.replaced: dict[str, tuple[ProducerIdAndEpoch, ProducerIdAndEpoch]] = {}
        """Transactional id -> the holder, and the producer that it was before its last InitProducerId, whose answer may
        be lost (KIP-360). No record has that, so a repeated request is fenced after a load, as in Kafka."""
        self._monotonic_ms = monotonic_ms
        self._deadlines_ms: dict[str, float] = {}
        """Of ongoing transactions."""
        self._resumed: set[str] = set()
        """Ids that were loaded in a Prepare state, until their effect is performed again."""
        self._written: set[str] = set()
        """Ids in a Prepare state whose markers are all written: only the Complete record is missing."""

    def record(self, key: str, transaction: Transaction) -> Records:
        return [(TransactionLogKey(key), transaction)]

    def prepare(self, key: str, prepared: Transaction) -> Decision:
        """Decide the end of a transaction: the record, and the markers as its effect."""
        self.replaced.pop(key, None)
        return Decision(self.record(key, prepared), effects=[prepared.markers(key)])

    def fence(self, key: str, transaction: Transaction) -> Decision:
        """Abort an ongoing transaction in a higher epoch."""
        return self.prepare(key, transaction.fenced(self.transaction_version(), self.timestamp_ms()))

    def complete(self, effect: WriteMarkers) -> Decision:
        """Write the Complete record: all markers of the effect are written. An outdated effect is ignored."""
        key = effect.transactional_id
        transaction = self.transactions.get(key)
        if transaction is None or not transaction.is_prepared or transaction.markers(key) != effect:
            return Decision()
        self._written.add(key)
        return self._complete(key, transaction)

    def _complete(self, key: str, transaction: Transaction) -> Decision:
        return Decision(self.record(key, transaction.completed(self.timestamp_ms())))

    # Hard state

    def replay(
        self, key: Message, value: Transaction | None, timestamp_ms: int, producer: ProducerIdAndEpoch | None = None
    ) -> None:
        """Change the hard state as one record says.

        The state is the record's value itself: decoding its message again took four percent of a transaction.
        """
        assert isinstance(key, TransactionLogKey)
        if value is None:
            self.transactions.pop(key.transactional_id, None)
        else:
            self.transactions[key.transactional_id] = value

    def replay_marker(self, producer: ProducerIdAndEpoch, is_commit: bool) -> None:
        """Do nothing: no transaction writes to `__transaction_state`."""

    def record_loader(self) -> RecordLoader:
        """A function that replays records from their bytes, for one load.

        It raises ValueError for a state that is never written.
        """

        def load(key: bytes, value: bytes | None, timestamp_ms: int, producer: ProducerIdAndEpoch | None) -> bool:
            decoded = decode(key, value)
            if isinstance(decoded, UnknownVersion):
                return False
            record_key, message = decoded
            state = None if message is None else Transaction.from_value(message)
            self.replay(record_key, state, timestamp_ms, producer)
            return True

        return load

    # Time

    def start_clocks(self, now_ms: float) -> Iterator[None]:
        """Resume open transactions after a load, one id at each step: timeouts continue, markers are written again."""
        for key, transaction in self.transactions.items():
            if transaction.is_prepared:
                self._resumed.add(key)
                self.timers.set(key, now_ms)
            self.note_due(key)
            yield

    def note_due(self, key: str) -> None:
        """Set the timer of the id's transaction after a decision about the id."""
        transaction = self.transactions.get(key)
        if transaction is not None and transaction.state is TransactionState.ONGOING:
            # Not in the past: a tick whose record cannot be written would be due at once again
            self.timers.set(key, self._check_at(max(self._deadline_ms(key, transaction), self._monotonic_ms())))
            return
        self._deadlines_ms.pop(key, None)
        if transaction is None or not transaction.is_prepared:
            self._written.discard(key)
            if transaction is None:
                self.replaced.pop(key, None)

    def _deadline_ms(self, key: str, transaction: Transaction) -> float:
        """The monotonic time at which the transaction is overdue. Only after a load it depends on the wall clock."""
        deadline_ms = self._deadlines_ms.get(key)
        if deadline_ms is None:
            passed_ms = max(self.timestamp_ms() - transaction.start_ms, 0)
            deadline_ms = self._monotonic_ms() + max(transaction.timeout_ms - passed_ms, 0)
            self._deadlines_ms[key] = deadline_ms
        return deadline_ms

    def _check_at(self, due_ms: float) -> float:
        """The first multiple of the interval after a time: overdue transactions are aborted together."""
        interval_ms = self.settings.abort_interval_ms
        return (due_ms // interval_ms + 1) * interval_ms

    def take_due(self, now_ms: float) -> str | None:
        """Remove and return an id whose timer is due; None if there is none."""
        return self.timers.take(now_ms)

    def tick(self, key: str, now_ms: float) -> Decision:
        """Decide for a timer that fired, perhaps too early, or because the last decision was not written."""
        transaction = self.transactions.get(key)
        if transaction is None:
            return Decision()
        if transaction.is_prepared:
            if key in self._written:
                return self._complete(key, transaction)
            if key in self._resumed:
                self._resumed.discard(key)
                return Decision(effects=[transaction.markers(key)])
        elif transaction.state is TransactionState.ONGOING and now_ms > self._deadline_ms(key, transaction):
            self.note_abort(key, OVERDUE)
            return self.fence(key, transaction)
        return Decision()
