"""A connection gets Kafka's answers to everything that `sasl_scenario` sends; `DIFFERENCES` are on purpose.

`sasl_of_kafka.txt` has the answers of Kafka 4.1.2, `sasl_of_kafka39.txt` the lines that Kafka 3.9.1 answers otherwise.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.gateway.security.sasl.tests import sasl_scenario as scenario
from headgate.gateway.security.sasl.tests.exchanges import NOW_S, Connected, FakeClock, listener

_DIRECTORY = Path(__file__).parent


def answers_of(file: str) -> dict[str, str]:
    lines = (_DIRECTORY / file).read_text().splitlines()
    return {name: text for name, text in (line.split("\t") for line in lines)}


KAFKAS = answers_of("sasl_of_kafka.txt")
DIFFERENCES: dict[str, str] = {}


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    def connect(name: str) -> Connected:
        clock = FakeClock()
        return Connected(listener(clock, name), clock)

    return scenario.play(connect, NOW_S)


def test_everything_was_asked(answers: dict[str, str]) -> None:
    assert list(answers) == list(KAFKAS)


def test_the_answers_are_kafkas(answers: dict[str, str]) -> None:
    assert answers == {**KAFKAS, **DIFFERENCES}
