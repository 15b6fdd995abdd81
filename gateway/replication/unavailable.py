"""Partitions that are not served, and why: the state of each, and how many are in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from enum import Enum, auto
from typing import NamedTuple

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.disk.checkpoint import TopicPartition


class UnavailableState(Enum):
    """What keeps a partition from being served; `partitions.py` says what leads into each, and out of it."""

    OPENING = auto()
    MAKING = auto()
    RAISING = auto()
    OFFLINE = auto()
    RETRYING = auto()
    ELSEWHERE = auto()
    LEAVING = auto()


class Unavailable(NamedTuple):
    """One that is not served."""

    state: UnavailableState
    topic_id: bytes = b""
    """MAKING, RETRYING: of the topic whose partition it is."""
    is_new: bool = False
    """There never was a log of it: it may be made though there is a directory that cannot be looked into."""
    error: KafkaError | None = None
    """OFFLINE, RETRYING: what keeps it there."""
    leader: int = -1
    """ELSEWHERE."""
    doomed: bytes | None = None
    """OPENING, LEAVING: the log that is being opened is of the topic with this id, which was deleted meanwhile."""

    def refusal(self, topic: str, index: int) -> KafkaError:
        """What who asks for the partition is told."""
        match self.state:
            case UnavailableState.OPENING:
                return _not_led(f"the log of {topic}-{index} is being opened")
            case UnavailableState.MAKING:
                return _not_led(f"{topic}-{index} is being made")
            case UnavailableState.RAISING:
                return _not_led(f"{topic}-{index} waits for a higher leader epoch")
            case UnavailableState.ELSEWHERE:
                led = f"node {self.leader} leads it" if self.leader >= 0 else "it has no leader at present"
                return _not_led(f"{topic}-{index}: {led}")
            case UnavailableState.OFFLINE | UnavailableState.RETRYING if self.error is not None:
                # A copy: each raise would add to the traceback of the one that is kept
                return KafkaError(self.error.code, self.error.message)
        return unknown(topic, index)


def unknown(topic: str, index: int) -> KafkaError:
    """What who asks for a partition is told that there is not."""
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{index}")


def _not_led(message: str) -> KafkaError:
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)


class UnavailablePartitions:
    """(topic, index) -> Absent, in the order in which they came into their states."""

    def __init__(self) -> None:
        self._by_key: dict[TopicPartition, Unavailable] = {}
        self._counts = dict.fromkeys(UnavailableState, 0)
        self.get: Callable[[TopicPartition], Unavailable | None] = self._by_key.get

    def put(self, key: TopicPartition, absent: Unavailable) -> None:
        """It is in this state now, behind all others."""
        self.drop(key)
        self._by_key[key] = absent
        self._counts[absent.state] += 1

    def drop(self, key: TopicPartition) -> Unavailable | None:
        """It is served, or is not there any more."""
        absent = self._by_key.pop(key, None)
        if absent is not None:
            self._counts[absent.state] -= 1
            if not self._by_key:
                self._by_key.clear()  # it has room for all of them until then
        return absent

    def within(self, *states: UnavailableState) -> Collection[TopicPartition]:
        """Those in one of these states, at any time."""
        return _Within(self._by_key, self._counts, states)


class _Within(Collection[TopicPartition]):
    def __init__(
        self,
        by_key: dict[TopicPartition, Unavailable],
        counts: dict[UnavailableState, int],
        states: tuple[UnavailableState, ...],
    ) -> None:
        self._by_key = by_key
        self._counts = counts
        self._states = states

    def __contains__(self, key: object) -> bool:
        absent = self._by_key.get(key)  # type: ignore[call-overload]
        return absent is not None and absent.state in self._states

    def __iter__(self) -> Iterator[TopicPartition]:
        return (key for key, absent in list(self._by_key.items()) if absent.state in self._states)

    def __len__(self) -> int:
        return sum(self._counts[state] for state in self._states)
