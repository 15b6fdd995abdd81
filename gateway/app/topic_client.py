"""A minimal client for `Headgate.topic`: creates a topic on a broker of the same version."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from headgate.gateway.app.child_process import HeadgateError
from headgate.protocol.client.connection import ClientConnection
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_TIMEOUT_S = 30.0
_RECEIVED_BYTES = 1 << 16


def create_topic(bootstrap: str, name: str, partitions: int, configs: Mapping[str, str]) -> None:
    """Create a topic with one replica. Raises HeadgateError with the broker's reason."""
    rows = [CreatableTopicConfig(name=config, value=value) for config, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=rows)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=int(_TIMEOUT_S * 1000))
    try:
        (result,) = _ask(bootstrap, request).topics
    except OSError as error:
        raise HeadgateError(
            f"topic {name} was not created: the broker at {bootstrap} does not answer ({error})"
        ) from error
    if result.error_code != ErrorCode.NONE:
        raise HeadgateError(
            f"topic {name} was not created: {result.error_message or ErrorCode(result.error_code).name}"
        )


def _ask(bootstrap: str, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Send one request in the newest version, which the broker of the same package knows. Returns the response."""
    host, _, port = bootstrap.rpartition(":")
    peer = ClientConnection("headgate-embedded")
    with socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_S) as connection:
        connection.sendall(peer.request(request, request.versions.last))
        while True:
            data = connection.recv(_RECEIVED_BYTES)
            if not data:
                raise ConnectionResetError("the broker closed the connection")
            for _, response in peer.receive(data):
                answer: CreateTopicsResponse = response
                return answer
