"""Uses of quotas whose answers Kafka's own quota managers gave; `test_quotas_like_kafka` compares.

    cd gateway/security/quotas/tests
    python -m headgate.gateway.security.quotas.tests.quota_scenario > lines
    java -cp 'PROGRAMS:JARS/*' QuotaUse < lines > quotas_of_kafka.txt

PROGRAMS has the compiled compat_tests/java/broker/src/QuotaUse.java, JARS those of Apache Kafka 4.1.2.

A line has words, separated by tabs; `-` is no entity or no quota, `*` the default:

    new KIND NUMBER SECONDS         a manager of produce, request or mutation quotas with these windows
    set USER CLIENT BOUND           set or remove a quota
    use USER CLIENT VALUE NOW       the throttle time in ms
    back USER CLIENT VALUE NOW      take back a value
    most USER CLIENT                the largest value that is possible without a violation
    strict, permissive USER CLIENT COUNT NOW    the throttle time of a mutation, and whether it was refused
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from random import Random

USERS, CLIENTS = ("ann", "bob=b, c", "ANONYMOUS"), ("app", "an app/1", "")


def lines() -> Iterator[str]:
    """All lines, the same at every call."""
    random = Random(20)
    yield from _levels(random)
    for number, seconds in ((11, 1), (1, 1), (2, 1), (3, 10), (5, 2)):
        yield from _rates(random, "produce", number, seconds)
        yield from _rates(random, "request", number, seconds)
        yield from _mutations(random, number, seconds)


def _line(*words: object) -> str:
    return "\t".join(map(str, words))


def _levels(random: Random) -> Iterator[str]:
    """Quotas at every level, set and removed in any order, with what each client may use."""
    entities = [pair for pair in product((*USERS[:2], "*", "-"), (*CLIENTS[:2], "*", "-")) if pair != ("-", "-")]
    for _ in range(6):
        yield _line("new", "produce", 11, 1)
        present = set[tuple[str, str]]()
        for _ in range(25):
            entity = random.choice(entities)
            is_removed = entity in present and random.random() < 0.5
            present ^= {entity} if is_removed or entity not in present else set()
            yield _line("set", *entity, "-" if is_removed else random.randrange(1, 1000))
            yield from (_line("most", *pair) for pair in product(USERS, CLIENTS))


def _rates(random: Random, kind: str, number: int, seconds: int) -> Iterator[str]:
    """Use below and above a bound, with pauses of all lengths, and bounds that change meanwhile."""
    yield _line("new", kind, number, seconds)
    yield _line("set", "-", "*", 100)
    now_ms = 1_700_000_000_000
    for _ in range(160):
        now_ms += random.choice((0, 1, 37, 400, 999, 1_000, 1_001, 1_500, 3_000, 11_000, 30_001))
        value: float = random.choice((0, 1, 50, 99, 100, 250, 1_000, 5_000, 50_000))
        if kind == "request":
            value = value / 8
        client = random.choice(CLIENTS[:2])
        yield _line("use", USERS[0], client, value, now_ms)
        if random.random() < 0.2:
            yield _line("back", USERS[0], client, value, now_ms + random.choice((0, 3)))
        if random.random() < 0.1:
            yield _line("set", "-", random.choice((client, "*")), random.choice((20, 100, 1_000)))
        if random.random() < 0.1:
            yield _line("set", USERS[0], "-", random.choice(("-", 70)))


def _mutations(random: Random, number: int, seconds: int) -> Iterator[str]:
    """Mutations of strict and of permissive versions."""
    yield _line("new", "mutation", number, seconds)
    yield _line("set", USERS[0], "-", 2.5)
    now_ms = 1_700_000_000_000
    for _ in range(120):
        now_ms += random.choice((0, 1, 200, 400, 1_000, 5_000, 60_000))
        kind = random.choice(("strict", "strict", "permissive"))
        yield _line(kind, random.choice(USERS[:2]), "app", random.choice((0, 1, 3, 10, 100)), now_ms)
        if random.random() < 0.05:
            yield _line("set", USERS[0], "-", random.choice((0.5, 2.5, 10)))


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in lines())
