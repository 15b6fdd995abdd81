"""A missing answer: the reason, and the client's recovery from it: again, elsewhere, or never.

Source: the exceptions of Kafka's clients. ELSEWHERE are the errors below `RefreshRetriableException` (KIP-1050), and
NOT_CONTROLLER, which Kafka's admin client treats alike; AGAIN are the other retriable ones.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from headgate.protocol.errors import ErrorCode


class Recovery(Enum):
    """The next step of a client after an error.

    AGAIN: the same broker may answer later. ELSEWHERE: another broker may answer, so ask for the leader, the
    coordinator or the controller first. NEVER: every repetition gets the same error.
    """

    AGAIN = "again"
    ELSEWHERE = "elsewhere"
    NEVER = "never"


_ELSEWHERE: Final = frozenset(
    {
        ErrorCode.NONE,  # no broker gave the reason: the connection is lost, or there is no leader
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
_RETRIABLE: Final = frozenset(code for code in ErrorCode if code.retriable)


class Failure(NamedTuple):
    """The reason for a missing answer. `code` is NONE if the reason comes from no broker."""

    code: int
    text: str

    @classmethod
    def of(cls, code: int, message: str | None = None) -> Failure:
        """The failure with an error code: a sentence and its name. The broker's own `message` replaces our sentence."""
        try:
            error = ErrorCode(code)
        except ValueError:
            return cls(code, message or f"error {code}")
        return cls(code, f"{message or error.message.rstrip('.')} ({error.name})")

    @property
    def recovery(self) -> Recovery:
        """The next step of a client; NEVER for an unknown code."""
        if self.code in _ELSEWHERE:
            return Recovery.ELSEWHERE
        return Recovery.AGAIN if self.code in _RETRIABLE else Recovery.NEVER
