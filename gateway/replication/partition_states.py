"""The states of all partitions that this broker hosts: one record for each, and one function that changes states.

A partition is in one state; a key without a state is no partition:

    state            its log                              `ReplicaManager.get` raises   next states
    ONLINE           is open, and led here                nothing                       FOLLOWING; AWAITING_EPOCH
    FOLLOWING        is open, and a copy of the leader's  NOT_LEADER_OR_FOLLOWER        BECOMING_LEADER
    BECOMING_LEADER  ends its work as a copy              NOT_LEADER_OR_FOLLOWER        ended: ONLINE; FOLLOWING
    LOADING          exists, and will be opened           NOT_LEADER_OR_FOLLOWER        opened: by its role; OFFLINE
    CREATING         a thread creates it                  NOT_LEADER_OR_FOLLOWER        created: by its role; OFFLINE
    AWAITING_EPOCH   lost records that clients may know   NOT_LEADER_OR_FOLLOWER        a higher leader epoch: ONLINE
    OFFLINE          is damaged, or could not be created  KAFKA_STORAGE_ERROR           `retry`: RETRYING
    RETRYING         a thread creates it again            KAFKA_STORAGE_ERROR           created: by its role; OFFLINE
    REMOTE           stays here; this broker has no role  NOT_LEADER_OR_FOLLOWER        a role here: any of the above
    DELETING         was deleted while a thread opens it  UNKNOWN_TOPIC_OR_PARTITION    opened: deleted

Without a replica on this broker, a partition is REMOTE in every state. `online` finds the `Replica` of an online
partition by one look-up; in every other state a partition is an `Unavailable`. `ReplicaManager` causes the transitions;
this module knows no log, file or thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import Enum, auto
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.disk.checkpoint import TopicPartition

if TYPE_CHECKING:
    from headgate.gateway.metadata.image import Topic
    from headgate.gateway.replication.replica import Replica


class PartitionState(Enum):
    """The state of a partition on this broker. NONE: the partition does not exist."""

    NONE = auto()
    ONLINE = auto()
    FOLLOWING = auto()
    BECOMING_LEADER = auto()
    LOADING = auto()
    CREATING = auto()
    AWAITING_EPOCH = auto()
    OFFLINE = auto()
    RETRYING = auto()
    REMOTE = auto()
    DELETING = auto()


_NONE, _ONLINE, _LOADING = PartitionState.NONE, PartitionState.ONLINE, PartitionState.LOADING
_CREATING, _AWAITING = PartitionState.CREATING, PartitionState.AWAITING_EPOCH
_OFFLINE, _RETRYING = PartitionState.OFFLINE, PartitionState.RETRYING
_REMOTE, _DELETING = PartitionState.REMOTE, PartitionState.DELETING
_FOLLOWING, _BECOMING = PartitionState.FOLLOWING, PartitionState.BECOMING_LEADER
_OPEN = {_ONLINE, _AWAITING, _FOLLOWING}

TRANSITIONS: Mapping[PartitionState, Collection[PartitionState]] = {
    _NONE: {_NONE, *_OPEN, _LOADING, _CREATING, _OFFLINE, _REMOTE, _DELETING},
    _ONLINE: {_NONE, _AWAITING, _FOLLOWING},
    _FOLLOWING: {_NONE, _FOLLOWING, _BECOMING},
    _BECOMING: {*_OPEN, _NONE},
    _AWAITING: {_NONE, _ONLINE, _FOLLOWING},
    _LOADING: {*_OPEN, _NONE, _LOADING, _CREATING, _OFFLINE, _REMOTE},
    _CREATING: {*_OPEN, _NONE, _CREATING, _OFFLINE, _REMOTE},
    _OFFLINE: {*_OPEN, _NONE, _LOADING, _CREATING, _OFFLINE, _RETRYING, _REMOTE},
    _RETRYING: {*_OPEN, _NONE, _OFFLINE, _RETRYING, _REMOTE},
    _REMOTE: {*_OPEN, _NONE, _LOADING, _CREATING, _OFFLINE, _REMOTE},
    _DELETING: {_NONE, _LOADING, _CREATING, _OFFLINE, _REMOTE},
}
"""The states that may follow each state."""


class Unavailable(NamedTuple):
    """A partition that is not online."""

    state: PartitionState
    topic_id: bytes = b""
    """CREATING, RETRYING, OFFLINE: the id of the partition's topic."""
    is_new: bool = False
    """No log existed before: one may be created although a directory cannot be read."""
    error: KafkaError | None = None
    """OFFLINE, RETRYING: the reason."""
    leader: int = -1
    """REMOTE, FOLLOWING: the id of the leader, or -1."""
    deleted_topic_id: bytes | None = None
    """LOADING, DELETING: the id of a topic that was deleted while its log is being opened."""
    queued: Topic | None = None
    """CREATING, RETRYING: the topic of the next partition, while an older one of the name is still being created."""
    replica: Replica | None = None
    """AWAITING_EPOCH; FOLLOWING, BECOMING_LEADER: the follower."""

    def refusal(self, topic: str, index: int) -> KafkaError:
        """The error for a client that asks for the partition."""
        match self.state:
            case PartitionState.LOADING:
                return _not_led(f"the log of {topic}-{index} is being opened")
            case PartitionState.CREATING:
                return _not_led(f"{topic}-{index} is being created")
            case PartitionState.AWAITING_EPOCH:
                return _not_led(f"{topic}-{index} waits for a higher leader epoch")
            case PartitionState.BECOMING_LEADER:
                return _not_led(f"{topic}-{index} is about to be led")
            case PartitionState.REMOTE | PartitionState.FOLLOWING:
                led = f"node {self.leader} leads it" if self.leader >= 0 else "it has no leader at present"
                return _not_led(f"{topic}-{index}: {led}")
            case PartitionState.OFFLINE | PartitionState.RETRYING if self.error is not None:
                # A copy: each raise would extend the traceback of the stored error
                return KafkaError(self.error.code, self.error.message)
        return unknown(topic, index)


