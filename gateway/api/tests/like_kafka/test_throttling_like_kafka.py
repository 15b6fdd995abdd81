"""Clients beyond their quotas have Kafka's answers; `throttling_scenario` has the requests.

Not asked for, as it differs on purpose: a first fetch that finds more than all windows allow. Kafka cuts the records at
the limit, adds the other bytes of the response, and so throttles such a fetch for a few milliseconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headgate.gateway.api.tests.like_kafka.throttling_scenario import play
from headgate.gateway.api.tests.throttled_client import ThrottledClient
from headgate.gateway.security.quotas.quota_manager import QuotaManager
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.schema import Message

_LINES = (Path(__file__).parent / "throttling_of_kafka.txt").read_text().splitlines()
KAFKAS = dict(line.split("\t") for line in _LINES)


class NamedClient:
    """A connection of a client; the quotas are those of the node's metadata."""

    def __init__(self, node: HandlerBroker, quotas: QuotaManager, client_id: str) -> None:
        self._node = node
        self._quotas = quotas
        self._client = ThrottledClient(node, quotas, client_id)

    def ask(self, request: Message, version: int) -> Any:
        image = self._node.services.metadata.image
        if self._quotas.quotas is not image.quotas:
            self._quotas.change(image.quotas)
        self._client.dispatcher.follow_quotas()
        self._client.send((request, version))
        while not self._client.connection.outgoing:
            self._node.time.advance(1)
        self._client.connection.settle()
        (response,) = self._client.answers((type(request), version))
        return response


def test_the_answers_are_kafkas(node: HandlerBroker) -> None:
    quotas = QuotaManager()
    assert play(lambda client_id: NamedClient(node, quotas, client_id)) == KAFKAS
