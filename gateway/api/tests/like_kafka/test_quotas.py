"""Changes and filters of quotas have Kafka's answers, sentences included; `quotas_scenario` has the questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.gateway.api.tests.like_kafka.quotas_scenario import play
from headgate.gateway.tests.builders import HandlerBroker

pytestmark = pytest.mark.every_metadata_store

_LINES = (Path(__file__).parent / "quotas_of_kafka.txt").read_text().splitlines()
KAFKAS = dict(line.split("\t") for line in _LINES)


def test_the_answers_are_kafkas(node: HandlerBroker) -> None:
    assert play(node) == KAFKAS
