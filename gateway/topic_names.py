"""Which names a topic may have (org.apache.kafka.common.internals.Topic)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from protocol.errors import ErrorCode, KafkaError

MAX_LENGTH = 249  # with "-0123456789.log" behind it, still the name of a directory
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_ALLOWED = "letters, digits, '.', '_' and '-'"

# Coordinators make these, with layouts of their own: a client that only asks about one does not create it.
INTERNAL = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))
RESERVED_BEGINNING = "__headgate_"


def problem(name: str) -> str | None:
    """What is wrong with a name, as a sentence; None for a good one."""
    if not name:
        return "the name of a topic must not be empty"
    if name in {".", ".."}:
        return "a topic cannot be called '.' or '..'"
    if len(name) > MAX_LENGTH:
        return f"the name of a topic has at most {MAX_LENGTH} characters, {name[:40]!r}... has {len(name)}"
    if _LEGAL.fullmatch(name) is None:
        return f"the name of a topic is made of {_ALLOWED}, which {name!r} is not"
    return None


def check(name: str) -> None:
    """Raises KafkaError(INVALID_TOPIC_EXCEPTION) for a name that no topic can have."""
    found = problem(name)
    if found is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, found)


def check_new(name: str, existing: Iterable[str]) -> None:
    """Raises KafkaError(INVALID_TOPIC_EXCEPTION) for a name that a new topic must not have.

    Names that differ only in '.' and '_' have the same names of metrics, so that Kafka refuses the second of them.
    """
    check(name)
    if name.startswith(RESERVED_BEGINNING):
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"names that begin with {RESERVED_BEGINNING} are the broker's own"
        )
    if "." not in name and "_" not in name:
        return
    alike = name.replace(".", "_")
    for other in existing:
        if other != name and other.replace(".", "_") == alike:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {name} collides with {other}: '.' and '_' count as the same"
            )
