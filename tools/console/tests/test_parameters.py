"""Parameters of requests: what they mean, and the sentence for each wrong one."""

import pytest

from headgate.tools.console.parameters import MOST_VALUES, BadParameter, Parameters


def test_values_and_defaults() -> None:
    given = Parameters([("topic", "a,b"), ("topic", "c"), ("topic", "c"), ("at", "-2"), ("all", "true"), ("q", "")])
    assert given.texts("topic") == ["a,b", "c"]
    assert given.texts("group") == []
    assert given.number("at", least=-2) == -2
    assert given.number("limit", 10) == 10
    assert given.flag("all")
    assert not given.flag("none")
    assert given.text("q") == ""
    assert given.text("p", "x") == "x"
    assert given.choice("order", ("up", "down")) == "up"
    assert given.has("q")
    assert not given.has("p")


@pytest.mark.parametrize(
    "pairs, read, sentence",
    [
        ([], lambda given: given.text("a"), "the parameter a is missing"),
        ([("a", "1"), ("a", "2")], lambda given: given.text("a"), "a is there 2 times; give it once"),
        ([("a", "x")], lambda given: given.number("a"), "a=x is no whole number from 0"),
        ([("a", "٣")], lambda given: given.number("a"), "is no whole number"),
        ([("a", "11")], lambda given: given.number("a", most=10), "a=11 is no whole number from 0 to 10"),
        ([("a", "9" * 5_000)], lambda given: given.number("a"), "is no whole number"),
        ([("a", "yes")], lambda given: given.flag("a"), "a=yes is not one of false, true"),
        ([("a", str(n)) for n in range(MOST_VALUES + 1)], lambda given: given.texts("a"), "at most 1000"),
    ],
)
def test_wrong_ones_are_named(pairs: list[tuple[str, str]], read: object, sentence: str) -> None:
    assert callable(read)
    with pytest.raises(BadParameter, match=sentence):
        read(Parameters(pairs))
