"""The members of a group, any number of them, each with a connection: they join, assign, leave, join again.

One thread serves all of them with one epoll. Frames are built once for each member and patched later, and only the
needed fields of an answer are read. So a request costs the generator only a few microseconds besides system calls.
"""

import select
import socket
import struct
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final, Self

from headgate.tools.bench.measuring.target import Topic
from headgate.tools.bench.requests import group_frames
from headgate.tools.bench.requests.client import BenchError, Client, Reader
from headgate.tools.bench.requests.frames import JOIN_GROUP, SYNC_GROUP, RequestWriter
from headgate.tools.bench.requests.group_frames import JOIN_EPOCH, LEAVE_EPOCH, TopicPartitions

HEARTBEAT_VERSION: Final = 4
CONSUMER_HEARTBEAT_VERSION: Final = 1
REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 27, 79
_SILENCE_SECONDS = 15.0
_RETRY_SECONDS = 0.01
"""After this time without an answer, while the group is unstable, members without an open request send a heartbeat."""
_KEY_POSITION = 4
# Every answer: correlation id, tags of the header, throttle time, error; then, in JoinGroup: generation, names
_HEADER_POSITION: Final = 4
_RESULT_BYTES: Final = 6
_ERROR_POSITION: Final = 9
_GENERATION_POSITION: Final = 11
_PROTOCOL_BYTES: Final = 2 + len(group_frames.PROTOCOL_TYPE) + len(group_frames.PROTOCOL)
_LEADER_POSITION: Final = 15 + _PROTOCOL_BYTES


class Member(ABC):
    """A member: one connection with at most one open request."""

    def __init__(self, group: "Members", connection: socket.socket) -> None:
        self.group = group
        self.connection = connection
        self.member_id = ""
        self.open_api: int | None = None
        """The API key of the open request."""
        self.generation = -1
        self.partitions: Sequence[int] = ()
        """The owned partitions; none before the assignment of this generation."""
        self._received = bytearray()

    def ask(self, frame: bytes | bytearray) -> None:
        self.open_api = frame[_KEY_POSITION] << 8 | frame[_KEY_POSITION + 1]
        self.group.open += 1
        self.connection.sendall(frame)

    def receive(self) -> None:
        received = self._received
        more = self.connection.recv(1 << 16)
        if not more:
            raise BenchError(f"the broker closed the connection of a member of {self.group.group_id}")
        received += more
        if self.open_api is None:
            raise BenchError("an answer without a request")
        if len(received) < 4 or len(received) - 4 < int.from_bytes(received[:4], "big"):
            return
        api, answer, self.open_api, self._received = self.open_api, received[4:], None, bytearray()
        self.group.open -= 1
        self.group.answered += 1
        self.handle(api, answer)

    def fail(self, api: int, error: int) -> None:
        raise BenchError(f"a member of {self.group.group_id} gets error code {error} (API {api})")

    @abstractmethod
    def join(self) -> None:
        """Join the group as a process that has just started."""

    @abstractmethod
    def heartbeat(self) -> None:
        """Send a heartbeat; the answer tells the member of a rebalance."""

    @abstractmethod
    def leave(self) -> None: ...

    @abstractmethod
    def handle(self, api: int, answer: bytearray) -> None:
        """React to an answer as a client does, often with the next request. `answer`: from the correlation id on."""


