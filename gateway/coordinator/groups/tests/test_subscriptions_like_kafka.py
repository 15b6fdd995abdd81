"""What the subscriptions of classic members mean for a group is what they mean to Kafka 4.1.2 and 3.9.1.

`subscriptions_scenario` has the questions; `DIFFERENCES` are on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.coordinator.groups.tests.subscriptions_scenario import KAFKAS, SETTINGS, play
from headgate.gateway.coordinator.groups.tests.test_offsets_like_kafka import Patient
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.schema import Message

pytestmark = pytest.mark.slow
_LINES = (Path(__file__).parent / "subscriptions_of_kafka.txt").read_text().splitlines()

_SHORT = "version [1239] with the fields of [012]"
_CONVERTED = "(upgrade|join the consumer group|sync 2|downgrade|describe)"
# By Kafka: questions, as regular expressions
_BOTH = (
    # Kafka compares protocols only; a member that reads other topics needs others of their partitions
    ".*: join again with other topics",
    # Kafka refuses such members, and converts no group that has one
    f"upgraded, {_SHORT}: upgrade",
    # UNKNOWN_SERVER_ERROR
    "upgraded, version 1, with a count of owned partitions alone: upgrade",
    # The group and its members never get an answer
    ".*version 0 without a topic: join",
)
DIFFERENCES: dict[str, tuple[str, ...]] = {
    "4.1": _BOTH,
    # 3.9 loses the data of a custom assignor, and converts no group without an assignment
    "3.9": (*_BOTH, f"assigned, with user data: {_CONVERTED}", "assigned, no byte: upgrade"),
}


class Timed(Patient):
    """A node whose ticks come as soon as they are due; other time goes on in a pause."""

    def ask(self, request: Message, version: int) -> Any:
        answer = super().ask(request, version)
        self.node.time.advance()
        return answer

    def pause(self, for_ms: int) -> None:
        for _ in range(for_ms // 1000):
            self.node.time.advance(1000)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    settings = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
    node = HandlerBroker(tmp_path_factory.mktemp("data"), **settings)
    yield play(Timed(node))
    node.close()


def kafkas(who: str) -> dict[str, str]:
    rows = [line.split("\t") for line in _LINES]
    return {question: answer for kafka, question, answer in rows if who in kafka.split(", ")}


@pytest.mark.parametrize("kafka", KAFKAS)
def test_the_answers_are_kafkas(kafka: str, ours: dict[str, str]) -> None:
    expected = {question: answer for question, answer in kafkas(kafka).items() if not _is_different(kafka, question)}
    assert {question: ours.get(question) for question in expected} == expected


@pytest.mark.parametrize("kafka", KAFKAS)
def test_every_difference_is_one(kafka: str, ours: dict[str, str]) -> None:
    for pattern in DIFFERENCES[kafka]:
        answers = [item for item in kafkas(kafka).items() if re.fullmatch(pattern, item[0])]
        assert any(ours.get(question) != answer for question, answer in answers), pattern


def _is_different(kafka: str, question: str) -> bool:
    return any(re.fullmatch(pattern, question) for pattern in DIFFERENCES[kafka])
