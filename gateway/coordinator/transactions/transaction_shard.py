"""The shard of the transaction coordinator: the transactional ids of one partition of `__transaction_state`.

Pure: no clock, no log. `replay` is the only mutator of hard state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch
from headgate.gateway.coordinator.shard import RecordLoader
from headgate.gateway.coordinator.timers import Timers
from headgate.gateway.coordinator.transactions.settings import TransactionSettings
from headgate.protocol.schema import Message


class TransactionShard:
    """The state of one partition of `__transaction_state`, as a `CoordinatorShard`.

    timestamp_ms         wall clock, for records
    next_producer_id     a producer id that was never used; raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS) for a moment
    transaction_version  the finalized level of transaction.version
    """

    def __init__(
        self,
        settings: TransactionSettings,
        timestamp_ms: Callable[[], int],
        next_producer_id: Callable[[], int],
        transaction_version: Callable[[], int],
    ) -> None:
        self.settings = settings
        self.timestamp_ms = timestamp_ms
        self.next_producer_id = next_producer_id
        self.transaction_version = transaction_version
        self.timers = Timers()

    def replay(
        self, key: Message, value: Message | None, timestamp_ms: int, producer: ProducerIdAndEpoch | None = None
    ) -> None:
        """Change the hard state as one record says."""

    def replay_marker(self, producer: ProducerIdAndEpoch, is_commit: bool) -> None:
        """Nothing: no transaction writes into `__transaction_state`."""

    def record_loader(self) -> RecordLoader:
        """A function that replays records from their bytes, for one load."""
        return lambda _key, _value, _timestamp_ms, _producer: False

    def start_clocks(self, now_ms: float) -> Iterator[None]:
        """The log was replayed: start the timers of all keys, a few at each step."""
        yield from ()

    def note_due(self, key: str) -> None:
        """A decision about the key was made: set its timer."""

    def take_due(self, now_ms: float) -> str | None:
        """Remove and return a key whose timer is due; None if there is none."""
        return self.timers.take(now_ms)

    def tick(self, key: str, now_ms: float) -> Decision:
        """The timer of the key has fired, perhaps too early; the key may be gone."""
        return Decision()
