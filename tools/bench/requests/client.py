"""A blocking client for the few requests that a run needs before and after measuring."""

import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headgate.tools.bench.requests import frames

METADATA_WITH_IDS = 10
METADATA_OF_ANY_BROKER = 1
_LEADERS_WITHIN_SECONDS = 30.0
_SECONDS_A_PARTITION = 0.1  # for topics of very many partitions: the files of one partition took Kafka 0.02 s


class BenchError(Exception):
    """A measurement is impossible; the text says why."""


class Reader:
    """Reads the fields of an answer, from behind the correlation id on."""

    def __init__(self, data: bytes, *, flexible: bool) -> None:
        self.data = data
        self.position = 0
        self.flexible = flexible
        self.tags()  # the header's

    def number(self, code: str) -> int:
        (value,) = struct.unpack_from(">" + code, self.data, self.position)
        self.position += struct.calcsize(">" + code)
        return int(value)

    def raw(self, length: int) -> bytes:
        self.position += length
        return self.data[self.position - length : self.position]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.number("B")
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def length(self, code: str) -> int:
        return self.varint() - 1 if self.flexible else self.number(code)

    def count(self) -> int:
        return self.length("i")

    def string(self) -> str | None:
        length = self.length("h")
        return None if length < 0 else self.raw(length).decode()

    def tags(self) -> None:
        if self.flexible:
            for _ in range(self.varint()):
                self.varint()
                self.raw(self.varint())


class PartitionState(NamedTuple):
    """A partition in an answer to Metadata. `replicas` and `in_sync`: ids of brokers, the preferred leader first."""

    error: int
    number: int
    leader: int
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()


@dataclass(slots=True)
class TopicState:
    """A topic in an answer to Metadata."""

    error: int
    name: str | None
    topic_id: bytes
    partitions: list[PartitionState] = field(default_factory=list)

    def is_ready(self, partitions: int) -> bool:
        return self.error == 0 and [p.error for p in self.partitions] == [0] * partitions


class ClusterState(NamedTuple):
    """An answer to Metadata. `brokers`: their ids; `controller`: an id, -1 if there is none."""

    brokers: list[int]
    controller: int
    topics: list[TopicState]


class Client:
    """Calls a broker on 127.0.0.1, each time on a new connection: calls are rare, brokers close idle connections."""

    def __init__(self, port: int) -> None:
        self.port = port

    def call(self, request: frames.RequestWriter, timeout_seconds: float = 30.0) -> Reader:
        """Send a request and read the answer. Raises OSError if no whole answer comes."""
        return Reader(self.answer(request, timeout_seconds)[4:], flexible=request.flexible)

    def answer(self, request: frames.RequestWriter, timeout_seconds: float = 30.0) -> bytes:
        """The bytes of the answer, from the correlation id on. Raises OSError if no whole answer comes."""
        with self.connect(timeout_seconds) as connection:
            return exchange(connection, request)

    def connect(self, timeout_seconds: float = 30.0) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout_seconds)

    def versions(self) -> dict[int, tuple[int, int]]:
        """API key -> lowest and highest version that the broker serves."""
        reader = self.call(frames.api_versions())
        _check(reader.number("h"), "ApiVersions")
        return {reader.number("h"): (reader.number("h"), reader.number("h")) for _ in range(reader.count())}

    def metadata(self, topics: list[str] | None, version: int = METADATA_OF_ANY_BROKER) -> ClusterState:
        return read_metadata(self.call(frames.metadata(version, topics), timeout_seconds=5.0), version)

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> bytes:
        """Create a topic and wait until every partition has a leader. Returns the topic id, zero from old brokers."""
        self.begin_topic(frames.create_topic(name, partitions, configs=configs))
        highest = self.versions().get(frames.METADATA, (0, 0))[1]
        version = METADATA_WITH_IDS if highest >= METADATA_WITH_IDS else METADATA_OF_ANY_BROKER
        return self._wait_for_leaders(name, partitions, version)

    def begin_topic(self, request: frames.RequestWriter, timeout_seconds: float = 30.0) -> None:
        """Create the topic of a CreateTopics request v4, and wait for nothing else."""
        reader = self.call(request, timeout_seconds)
        reader.number("i")  # throttle time
        reader.count()
        name = reader.string()
        error, message = reader.number("h"), reader.string()
        _check(error, f"CreateTopics of {name} ({message})")

    def _wait_for_leaders(self, name: str, partitions: int, version: int) -> bytes:
        """Wait until every leader answers: Kafka publishes leaders in Metadata before the partitions are ready."""
        seconds = max(_LEADERS_WITHIN_SECONDS, partitions * _SECONDS_A_PARTITION)
        deadline = time.monotonic() + seconds
        while True:
            (topic,) = self.metadata([name], version).topics
            if topic.is_ready(partitions) and not any(self.end_offset_errors(name, partitions)):
                return topic.topic_id
            if time.monotonic() > deadline:
                raise BenchError(f"{name}: not every partition has a leader after {seconds:g} s: {str(topic)[:500]}")
            time.sleep(0.02)

    def end_offset_errors(self, name: str, partitions: int) -> list[int]:
        """The error code of ListOffsets for each partition of the topic."""
        return [error for error, _ in self._ends(name, partitions)]

    def end_offsets(self, name: str, partitions: int) -> list[int]:
        """The high watermark of each partition of the topic; -1 for an error."""
        return [offset for _, offset in self._ends(name, partitions)]

    def _ends(self, name: str, partitions: int) -> list[tuple[int, int]]:
        """Error code and end of each partition of the topic."""
        reader = self.call(frames.list_latest_offsets(name, partitions))
        reader.count()
        reader.string()
        ends = []
        for _ in range(reader.count()):
            reader.number("i")
            error = reader.number("h")
            reader.number("q")  # time
            ends.append((error, reader.number("q")))
        return ends

    def delete_topic(self, name: str) -> None:
        reader = self.call(frames.delete_topic(name))
        reader.number("i")  # throttle time
        reader.count()
        reader.string()
        _check(reader.number("h"), f"DeleteTopics of {name}")


