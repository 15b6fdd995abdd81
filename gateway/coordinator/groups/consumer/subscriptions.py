"""The subscription of a member of a consumer group: names of topics, and one expression over names (KIP-848).

Expressions have RE2's syntax and match a whole name. Matching takes time in proportion to the name, and memory below a
limit, whatever the expression: they come from clients, and run on the broker's one thread. An expression is compiled
when it is needed, and forgotten then: what it matched is kept, as a record of the group.

Every expression of a group is resolved again when topics came or went, but not more often than this: a second, or the
longer the more topics and expressions there are, so that clients which create topics all the time cannot keep the
broker busy with it.
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
"""In one group. Each has a record of all names that it matches."""
MAX_PROGRAM_BYTES: Final = 1 << 20
"""The memory RE2 may use for one expression; RE2's own default is eight times that."""

MAX_QUOTED: Final = 100
"""Characters of an expression in the sentence that refuses it."""

MIN_REFRESH_MS: Final = 1_000
REFRESH_MS_PER_TOPIC: Final = 0.1
"""A name takes 1.3 microseconds, by an expression as people write them: at most 1.3% of the time goes into this."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The topics that an expression matched, in which generation of the metadata, and when on the wall's clock."""

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
    """How long a group waits until it resolves so many expressions again, with so many topics in the cluster."""
    return max(MIN_REFRESH_MS, topics * expressions * REFRESH_MS_PER_TOPIC)


def fingerprint(names: Collection[str], topics: TopicsView) -> int:
    """A hash of the input of a group's target: its existing topics with ids and sizes; 0 if no topic exists.

    Kept in the record of the group's epoch (KIP-1101) as an int64. Kafka's has racks in it besides, and is made by
    another function, so that Kafka recomputes the target of a group that it took over, once, and so do we.
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
    # Here, because most brokers never see an expression
    import re2

    source = expression.encode()
    if len(source) > MAX_EXPRESSION_BYTES:
        raise _invalid(expression, f"it has {len(source)} bytes, and {MAX_EXPRESSION_BYTES} are allowed")
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
        re2.purge()  # it would keep the last 128, each with its memory


def _invalid(expression: str, reason: str) -> KafkaError:
    if len(expression) > MAX_QUOTED:
        expression = expression[:MAX_QUOTED] + "..."  # the sentence must not be cut before it comes to the reason
    return KafkaError(
        ErrorCode.INVALID_REGULAR_EXPRESSION, f"{expression!r} is no regular expression of RE2's syntax: {reason}"
    )
