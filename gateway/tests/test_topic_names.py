"""Names of topics: which are none, which are taken."""

import pytest

from gateway import topic_names
from protocol.errors import ErrorCode, KafkaError


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "...", "x" * 249, "__consumer_offsets"])
def test_a_good_name(name: str) -> None:
    assert topic_names.problem(name) is None
    topic_names.check(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "a:b"])
def test_a_bad_name(name: str) -> None:
    assert topic_names.problem(name)
    with pytest.raises(KafkaError) as caught:
        topic_names.check_new(name, [])
    assert caught.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name, other", [("a.b", "a_b"), ("a_b", "a.b"), ("a.b_c", "a_b.c")])
def test_dots_and_underscores_count_as_the_same(name: str, other: str) -> None:
    with pytest.raises(KafkaError, match="collides"):
        topic_names.check_new(name, ["z", other])


def test_the_same_name_is_no_collision() -> None:
    topic_names.check_new("a.b", ["a.b", "a-b", "ab"])


def test_the_brokers_own_names_are_refused() -> None:
    with pytest.raises(KafkaError, match="broker's own"):
        topic_names.check_new("__headgate_metadata", [])
