"""All that is asked about offsets has the answers of Kafka 4.1.2, byte for byte (`offsets_scenario` has the questions).

Two differences are on purpose, and not asked for: OffsetFetch v9 with an epoch and without a member fails inside of
Kafka (UNKNOWN_SERVER_ERROR) and is UNKNOWN_MEMBER_ID here; Kafka orders DeleteGroups and "all topics" by its hash maps.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.coordinator.groups.tests.offsets_scenario import play
from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.tests.builders import HandlerBroker, over_the_wire, parked
from headgate.protocol.errors import KafkaError
from headgate.protocol.schema import Message

pytestmark = pytest.mark.slow
_LINES = (Path(__file__).parent / "offsets_of_kafka.txt").read_text().splitlines()
KAFKAS = {name: bytes.fromhex(answer) for name, answer in (line.split("\t") for line in _LINES)}


class Patient:
    """A node whose time goes on until there is an answer."""

    def __init__(self, node: HandlerBroker) -> None:
        self.node = node

    def ask(self, request: Message, version: int) -> Any:
        outcome = self.node.handle(over_the_wire(request, version), version)
        if is_task(outcome):
            replies = parked(self.node, outcome)
            while not replies:
                self.node.time.advance(1)
            (outcome,) = replies
        if isinstance(outcome, KafkaError):
            outcome = request.error_response(version, outcome.code, outcome.message)
        assert isinstance(outcome, Message)
        return over_the_wire(outcome, version)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, bytes]]:
    settings = {"offsets_topic_num_partitions": "5", "group_initial_rebalance_delay_ms": "0"}
    node = HandlerBroker(tmp_path_factory.mktemp("data"), **settings)
    yield play(Patient(node))
    node.close()


def test_everything_was_asked(answers: dict[str, bytes]) -> None:
    assert list(answers) == list(KAFKAS)


def test_the_answers_are_kafkas(answers: dict[str, bytes]) -> None:
    assert answers == KAFKAS