class ClassicMember(Member):
    """A member of the classic protocol, eager: it revokes all its partitions at a rebalance."""

    def join(self) -> None:
        self._set_member_id("")
        self.ask(self._join)

    def heartbeat(self) -> None:
        self.ask(self._with_generation(self._heartbeat))

    def leave(self) -> None:
        self.generation, self.partitions = -1, ()
        self.ask(group_frames.leave_group(self.group.group_id, self.member_id).frame())

    def _set_member_id(self, member_id: str) -> None:
        group_id, metadata = self.group.group_id, group_frames.subscription(self.group.topic.name)
        self.member_id = member_id
        self._join = group_frames.join_group(group_id, member_id, metadata).frame()
        self._heartbeat = _patched(group_frames.heartbeat(HEARTBEAT_VERSION, group_id, member_id))
        self._sync = _patched(group_frames.sync_group(group_id, member_id))

    def _with_generation(self, patched: tuple[bytearray, int]) -> bytearray:
        frame, position = patched
        struct.pack_into(">i", frame, position, self.generation)
        return frame

    def handle(self, api: int, answer: bytearray) -> None:
        (error,) = struct.unpack_from(">h", answer, _ERROR_POSITION)
        if error == REBALANCE_IN_PROGRESS:
            self.partitions = ()
            self.ask(self._join)
        elif error == MEMBER_ID_REQUIRED:
            self._set_member_id(_join_answer(answer)[1])
            self.ask(self._join)
        elif error:
            self.fail(api, error)
        elif api == JOIN_GROUP:
            self._handle_join(answer)
        elif api == SYNC_GROUP:
            reader = Reader(bytes(answer[_HEADER_POSITION:]), flexible=True)
            reader.raw(_RESULT_BYTES + _PROTOCOL_BYTES)
            self.partitions = _read_assignment(reader.raw(reader.count()))

    def _handle_join(self, answer: bytearray) -> None:
        (self.generation,) = struct.unpack_from(">i", answer, _GENERATION_POSITION)
        leader = answer[_LEADER_POSITION + 1 : _LEADER_POSITION + answer[_LEADER_POSITION]]
        if leader != self.member_id.encode():
            self.ask(self._with_generation(self._sync))
            return
        members, topic = sorted(_join_answer(answer)[2]), self.group.topic
        parts = {
            member_id: group_frames.assignment(topic.name, range(number, topic.partitions, len(members)))
            for number, member_id in enumerate(members)
        }
        writer = group_frames.sync_group(self.group.group_id, self.member_id, parts)
        self.ask(self._with_generation(_patched(writer)))


def _patched(writer: RequestWriter) -> tuple[bytearray, int]:
    return bytearray(writer.frame()), writer.marks["generation"]


def _join_answer(answer: bytes | bytearray) -> tuple[int, str, list[str]]:
    """Generation, own member id and (for the leader) all member ids in a JoinGroup v9 answer."""
    reader = Reader(bytes(answer[_HEADER_POSITION:]), flexible=True)
    reader.raw(_RESULT_BYTES)
    generation = reader.number("i")
    for _ in ("protocol type", "protocol", "leader"):
        reader.string()
    reader.raw(1)
    own_id, members = reader.string() or "", []
    for _ in range(reader.count()):
        members.append(reader.string() or "")
        reader.string()
        reader.raw(reader.count())
        reader.tags()
    return generation, own_id, members


def _read_assignment(data: bytes) -> Sequence[int]:
    """The partitions in an assignment of one topic; none for an empty assignment."""
    if not data:
        return ()
    (length,) = struct.unpack_from(">h", data, 6)
    (count,) = struct.unpack_from(">i", data, 8 + length)
    return struct.unpack_from(f">{count}i", data, 12 + length)


class ConsumerMember(Member):
    """A member of the consumer protocol (KIP-848), which revokes partitions at once. `generation`: the member epoch."""

    def join(self) -> None:
        self.member_id, self.generation = str(uuid.uuid4()), JOIN_EPOCH
        topic = self.group.topic
        self._send_heartbeat([topic.name], TopicPartitions(topic.name, (), topic.topic_id))

    def heartbeat(self) -> None:
        self._send_heartbeat()

    def leave(self) -> None:
        self.generation, self.partitions = LEAVE_EPOCH, ()
        self._send_heartbeat()

    def _send_heartbeat(self, topics: Sequence[str] | None = None, owned: TopicPartitions | None = None) -> None:
        group_id, epoch = self.group.group_id, self.generation
        writer = group_frames.consumer_group_heartbeat(
            CONSUMER_HEARTBEAT_VERSION, group_id, self.member_id, epoch, topics, owned
        )
        self.ask(writer.frame())

    def handle(self, api: int, answer: bytearray) -> None:
        reader = Reader(bytes(answer[_HEADER_POSITION:]), flexible=True)
        reader.number("i")
        error = reader.number("h")
        if error:
            self.fail(api, error)
        reader.string()
        reader.string()
        epoch = reader.number("i")
        reader.number("i")
        if self.generation == LEAVE_EPOCH:
            return
        self.generation = epoch
        if reader.number("b") >= 0:
            self._acknowledge([partition for _ in range(reader.count()) for partition in _read_partitions(reader)])

    def _acknowledge(self, partitions: Sequence[int]) -> None:
        if set(partitions) != set(self.partitions):
            self.partitions, topic = partitions, self.group.topic
            self._send_heartbeat(owned=TopicPartitions(topic.name, partitions, topic.topic_id))


