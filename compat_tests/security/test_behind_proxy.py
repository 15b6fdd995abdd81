"""Stock clients behind a proxy that sends PROXY headers: the address in the header counts for groups and ACLs."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, ResourcePatternType
from confluent_kafka.admin import ResourceType as Resource

from compat_tests.harness.broker import TARGET
from compat_tests.harness.topics import new_topic
from compat_tests.harness.waiting import until
from compat_tests.security.client_security import Security, of_librdkafka
from compat_tests.security.secure_broker import HOST, PLAIN, SecureBroker

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="Apache Kafka knows no PROXY headers")
BEHIND = "BEHIND"
SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
GOOD, BAD = "192.0.2.7", "192.0.2.66"


class HeaderProxy:
    """Passes bytes to a port, behind a header of version 1 or 2 with the address of a client."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.target = 0
        self.address, self.version = GOOD, 2
        threading.Thread(target=self.accept, daemon=True).start()

    def header(self) -> bytes:
        if self.version == 1:
            return f"PROXY TCP4 {self.address} 198.51.100.1 40000 9093\r\n".encode()
        addresses = socket.inet_aton(self.address) + socket.inet_aton("198.51.100.1")
        return (
            SIGNATURE + struct.pack(">BBH", 0x21, 0x11, 15) + addresses + struct.pack(">HH", 40_000, 9093) + b"\4\0\0"
        )

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                broker = socket.create_connection(("127.0.0.1", self.target))
                broker.sendall(self.header())
                for ends in ((client, broker), (broker, client)):
                    threading.Thread(target=forward, args=ends, daemon=True).start()


def forward(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


class ProxiedBroker(SecureBroker):
    """Its listener `BEHIND` has TLS, and is advertised with the port of a proxy."""

    def __init__(self, directory: Path, port: int) -> None:
        self.proxy_port = port
        super().__init__(directory)

    def start(self) -> float:
        took_s = super().start()
        self.port = self.ports()[PLAIN]
        return took_s

    def listener_settings(self) -> dict[str, str]:
        names = {PLAIN: PLAIN, BEHIND: "SSL"}
        return {
            "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
            "advertised.listeners": f"{PLAIN}://127.0.0.1:0,{BEHIND}://{HOST}:{self.proxy_port}",
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in names.items()),
            "inter.broker.listener.name": PLAIN,
            "listener.name.behind.headgate.proxy.trusted": "127.0.0.0/8",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "offsets.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
        }


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ProxiedBroker, HeaderProxy]]:
    proxy = HeaderProxy()
    broker = ProxiedBroker(tmp_path_factory.mktemp("proxied"), proxy.port)
    broker.start()
    proxy.target = broker.ports()[BEHIND]
    try:
        yield broker, proxy
    finally:
        broker.stop()
        proxy.listener.close()


def settings(broker: ProxiedBroker, proxy: HeaderProxy) -> dict[str, Any]:
    security = of_librdkafka(Security(broker.certificates))
    return {"bootstrap.servers": f"{HOST}:{proxy.port}", **security}


@pytest.mark.parametrize("version", [1, 2])
def test_a_group_has_the_address_in_the_header(proxied: tuple[ProxiedBroker, HeaderProxy], version: int) -> None:
    broker, proxy = proxied
    proxy.address, proxy.version = GOOD, version
    topic, group = new_topic(broker.bootstrap, 1), f"behind-{version}"
    producer = Producer(settings(broker, proxy))
    producer.produce(topic, b"value")
    assert producer.flush(30) == 0
    consumer = Consumer({**settings(broker, proxy), "group.id": group, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        until(lambda: any(message.value() == b"value" for message in consumer.consume(1, 0.2)), "the record")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        members = admin.describe_consumer_groups([group])[group].result(30).members
        assert [member.host for member in members] == [f"/{GOOD}"]
    finally:
        consumer.close()


def test_acls_hold_for_the_address_in_the_header(proxied: tuple[ProxiedBroker, HeaderProxy]) -> None:
    broker, proxy = proxied
    topic = new_topic(broker.bootstrap, 1)
    rules = [
        AclBinding(Resource.TOPIC, topic, ResourcePatternType.LITERAL, "User:*", host, AclOperation.ALL, permission)
        for host, permission in (("*", AclPermissionType.ALLOW), (BAD, AclPermissionType.DENY))
    ]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for added in admin.create_acls(rules).values():
        added.result(30)
    outcomes: dict[str, object] = {}
    for address in (GOOD, BAD):
        proxy.address = address
        producer = Producer({**settings(broker, proxy), "message.timeout.ms": 20_000})

        def delivered(error: KafkaError | None, _: Message, address: str = address) -> None:
            outcomes[address] = None if error is None else error.name()

        with contextlib.suppress(KafkaException):
            producer.produce(topic, b"value", on_delivery=delivered)
        producer.flush(30)
    assert outcomes == {GOOD: None, BAD: "TOPIC_AUTHORIZATION_FAILED"}