def read_metadata(reader: Reader, version: int) -> ClusterState:
    """Read an answer to Metadata of version METADATA_OF_ANY_BROKER or METADATA_WITH_IDS."""
    modern = version == METADATA_WITH_IDS
    if modern:
        reader.number("i")  # throttle time
    brokers = [_read_broker(reader) for _ in range(reader.count())]
    if modern:
        reader.string()  # cluster id
    controller = reader.number("i")
    topics = [_read_topic(reader, modern) for _ in range(reader.count())]
    if modern:
        reader.number("i")  # authorized operations
    reader.tags()
    return ClusterState(brokers, controller, topics)


def _read_broker(reader: Reader) -> int:
    node_id = reader.number("i")
    reader.string()
    reader.number("i")
    reader.string()
    reader.tags()
    return node_id


def _read_topic(reader: Reader, modern: bool) -> TopicState:
    topic = TopicState(reader.number("h"), reader.string(), reader.raw(16) if modern else bytes(16))
    reader.number("b")
    topic.partitions = [_read_partition(reader, modern) for _ in range(reader.count())]
    if modern:
        reader.number("i")  # authorized operations
    reader.tags()
    return topic


def _read_partition(reader: Reader, modern: bool) -> PartitionState:
    error, number, leader = reader.number("h"), reader.number("i"), reader.number("i")
    if modern:
        reader.number("i")  # leader epoch
    state = PartitionState(error, number, leader, _read_ids(reader), _read_ids(reader))
    if modern:
        _read_ids(reader)  # offline replicas
    reader.tags()
    return state


def _read_ids(reader: Reader) -> tuple[int, ...]:
    return tuple(reader.number("i") for _ in range(reader.count()))


def exchange(connection: socket.socket, request: frames.RequestWriter) -> bytes:
    """Send a request; return the answer from the correlation id on. Raises OSError if no whole answer comes."""
    connection.sendall(request.frame())
    (size,) = struct.unpack(">i", _receive(connection, 4))
    return _receive(connection, size)


def _receive(connection: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        more = connection.recv(length - len(data))
        if not more:
            raise ConnectionError(f"closed by the broker after {len(data)} of {length} bytes")
        data += more
    return bytes(data)


def _check(error: int, what: str) -> None:
    if error:
        raise BenchError(f"{what}: error code {error}")
