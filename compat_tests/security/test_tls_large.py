"""Kafka's own tools over TLS, and large fetches: every byte arrives, also at a consumer that reads slowly."""

from __future__ import annotations

import hashlib
import random
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.harness.broker import TARGET
from compat_tests.harness.tool_jvm import ToolJvm
from compat_tests.harness.wire import FETCH, METADATA, ask, connect, frame, request_header, string
from compat_tests.security.client_security import Security, of_librdkafka
from compat_tests.security.secure_broker import HOST, MUTUAL, TLS, SecureBroker
from compat_tests.tools.kafka_tools import CLUSTER, CONFIGS, CONSUMER_GROUPS, OFFSETS, TOPICS

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="the broker is configured for TLS by its command line")
RECORD_BYTES: Final = 1_000_000
COUNT: Final = 50
PIECE_BYTES: Final = 1 << 20


@pytest.fixture(scope="module")
def large(secure: SecureBroker) -> tuple[str, list[bytes]]:
    """A topic of 50 records of a megabyte, sent over TLS, and their digests."""
    from compat_tests.harness.topics import new_topic

    topic, chance = new_topic(secure.bootstrap, 1), random.Random(35)
    producer = Producer(
        {
            "bootstrap.servers": secure.address(TLS),
            "message.max.bytes": 2 * RECORD_BYTES,
            "queue.buffering.max.kbytes": 1 << 17,
            **of_librdkafka(Security(secure.certificates)),
        }
    )
    digests = []
    for _ in range(COUNT):
        value = chance.randbytes(RECORD_BYTES)
        digests.append(hashlib.sha256(value).digest())
        producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0
    return topic, digests


def test_fifty_megabytes_arrive_byte_by_byte(secure: SecureBroker, large: tuple[str, list[bytes]]) -> None:
    topic, digests = large
    consumer = Consumer(
        {
            "bootstrap.servers": secure.address(TLS),
            "group.id": "unused",
            "fetch.max.bytes": 60 * RECORD_BYTES,
            "max.partition.fetch.bytes": 55 * RECORD_BYTES,
            **of_librdkafka(Security(secure.certificates)),
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    deadline_s = time.monotonic() + 60
    while len(found) < COUNT and time.monotonic() < deadline_s:
        for message in consumer.consume(10, 1.0):
            assert not message.error(), message.error()
            found.append(hashlib.sha256(message.value() or b"").digest())
    consumer.close()
    assert found == digests


def fetch_request(topic: str, correlation_id: int) -> bytes:
    """Fetch v4 of partition 0 from its beginning, up to 60 MB."""
    limit = 60 * RECORD_BYTES
    body = struct.pack(">iiiib", -1, 100, 1, limit, 0) + struct.pack(">i", 1) + string(topic)
    return frame(request_header(FETCH, 4, correlation_id) + body + struct.pack(">iiqi", 1, 0, 0, limit))


def test_a_consumer_that_reads_slowly_gets_every_byte(secure: SecureBroker, large: tuple[str, list[bytes]]) -> None:
    """With a small receive buffer and pauses: the broker waits for room in the middle of records of TLS.

    Others are served meanwhile, and the answer is the same as at full speed.
    """
    topic, _ = large
    answers = []
    for is_slow in (False, True):
        context = ssl.create_default_context(cafile=str(secure.certificates / "ca.pem"))
        with socket.socket() as tcp:
            if is_slow:
                tcp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 10)
            tcp.settimeout(30)
            tcp.connect(("127.0.0.1", secure.ports()[TLS]))
            with context.wrap_socket(tcp, server_hostname=HOST) as stream:
                stream.sendall(fetch_request(topic, 7) + fetch_request(topic, 8))
                answers += [answer_digest(stream, secure if is_slow else None) for _ in range(2)]
    assert len({size for size, _ in answers}) == 1
    assert answers[0][0] > COUNT * RECORD_BYTES
    assert len({digest for _, digest in answers}) == 1


def answer_digest(stream: ssl.SSLSocket, other: SecureBroker | None) -> tuple[int, bytes]:
    """Size and digest of an answer after its correlation id; with `other`, pauses in which another client is served."""
    head = receive(stream, 8)
    (size,) = struct.unpack(">i", head[:4])
    digest, left, pause_at = hashlib.sha256(), size - 4, size - PIECE_BYTES
    while left:
        part = stream.recv(left)
        assert part, f"the broker closed {left} bytes before the end"
        digest.update(part)
        left -= len(part)
        if other is not None and left < pause_at:
            pause_at -= PIECE_BYTES
            ask_for_metadata(other)
    return size, digest.digest()


def ask_for_metadata(broker: SecureBroker) -> None:
    """Another client connects, and is answered; by then the broker has filled every buffer on the way to this one."""
    with connect(broker.bootstrap, 10) as stream:
        ask(stream, METADATA, 1, struct.pack(">i", 0))


def receive(stream: ssl.SSLSocket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += stream.recv(size - len(data))
    return data


@pytest.fixture(scope="module")
def tool(secure: SecureBroker) -> Iterator[Callable[..., str]]:
    """Runs a tool of Kafka 4.1 with `--command-config`, over TLS with its own certificate."""
    jvm, path = ToolJvm("broker"), Security(secure.certificates, certificate="client").java_file()

    def run(main_class: str, *words: str, option: str = "--command-config") -> str:
        where = ("--bootstrap-server", secure.address(MUTUAL), option, path)
        said = jvm.run(main_class, *((*words, *where) if main_class == CLUSTER else (*where, *words)))
        assert said.status == 0, said
        return said.output

    yield run
    jvm.close()


def test_tools_of_kafka_work_over_tls(secure: SecureBroker, tool: Callable[..., str]) -> None:
    tool(TOPICS, "--create", "--topic", "by-tool", "--partitions", "2")
    assert "PartitionCount: 2" in tool(TOPICS, "--describe", "--topic", "by-tool")
    tool(
        CONFIGS, "--alter", "--entity-type", "topics", "--entity-name", "by-tool", "--add-config", "retention.ms=60000"
    )
    described = tool(CONFIGS, "--describe", "--entity-type", "topics", "--entity-name", "by-tool")
    assert "retention.ms=60000" in described
    assert tool(OFFSETS, "--topic", "by-tool").split() == ["by-tool:0:0", "by-tool:1:0"]
    assert "Cluster ID: " in tool(CLUSTER, "cluster-id", option="--config")
    assert tool(CONSUMER_GROUPS, "--list") is not None
    tool(TOPICS, "--delete", "--topic", "by-tool")
    assert "by-tool" not in tool(TOPICS, "--list").split()
