"""The interface of a shard: the state machine over one partition of an internal topic (Kafka's `CoordinatorShard`).

A shard is pure: it knows no log, no clock and no thread, and imports `protocol` alone. Requests are functions of the
shard that return a `Decision`. `replay` and `replay_marker` are the only mutators of its hard state, both live and
during a load: so the live state always equals the loaded state.

`replay` must accept a tombstone for a missing key, and a repeated record. It raises for nothing that the shard itself
decided. For any other record it may raise; the load then counts and skips the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch
from headgate.gateway.coordinator.timers import Timers
from headgate.protocol.schema import Message

RecordLoader = Callable[[bytes, bytes | None, int, ProducerIdAndEpoch | None], bool]
"""(key, value, timestamp in ms, producer): replay one record of the log; false for an unknown type of record."""


class CoordinatorShard(Protocol):
    """The state of one partition. Keys are the ids of groups or of transactions."""

    timers: Timers

    def replay(self, key: Message, value: Any, timestamp_ms: int, producer: ProducerIdAndEpoch | None = None) -> None:
        """Apply one of `decision.Records` to the hard state.

        `producer`: the record is part of this producer's open transaction.
        """

    def replay_marker(self, producer: ProducerIdAndEpoch, is_commit: bool) -> None:
        """End the producer's transaction in this log."""

    def record_loader(self) -> RecordLoader:
        """A function that replays encoded records, for one load."""

    def start_clocks(self, now_ms: float) -> Iterator[None]:
        """Start the timers of all keys after the replay of the log, a few at each step."""

    def note_due(self, key: str) -> None:
        """Set the key's timer after a decision about the key."""

    def take_due(self, now_ms: float) -> str | None:
        """Remove and return a key whose timer is due; None if no timer is due."""

    def tick(self, key: str, now_ms: float) -> Decision:
        """Decide for a timer that fired, perhaps too early; the key may be gone."""


S = TypeVar("S", bound=CoordinatorShard)
