"""Levels of loggers."""

import logging
from collections.abc import Iterator

import pytest

from headgate.gateway.config import loggers
from headgate.protocol.errors import ErrorCode, KafkaError


@pytest.fixture
def of_a_test() -> Iterator[str]:
    """A logger below another; both get back what they had."""
    child, parent = logging.getLogger("headgate.of.a_test"), logging.getLogger("headgate.of")
    before = parent.level
    parent.setLevel(logging.ERROR)
    yield child.name
    parent.setLevel(before)
    child.setLevel(logging.NOTSET)


def level(name: str) -> str | None:
    (entry,) = loggers.describe([name])
    assert (entry.source, entry.read_only, entry.synonyms) == (6, False, ())
    return entry.value


def test_levels_are_inherited_set_and_taken_away(of_a_test: str) -> None:
    assert level(of_a_test) == "ERROR"
    for name in loggers.LEVELS:
        loggers.check(of_a_test, name)
        loggers.change({of_a_test: name})
        assert level(of_a_test) == name
    loggers.change({of_a_test: None})
    assert level(of_a_test) == "ERROR"


def test_only_ours_and_the_root(of_a_test: str) -> None:
    logging.getLogger("of.another")
    names = [entry.name for entry in loggers.describe()]
    assert names == loggers.names()
    assert names[0] == "root"
    assert of_a_test in names
    assert "of.another" not in names
    assert loggers.describe(["of.another"]) == []


@pytest.mark.parametrize(
    "name, level_name, code",
    [
        ("headgate.no.such", "INFO", ErrorCode.INVALID_CONFIG),
        ("root", "LOUD", ErrorCode.INVALID_CONFIG),
        ("root", "info", ErrorCode.INVALID_CONFIG),
        ("root", None, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_refused(name: str, level_name: str | None, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        loggers.check(name, level_name)
    assert refused.value.code == code
