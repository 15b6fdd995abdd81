"""Filters of quotas against a naive reading of the rules. Kafka's answers: `gateway/api/tests/like_kafka`."""

from __future__ import annotations

from itertools import product

import pytest

from headgate.gateway.security.quotas.filters import EntityFilter
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.describe_client_quotas import ANY, DEFAULT, EXACT
from headgate.protocol.security.quotas import QuotaEntity

NAMES = ("absent", None, "a", "b")
ENTITIES = [
    QuotaEntity.of({kind: name for kind, name in (("user", user), ("client-id", client)) if name != "absent"})
    for user, client in product(NAMES, NAMES)
]


def fits(name: str | None, match: tuple[int, str | None] | None, *, is_strict: bool) -> bool:
    if match is None:
        return not is_strict or name == "absent"
    kind, wanted = match
    return name != "absent" and (kind == ANY or name == (None if kind == DEFAULT else wanted))


@pytest.mark.parametrize("is_strict", [False, True])
def test_a_filter_matches_type_by_type(is_strict: bool) -> None:
    matches = (None, (EXACT, "a"), (DEFAULT, None), (ANY, None))
    for user, client in product(matches, matches):
        components = [(kind, *match) for kind, match in (("user", user), ("client-id", client)) if match is not None]
        chosen = EntityFilter.of(components, is_strict=is_strict)
        for entity in ENTITIES:
            names = {"user": "absent", "client-id": "absent", **entity.by_type}
            expected = fits(names["user"], user, is_strict=is_strict) and fits(
                names["client-id"], client, is_strict=is_strict
            )
            assert chosen.matches(entity) == (expected and bool(entity.names or not is_strict)), (components, entity)


def test_unknown_types_and_matches_are_refused() -> None:
    with pytest.raises(KafkaError) as refused:
        EntityFilter.of([("group", EXACT, "g")], is_strict=False)
    assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(KafkaError, match="Unknown match type 9"):
        EntityFilter.of([("user", 9, None)], is_strict=False)
