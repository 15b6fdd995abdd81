"""This broker with an authorizer, behind its dispatcher: clients by name, without sockets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from headgate.gateway.api.context import Client
from headgate.gateway.api.dispatch import Dispatcher
from headgate.gateway.api.handler_registration import load
from headgate.gateway.api.tests.under_acls.acl_sets import ADMIN, HOST
from headgate.gateway.api.tests.under_acls.scenario import SETTINGS
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol import registry
from headgate.protocol.compiler import read, write
from headgate.protocol.header import RequestHeader, read_response_header, write_request_header
from headgate.protocol.schema import Message


class DispatchingBroker:
    """This broker: a frame for each request, to the dispatcher with the authorizer of the settings."""

    def __init__(self, directory: Path, more: Mapping[str, str] = MappingProxyType({})) -> None:
        settings = {
            **SETTINGS,
            "listeners": "PLAINTEXT://127.0.0.1:0,CLIENTS://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "node.id": "1",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN}",
            **more,
        }
        self.node = HandlerBroker(directory, **{name.replace(".", "_"): value for name, value in settings.items()})
        # All APIs: a broker without ZooKeeper does not serve those between brokers
        self._dispatcher = Dispatcher(self.node.services, load(), self.node.parts.dispatcher.authorizer)
        self._clients: dict[tuple[str, str], Client] = {}

    def wait(self) -> None:
        self.node.time.advance(100)

    def ask(self, client: str, request: Message, version: int) -> Any:
        registration = load().get(request.api_key)
        if registration is None or registration.find(version) is None:
            return None
        frame = bytearray()
        write_request_header(frame, RequestHeader(request.api_key, version, 7, client))
        write(request, version, frame, [])
        listener = "PLAINTEXT" if registration.ranges[0].between_brokers else "CLIENTS"
        known = self._clients.setdefault(
            (client, listener), Client(HOST, 50_000, HOST, 9092, listener, principal=f"User:{client}")
        )
        replies: list[Any] = []
        reply = self._dispatcher.dispatch(memoryview(frame), known, replies.append)
        if isinstance(reply, list):
            replies.append(reply)
        self.node.services.batcher.write_all()
        while not replies:
            self.node.time.advance(100)
            self.node.services.batcher.write_all()
        if isinstance(replies[0], Exception):
            raise replies[0]
        data = memoryview(
            b"".join(
                bytes(piece) if isinstance(piece, bytes | bytearray | memoryview) else piece.read()
                for piece in replies[0]
            )
        )
        _, position = read_response_header(data[4:], request.api_key, version)
        response, end = read(registry.response_class(request.api_key), version, data[4:], position)
        assert end == len(data) - 4
        return response
