"""The interface of a shard: the state machine over one partition of an internal topic (Kafka's `CoordinatorShard`).

A shard is pure: it knows no log, no clock and no thread, and imports `protocol` alone. Requests are functions of the
shard that return a `Decision`. `replay` and `replay_marker` are the only mutators of its hard state, live and while the
log is loaded, so that the live state is always the state that a load gives.

`replay` must accept a tombstone for what is not there, and a record that was there before. It raises for nothing that
the shard itself decided; for anything else it may raise, and the load counts and skips the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch
from headgate.gateway.coordinator.timers import Timers
from headgate.protocol.schema import Message

RecordLoader = Callable[[bytes, bytes | None, int, ProducerIdAndEpoch | None], bool]
"""(key, value, timestamp in ms, producer): replay one record of the log; false for a type of record that is unknown."""


class CoordinatorShard(Protocol):
    """The state of one partition. Keys are the ids of what is coordinated: of groups, or of transactions."""

    timers: Timers

    def replay(
        self, key: Message, value: Message | None, timestamp_ms: int, producer: ProducerIdAndEpoch | None = None
    ) -> None:
        """Change the hard state as one record says. `producer`: the record is part of its open transaction."""

    def replay_marker(self, producer: ProducerIdAndEpoch, is_commit: bool) -> None:
        """The transaction of the producer has ended in this log."""

    def record_loader(self) -> RecordLoader:
        """A function that replays records from their bytes, for one load."""

    def start_clocks(self, now_ms: float) -> Iterator[None]:
        """The log was replayed: start the timers of all keys, a few at each step."""

    def note_due(self, key: str) -> None:
        """A decision about the key was made: set its timer."""

    def take_due(self, now_ms: float) -> str | None:
        """Remove and return a key whose timer is due; None if there is none."""

    def tick(self, key: str, now_ms: float) -> Decision:
        """The timer of the key has fired, perhaps too early; the key may be gone."""


S = TypeVar("S", bound=CoordinatorShard)
