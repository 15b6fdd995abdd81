"""What administrators are answered is what Kafka answers, version by version; `admin_scenario` has the questions.

Not asked for, as it differs on purpose: what Kafka fails at (UNKNOWN_SERVER_ERROR for a topic without name and id, or
no answer at all for a resource that AlterConfigs has twice); what is not here (client metrics, __cluster_metadata);
the id that it makes up for a topic which is only checked; a topic that is deleted by name and by id in one request
(here each is answered); unknown settings of brokers (refused here, with the nearest name); `allow_downgrade` of
UpdateFeatures 0, which it does not heed; partitions that DescribeProducers has twice (told once here); transactional
ids, of which it says NOT_COORDINATOR until it has made its topic for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.api.handler_registration import load
from headgate.gateway.api.tests.like_kafka.admin_scenario import SETTINGS, play
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.schema import Message

pytestmark = pytest.mark.every_metadata_store

pytestmark = pytest.mark.slow
_LINES = (Path(__file__).parent / "admin_of_kafka.txt").read_text().splitlines()
KAFKAS = dict(line.split("\t") for line in _LINES)
APIS = sorted({name.split()[0] for name in KAFKAS})


class Serving:
    """A node that is asked only what it serves."""

    def __init__(self, node: HandlerBroker) -> None:
        self.node = node

    def ask(self, request: Message, version: int) -> Any:
        registration = load().get(request.api_key)
        if registration is None or registration.find(version) is None:
            return None
        return self.node.ask(request, version)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    settings = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
    node = HandlerBroker(tmp_path_factory.mktemp("data"), **settings)
    yield play(Serving(node))
    node.close()


@pytest.mark.parametrize("api", APIS)
def test_the_answers_are_kafkas(answers: dict[str, str], api: str) -> None:
    kafkas = {name: answer for name, answer in KAFKAS.items() if name.split()[0] == api}
    assert {name: answers.get(name) for name in kafkas} == kafkas
