"""The bench of compiled messages: what is measured, with which marks, and what is printed."""

from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.protocol import compiler, registry
from headgate.protocol.schema import Message, tree
from headgate.protocol.tests.declared import request_class, response_class
from headgate.tools.bench.rows import messages
from headgate.tools.bench.rows.messages import MARK, Row

CLASSES = [cls for key in registry.APIS for cls in (request_class(key), response_class(key))]


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """No measurement: construct takes 40 us, the compiled function 2. The numbers of rounds that were asked for."""
    asked: list[int] = []

    def timed_as(pair: Any, rounds: int) -> tuple[float, float]:
        for function in pair:
            function()
        asked.append(rounds)
        return 40.0, 2.0

    monkeypatch.setattr(messages, "timed", timed_as)
    return asked


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: str(cls.__name__))
def test_compiler_and_construct_agree_on_the_samples(cls: type[Message]) -> None:
    for version in cls.versions:
        value, _ = messages.sample(cls, version, 3)
        encoded = tree(cls, version).build(value)
        assert compiler.read(cls, version, encoded) == (value, len(encoded))


@pytest.mark.parametrize(
    "key, version, size, elements",
    [
        (0, 7, 100, 101),  # a topic of 100 partitions
        (1, 4, 100, 101),
        (1, 11, 12, 25),  # and 12 forgotten topics
        (9, 5, 12, 12),  # the numbers of partitions are no elements
        (12, 4, 12, 0),
        (32, 0, 12, 13),  # a resource with 12 names
        (93, 0, 12, 111),  # of three nodes, two of them in a struct of their own, each with three arrays of names
    ],
)
def test_a_size_is_that_of_the_innermost_arrays(key: int, version: int, size: int, elements: int) -> None:
    assert messages.sample(request_class(key), version, size)[1] == elements


def test_a_hot_message_has_a_mark_in_every_version_and_size(timed: list[int]) -> None:
    measured = messages.measure(["OffsetCommit"], rounds=2)
    assert {(row.name, row.version) for row in measured} == {
        *(("OffsetCommitRequest", version) for version in range(11)),
        *(("OffsetCommitResponse", version) for version in range(11)),
    }
    assert {(row.direction, row.elements, row.mark) for row in measured} == {
        (direction, elements, MARK) for direction in ("read", "write") for elements in (2, 13, 101)
    }
    assert set(timed) == {2}


def test_other_messages_have_a_mark_from_eleven_elements_on(timed: list[int]) -> None:
    measured = messages.measure(["DeleteTopics", "Heartbeat"])
    marks = {(row.name, row.version, row.elements): row.mark for row in measured}
    assert marks["DeleteTopicsRequest", 0, 1] is None
    assert marks["DeleteTopicsRequest", 6, 12] == MARK
    assert marks["HeartbeatRequest", 4, 0] is None
    assert len(measured) == 2 * len(marks)


def test_what_is_short_is_measured_again_with_more_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {2: (28.0, 2.0), 2 * messages.SECOND_CHANCE: (62.0, 2.0)}
    monkeypatch.setattr(messages, "timed", lambda pair, rounds: answers[rounds])
    assert {row.ratio for row in messages.measure(["ListOffsets"], rounds=2)} == {31.0}


@pytest.mark.parametrize("mark, is_short", [(None, False), (13.0, False), (14.5, True)])
def test_short_is_below_the_mark(mark: float | None, is_short: bool) -> None:
    row = Row("FetchRequest", 4, "read", 2, construct_us=28.0, compiled_us=2.0, mark=mark)
    assert (row.ratio, row.is_short) == (14.0, is_short)


def test_both_are_timed_in_turns() -> None:
    calls: list[str] = []

    def call(name: str) -> Callable[[], None]:
        return lambda: calls.append(name)

    construct_us, compiled_us = messages.timed((call("construct"), call("compiled")), 2)
    assert min(construct_us, compiled_us) > 0
    turns = [name for place, name in enumerate(calls) if place == 0 or calls[place - 1] != name]
    assert turns == ["construct", "compiled"] * 7  # once to see how often, then two rounds of three


def test_the_shortest_turns_of_the_median_round_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine is twice as slow in the second round, and in the third a neighbour comes between."""
    rounds = [(30, 2), (33, 3), (31, 2)], [(60, 4), (60, 5), (70, 4)], [(90, 2), (95, 2), (99, 2)]
    script = [1.0, 1.0, *(seconds for turns in rounds for pair in turns for seconds in pair)]
    clock = count()
    now = {next(clock): 0.0}

    def process_time() -> float:
        """Each second call is the end of a turn."""
        number = next(clock)
        now[number] = now[number - 1] + (0.0 if number % 2 else script.pop(0))
        return now[number]

    monkeypatch.setattr(messages, "time", SimpleNamespace(process_time=process_time))
    assert messages.timed((lambda: None, lambda: None), 3) in {(30e6, 2e6), (60e6, 4e6)}


def test_the_table(timed: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    assert messages.main(["SaslAuthenticate", "--rounds", "3"]) == 0
    head, first, *_, last = capsys.readouterr().out.splitlines()
    assert head.split() == ["message", "elements", "construct", "us", "compiled", "us", "ratio", "mark"]
    assert first.split() == ["SaslAuthenticateRequest", "v0", "read", "0", "40.0", "2.00", "20.0", "-"]
    assert last == "every row is at its mark"


def test_the_table_says_what_is_short(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(messages, "timed", lambda pair, rounds: (10.0, 1.0))
    messages.main(["SaslHandshake"])
    *_, row, last = capsys.readouterr().out.splitlines()
    assert row.split() == ["SaslHandshakeResponse", "v1", "write", "100", "10.0", "1.00", "10.0", "15", "short"]
    assert last == "8 below the mark"


def test_an_unknown_api_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        messages.main(["Fecth"])
    assert "no API is called Fecth" in capsys.readouterr().err
