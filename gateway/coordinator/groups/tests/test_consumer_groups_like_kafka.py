"""Consumer groups and their classic members have the answers of Kafka 4.1.2; `consumer_scenario` has the questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.gateway.coordinator.groups.tests.consumer_scenario import play
from headgate.gateway.tests.builders import HandlerBroker

KAFKAS = (Path(__file__).parent / "consumers_of_kafka.txt").read_text().splitlines()


class Punctual:
    """A node whose ticks come as soon as they are due."""

    def __init__(self, node: HandlerBroker) -> None:
        self.node = node

    def ask(self, request: object, version: int) -> object:
        answer = self.node.ask(request, version)  # type: ignore[arg-type]
        self.node.time.advance()
        return answer


@pytest.mark.slow
def test_answers(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path, group_initial_rebalance_delay_ms="0")
    try:
        for name, partitions in (("t", 6), ("u", 2)):
            node.services.metadata.create_topic(name, partitions)
        assert play(Punctual(node)) == KAFKAS
    finally:
        node.close()
