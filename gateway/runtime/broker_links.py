"""The connections to other brokers, as this broker's tasks see them. `gateway/network/links.py` makes them."""

from __future__ import annotations

from typing import Protocol

from headgate.gateway.runtime.tasks import Ask
from headgate.protocol.schema import Message


class LinkLost(Exception):
    """The connection to a broker ended, or could not be made, before the answer came. The text has the reason."""


class BrokerLink(Protocol):
    """A connection to a broker, which connects at need."""

    def ask(self, request: Message, version: int | None = None) -> Ask:
        """The answer to a request, in the latest version that both brokers have, unless `version` names another.

        Raises LinkLost, and KafkaError(UNSUPPORTED_VERSION) if there is no such version.
        """

    def versions(self) -> Ask:
        """The versions that the broker serves, by API key. Raises LinkLost."""

    def close(self) -> None:
        """End the connection. Requests without an answer, and all later ones, are lost."""


class BrokerLinks(Protocol):
    """Opens links."""

    def open(self, node_id: int, host: str, port: int, client_id: str, *, timeout_ms: float) -> BrokerLink:
        """A link whose connection ends if an answer takes longer than `timeout_ms`."""