def unknown(topic: str, index: int) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {topic}-{index} does not exist")


def _not_led(message: str) -> KafkaError:
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)


class PartitionStates:
    """(topic, index) -> the partition. Unavailable partitions are in the order in which they entered their states."""

    def __init__(self) -> None:
        self.online: dict[TopicPartition, Replica] = {}
        """The online partitions. Only `move` changes the mapping."""
        self._unavailable: dict[TopicPartition, Unavailable] = {}
        self._counts = dict.fromkeys(PartitionState, 0)

    def unavailable(self, key: TopicPartition) -> Unavailable | None:
        """The record of the partition; None if it is online or does not exist."""
        return self._unavailable.get(key)

    def replica(self, key: TopicPartition) -> Replica | None:
        """The replica of a partition that is led or followed here, or that waits for a higher leader epoch."""
        found = self.online.get(key)
        unavailable = self._unavailable.get(key)
        return found if unavailable is None else unavailable.replica

    def __iter__(self) -> Iterator[Replica]:
        """The replicas of partitions that are online, then the others."""
        unavailable = (found.replica for found in self._unavailable.values())
        return chain(self.online.values(), (replica for replica in unavailable if replica is not None))

    def awaiting_epoch(self) -> list[Replica]:
        """The replicas of partitions that wait for a higher leader epoch."""
        if not self._counts[_AWAITING]:
            return []
        found = (found for found in self._unavailable.values() if found.state is _AWAITING)
        return [one.replica for one in found if one.replica is not None]

    def state(self, key: TopicPartition) -> PartitionState:
        unavailable = self._unavailable.get(key)
        if unavailable is not None:
            return unavailable.state
        return _ONLINE if key in self.online else _NONE

    def move(self, key: TopicPartition, to: Replica | Unavailable | None) -> None:
        """Move a partition to its next state: online, an unavailable one, or none. `TRANSITIONS` has all moves."""
        before = self.state(key)
        after = to.state if isinstance(to, Unavailable) else _NONE if to is None else _ONLINE
        assert after in TRANSITIONS[before], f"{key[0]}-{key[1]} cannot go from {before.name} to {after.name}"
        if before is _ONLINE:
            del self.online[key]
        elif before is not _NONE:
            del self._unavailable[key]
            self._counts[before] -= 1
            if not self._unavailable:
                self._unavailable.clear()  # releases the memory of the table
        if isinstance(to, Unavailable):
            self._unavailable[key] = to
            self._counts[after] += 1
        elif to is not None:
            self.online[key] = to

    def within(self, *states: PartitionState) -> Collection[TopicPartition]:
        """A live view of the partitions in these states, which exclude ONLINE."""
        return _Within(self._unavailable, self._counts, states)


class _Within(Collection[TopicPartition]):
    def __init__(
        self,
        unavailable: dict[TopicPartition, Unavailable],
        counts: dict[PartitionState, int],
        states: tuple[PartitionState, ...],
    ) -> None:
        self._unavailable = unavailable
        self._counts = counts
        self._states = states

    def __contains__(self, key: object) -> bool:
        found = self._unavailable.get(key)  # type: ignore[call-overload]
        return found is not None and found.state in self._states

    def __iter__(self) -> Iterator[TopicPartition]:
        return (key for key, found in list(self._unavailable.items()) if found.state in self._states)

    def __len__(self) -> int:
        return sum(self._counts[state] for state in self._states)
