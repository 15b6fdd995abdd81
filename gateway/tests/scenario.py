"""The broker of a scenario: a recorded Kafka, or this broker."""

from typing import Any, Protocol

from headgate.protocol.schema import Message


class Broker(Protocol):
    """Whoever answers; None for a version that is not served."""

    def ask(self, request: Message, version: int) -> Any: ...
