"""The state of each partition's log in a log directory, changed by one function.

    UNOPENED ──> OPENING ──> OPEN ──> NONE         `allow_retry` brings FAILED back to UNOPENED
        ^           └──────> FAILED ──> NONE
    NONE ──> CREATING ─────> OPEN

`LogDirectory` does the work on files; `gateway.replication.partition_states` says what a state means for clients.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum, auto

from headgate.storage.directory.log_opening import LogOpening
from headgate.storage.disk.checkpoint import TopicPartition
from headgate.storage.errors import StorageError
from headgate.storage.log.log import Log


class LogPhase(Enum):
    """The state of a partition's log. NONE: the directory does not have the partition."""

    NONE = auto()
    UNOPENED = auto()
    OPENING = auto()
    OPEN = auto()
    FAILED = auto()
    CREATING = auto()


NONE, UNOPENED, OPENING = LogPhase.NONE, LogPhase.UNOPENED, LogPhase.OPENING
OPEN, FAILED, CREATING = LogPhase.OPEN, LogPhase.FAILED, LogPhase.CREATING

TRANSITIONS: Mapping[LogPhase, Collection[LogPhase]] = {
    NONE: {NONE, UNOPENED, CREATING, OPEN},  # OPEN: created here after another directory refused the partition
    UNOPENED: {NONE, OPENING},
    OPENING: {NONE, UNOPENED, OPENING, OPEN, FAILED},
    OPEN: {NONE},
    FAILED: {NONE, UNOPENED},
    CREATING: {NONE, OPEN},
}
"""The states that may follow each state."""

LogStateValue = Log | StorageError | LogOpening | LogPhase
"""The value of a state: the open log, the error of a failed one, the opening, or the bare state."""


class LogStates:
    """(topic, index) -> the state of the log. Any module may read the collections; only `move` changes them."""

    __slots__ = ("creating", "failed", "logs", "unopened")

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.failed: dict[TopicPartition, StorageError] = {}
        self.unopened: dict[TopicPartition, LogOpening | None] = {}
        """The partitions in state UNOPENED, with None, and in state OPENING, with their openings."""
        self.creating: set[TopicPartition] = set()

    def __contains__(self, key: TopicPartition) -> bool:
        return key in self.logs or key in self.failed or key in self.unopened or key in self.creating

    def __len__(self) -> int:
        return len(self.logs) + len(self.failed) + len(self.unopened) + len(self.creating)

    def state(self, key: TopicPartition) -> LogPhase:
        if key in self.logs:
            return OPEN
        if key in self.unopened:
            return UNOPENED if self.unopened[key] is None else OPENING
        return FAILED if key in self.failed else CREATING if key in self.creating else NONE

    def move(self, key: TopicPartition, to: LogStateValue) -> Log | None:
        """Move a partition to its next state, one of `TRANSITIONS`. Returns its log if that was open before."""
        before, after = self.state(key), _state_of(to)
        assert after in TRANSITIONS[before], f"{key[0]}-{key[1]} cannot go from {before.name} to {after.name}"
        log = self.logs.pop(key, None)
        self.failed.pop(key, None)
        self.creating.discard(key)
        if isinstance(to, LogOpening) or after is UNOPENED:
            self.unopened[key] = to if isinstance(to, LogOpening) else None
        elif key in self.unopened:
            del self.unopened[key]
            if not self.unopened:
                self.unopened.clear()  # a dict gives its memory back only so
        if isinstance(to, Log):
            self.logs[key] = to
        elif isinstance(to, StorageError):
            self.failed[key] = to
        elif after is CREATING:
            self.creating.add(key)
        return log


def _state_of(record: LogStateValue) -> LogPhase:
    if isinstance(record, LogPhase):
        return record
    return OPEN if isinstance(record, Log) else OPENING if isinstance(record, LogOpening) else FAILED
