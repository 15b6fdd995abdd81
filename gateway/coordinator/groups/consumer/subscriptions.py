"""The subscription of a member of a consumer group: names of topics, and one expression over names (KIP-848).

Expressions have RE2's syntax and match a whole name. Expressions come from clients and run on the broker's one thread:
so RE2 matches any of them in time proportional to the name, and in limited memory. An expression is compiled for each
use and not kept; its matches are kept, as a record of the group.

A change of topics resolves every expression of a group again, but only after the refresh interval: a second, or longer
with more topics and expressions. So clients that create topics all the time cannot keep the broker busy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from headgate.gateway.coordinator.groups.group_shard import TopicsView
from headgate.protocol.errors import ErrorCode, KafkaError

MAX_EXPRESSION_BYTES: Final = 4_096
MAX_EXPRESSIONS: Final = 100
"""The limit of expressions in one group. Each has a record of all matching names."""
MAX_PROGRAM_BYTES: Final = 1 << 20
"""The memory that RE2 may use for one expression; RE2's default is eight times as much."""

MAX_QUOTED: Final = 100
"""The limit of characters of an expression in an error message."""

MIN_REFRESH_MS: Final = 1_000
REFRESH_MS_PER_TOPIC: Final = 0.1
"""A typical expression takes 1.3 microseconds a name: so matching takes at most 1.3% of the time."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The topics that an expression matched, the generation of the metadata, and the wall-clock time in ms."""

    topics: frozenset[str]
    generation: int
    timestamp_ms: int


def check(expression: str) -> None:
    """Raises KafkaError(INVALID_REGULAR_EXPRESSION) with the reason."""
    _compile(expression)


def resolve(expression: str, names: Iterable[str]) -> frozenset[str]:
    """The names that an expression matches. Raises as `check` does."""
    matches = _compile(expression).fullmatch
    return frozenset(name for name in names if matches(name.encode()))


def refresh_interval_ms(topics: int, expressions: int) -> float:
    """The pause in ms before a group resolves its expressions again, by the number of topics in the cluster."""
    return max(MIN_REFRESH_MS, topics * expressions * REFRESH_MS_PER_TOPIC)


def fingerprint(names: Collection[str], topics: TopicsView) -> int:
    """A hash of the input of a group's target: its existing topics with ids and sizes; 0 if no topic exists.

    The record of the group's epoch has the hash as an int64 (KIP-1101). Kafka's hash includes racks and uses another
    function: so a Kafka or Headgate that takes over a group of the other recomputes the target once.
    """
    known = []
    for name in sorted(names):
        count = topics.partitions_of(name)
        if count:
            known.append(b"%s %s %d" % (name.encode(), topics.id_of(name), count))
    if not known:
        return 0
    digest = hashlib.blake2b(b"\n".join(known), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _compile(expression: str) -> Any:
    # Imported here, because most brokers never get an expression
    import re2

    source = expression.encode()
    if len(source) > MAX_EXPRESSION_BYTES:
        raise _invalid(expression, f"it has {len(source)} bytes, over the limit of {MAX_EXPRESSION_BYTES}")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_PROGRAM_BYTES
    try:
        return re2.compile(source, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        raise _invalid(
            expression, reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        ) from None
    finally:
        re2.purge()  # RE2's module would cache the last 128, each with its memory


def _invalid(expression: str, reason: str) -> KafkaError:
    if len(expression) > MAX_QUOTED:
        expression = expression[:MAX_QUOTED] + "..."  # a limit on the message must not cut off the reason
    return KafkaError(
        ErrorCode.INVALID_REGULAR_EXPRESSION, f"{expression!r} is not a regular expression in RE2's syntax: {reason}"
    )
