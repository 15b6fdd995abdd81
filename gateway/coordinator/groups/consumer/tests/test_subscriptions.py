"""Expressions: RE2's syntax, whole names, linear time; and the hash that says whether topics changed."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.coordinator.groups.consumer import subscriptions
from headgate.gateway.coordinator.groups.consumer.subscriptions import fingerprint, refresh_interval_ms, resolve
from headgate.protocol.errors import ErrorCode, KafkaError


class Topics:
    """A view of topics as (id, partitions) by name."""

    generation = 1

    def __init__(self, **topics: tuple[bytes, int]) -> None:
        self.topics = topics

    def partitions_of(self, name: str) -> int:
        return self.topics[name][1] if name in self.topics else 0

    def id_of(self, name: str) -> bytes | None:
        return self.topics[name][0] if name in self.topics else None

    def name_of(self, topic_id: bytes) -> str | None:
        return next((name for name, (this_id, _) in self.topics.items() if this_id == topic_id), None)

    def names(self) -> list[str]:
        return list(self.topics)


def reason_of(expression: str) -> str:
    with pytest.raises(KafkaError) as caught:
        subscriptions.check(expression)
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    return caught.value.message


def test_an_expression_matches_whole_names() -> None:
    names = ["orders", "orders.eu", "my-orders", "Orders"]
    assert resolve("orders", names) == {"orders"}
    assert resolve("orders.*", names) == {"orders", "orders.eu"}
    assert resolve("(?i)orders|my-.*", names) == {"orders", "Orders", "my-orders"}
    assert resolve(r"\pL+\.[a-z]{2}", names) == {"orders.eu"}
    assert resolve("nothing", names) == frozenset()


@pytest.mark.parametrize(
    "expression,reason",
    [
        ("(orders", "missing )"),
        ("orders(?=x)", "invalid perl operator"),
        (r"(a)\1", "invalid escape sequence"),
        ("[z-a]", "invalid character class range"),
        ("*", "no argument for repetition operator"),
        ("((a{100}){100}){100}", "invalid repetition size"),
        ("a" * (subscriptions.MAX_EXPRESSION_BYTES + 1), "4097 bytes"),
        ("\u00e9" * (subscriptions.MAX_EXPRESSION_BYTES // 2 + 1), "4098 bytes"),
    ],
)
def test_what_is_no_expression_is_refused_with_the_reason(expression: str, reason: str) -> None:
    assert reason in reason_of(expression)


def test_memory_is_bounded_and_nothing_is_kept() -> None:
    import re2

    assert "too large" in reason_of("|".join(f"(\\pL{{{n}}}x)" for n in range(1, 300)))
    subscriptions.check("orders.*")
    assert re2._Regexp._make.cache_info().currsize == 0


def test_an_expression_that_others_take_ages_for_takes_no_time() -> None:
    started = time.process_time()
    assert resolve("(a*)*(a*)*(a|aa)+b", ["a" * 249] * 50) == frozenset()
    assert time.process_time() - started < 0.25  # re takes longer than a life for one of them


@given(st.text(max_size=30))
def test_any_text_is_an_expression_or_refused(expression: str) -> None:
    names = ["orders", ""]
    refused = None
    try:
        assert resolve(expression, names) <= set(names)
    except KafkaError as error:
        refused = error
    assert refused is None or refused.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_with_many_topics_expressions_are_resolved_less_often() -> None:
    assert refresh_interval_ms(10, 1) == 1_000
    assert refresh_interval_ms(100_000, 1) == 10_000
    assert refresh_interval_ms(10_000, 100) == 100_000, "a hundred expressions take a second"


def test_the_fingerprint_covers_ids_and_sizes_of_existing_topics() -> None:
    a, b = b"a" * 16, b"b" * 16
    some = fingerprint(["x", "y"], Topics(x=(a, 1), y=(b, 2), z=(b, 3)))
    assert some == fingerprint(["y", "x", "gone"], Topics(y=(b, 2), x=(a, 1)))
    assert -(1 << 63) <= some < 1 << 63
    others = {
        fingerprint(["x"], Topics(x=(a, 1))),
        fingerprint(["x", "y"], Topics(x=(a, 2), y=(b, 2))),
        fingerprint(["x", "y"], Topics(x=(b, 1), y=(b, 2))),
        some,
    }
    assert len(others) == 4
    assert fingerprint(["x"], Topics()) == fingerprint([], Topics(x=(a, 1))) == 0
