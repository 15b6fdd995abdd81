"""The lines of the row `messages`."""

from collections.abc import Sequence

import pytest

from headgate.tools.bench.rows import messages
from headgate.tools.bench.rows.compiled import QUICK_ROUNDS, measure_messages, message_lines


def row(name: str, direction: str, compiled_us: float, *, version: int = 1, mark: float | None = 15.0) -> messages.Row:
    return messages.Row(name, version, direction, 12, 40.0, compiled_us, mark)


def test_the_worst_version_stands_for_what_a_broker_does() -> None:
    rows = [row("FetchRequest", "read", 1.0), row("FetchRequest", "read", 4.0, version=2)]
    (line,) = message_lines(rows, 0.25)
    assert line.cells()[:5] == ["messages", "read FetchRequest/ms", "250", "25 construct", "10.000"]
    assert line.cells()[6:9] == [">= 15", "short of it", "25%"]


def test_hot_apis_come_first_the_rest_is_one_line_a_direction() -> None:
    rows = [
        row("MetadataResponse", "write", 2.0),
        row("FetchResponse", "read", 2.5),
        row("FetchResponse", "write", 2.0),
        row("ListGroupsResponse", "write", 1.0),
        row("ProduceRequest", "read", 2.0),
        row("MetadataRequest", "read", 2.0),
    ]
    assert [(line.figure.name, line.medians["headgate"]) for line in message_lines(rows, 0.0)] == [
        ("read ProduceRequest/ms", 500),
        ("write FetchResponse/ms", 500),
        ("read any other/ms", 400),
        ("write any other/ms", 500),
    ]


def test_what_has_no_mark_has_no_line() -> None:
    assert message_lines([row("ApiVersionsRequest", "read", 30.0, mark=None)], 0.0) == []


@pytest.mark.parametrize("is_quick, expected", [(True, (messages.HOT, QUICK_ROUNDS)), (False, ((), messages.ROUNDS))])
def test_a_quick_run_measures_the_hot_apis(is_quick: bool, expected: tuple[Sequence[str], int]) -> None:
    asked: list[tuple[Sequence[str], int]] = []

    def measure(names: Sequence[str], rounds: int) -> list[messages.Row]:
        asked.append((names, rounds))
        return [row("FetchRequest", "read", 1.0)]

    assert len(measure_messages(is_quick=is_quick, measure=measure)) == 1
    assert asked == [expected]