def _read_partitions(reader: Reader) -> list[int]:
    reader.raw(16)
    partitions = [reader.number("i") for _ in range(reader.count())]
    reader.tags()
    return partitions


class Members:
    """The members of one group over the partitions of one topic."""

    def __init__(self, client: Client, group_id: str, topic: Topic, kind: type[Member], count: int) -> None:
        self.group_id = group_id
        self.topic = topic
        self.open = 0
        """The number of open requests."""
        self.answered = 0
        self._stack = ExitStack()
        self._poller = self._stack.enter_context(select.epoll())
        self._by_descriptor: dict[int, Member] = {}
        for _ in range(count):
            connection = self._stack.enter_context(client.connect())
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._by_descriptor[connection.fileno()] = kind(self, connection)
            self._poller.register(connection, select.EPOLLIN)
        self.members = list(self._by_descriptor.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def join(self) -> float:
        """All members join. Returns the seconds until the group is stable."""
        started = time.perf_counter()
        for member in self.members:
            member.join()
        self._wait_until_stable()
        return time.perf_counter() - started

    def restart(self, number: int) -> float:
        """One member leaves and joins again; all others send a heartbeat at once. Returns the seconds until stable."""
        started = time.perf_counter()
        one = self.members[number % len(self.members)]
        one.leave()
        self._wait_for_answers()
        one.join()
        self._heartbeat_idle()
        self._wait_until_stable()
        return time.perf_counter() - started

    def leave(self) -> None:
        for member in self.members:
            member.leave()
        self._wait_for_answers()

    def _wait_for_answers(self) -> None:
        """Wait until no request is open. Raises BenchError."""
        while self.open:
            if not self._receive(_SILENCE_SECONDS):
                raise BenchError(f"no answer for {_SILENCE_SECONDS:g} s to {self.open} members of {self.group_id}")

    def _heartbeat_idle(self) -> None:
        for member in self.members:
            if member.open_api is None:
                member.heartbeat()

    def _wait_until_stable(self) -> None:
        """Wait until the group is stable. Raises BenchError unless every partition then has exactly one owner."""
        heard = time.monotonic()
        while self.open or not self._is_stable():
            if self.open and self._receive(_RETRY_SECONDS):
                heard = time.monotonic()
                continue
            if time.monotonic() - heard > _SILENCE_SECONDS:
                raise BenchError(f"{self.group_id} is not stable, and nothing has come for {_SILENCE_SECONDS:g} s")
            self._heartbeat_idle()
        owned = sorted(partition for member in self.members for partition in member.partitions)
        if owned != list(range(self.topic.partitions)):
            raise BenchError(f"{self.group_id} is stable, but not every partition has one owner: {owned[:20]} ...")

    def _is_stable(self) -> bool:
        one_generation = len({member.generation for member in self.members}) == 1
        return one_generation and sum(len(member.partitions) for member in self.members) >= self.topic.partitions

    def _receive(self, seconds: float) -> bool:
        """Receive answers for at most `seconds`; True if there were any."""
        events = self._poller.poll(seconds)
        for descriptor, _ in events:
            self._by_descriptor[descriptor].receive()
        return bool(events)
