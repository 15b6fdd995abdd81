"""What transactional clients are answered is what Kafka answers, field by field, and so are the logs in the end.

`transactions_scenario` has the questions; three files have the answers: of Kafka 4.1 with the new and with the old
protocol of transactions (KIP-890), and of Kafka 3.9, which has the old one alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.api.handler_registration import load
from headgate.gateway.coordinator.transactions.tests.transactions_scenario import SETTINGS, play
from headgate.gateway.runtime.purgatory import Waiting
from headgate.gateway.tests.builders import Node, over_the_wire
from headgate.protocol.errors import KafkaError
from headgate.protocol.messages.fetch import FetchResponse
from headgate.protocol.schema import Message
from headgate.storage.segment.file_slice import FileSlice

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
LEVELS = {"kafka_41_level_2": 2, "kafka_41_level_0": 0}


def read_answers(name: str) -> dict[str, str]:
    """The answers of a Kafka."""
    return dict(line.split("\t") for line in (HERE / f"{name}.txt").read_text().splitlines())


class Patient:
    """A node whose time goes on until there is an answer."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def pause(self, for_ms: int) -> None:
        self.node.time.advance(for_ms)

    def ask(self, request: Message, version: int) -> Any:
        served = load().get(request.api_key)
        if served is None or served.find(version) is None:
            return None
        outcome = self.node.handle(over_the_wire(request, version), version)
        if isinstance(outcome, Waiting):
            replies: list[Any] = []
            self.node.services.purgatory.park(outcome, replies.append)
            for _ in range(60_000):
                if replies:
                    break
                self.node.time.advance(1)
            assert replies, f"no answer to {request}, version {version}"
            (outcome,) = replies
        if isinstance(outcome, KafkaError):
            outcome = request.error_response(version, outcome.code, outcome.message)
        assert isinstance(outcome, Message)
        if isinstance(outcome, FetchResponse):
            read_slices(outcome)
        return over_the_wire(outcome, version)


def read_slices(response: FetchResponse) -> None:
    """Replace the pieces of segment files by their bytes."""
    for row in (row for topic in response.responses for row in topic.partitions):
        if isinstance(row.records, FileSlice):
            row.records = row.records.read()


@pytest.fixture(scope="module", params=LEVELS)
def answers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The answers of Kafka, and those of a node."""
    settings = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
    node = Node(tmp_path_factory.mktemp("data"), **settings)
    yield read_answers(request.param), play(Patient(node), LEVELS[request.param])
    node.close()
