"""Members of a group, as many as one likes, each with a connection of its own: they join, assign, leave, come again.

One thread, one epoll. Frames are made once for each member and patched later, and of an answer only what is needed is
read: a request costs the generator a few microseconds besides its system calls, so that it is not what is measured.
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
from headgate.tools.bench.requests.group_frames import JOIN_EPOCH, LEAVE_EPOCH, Place

HEARTBEAT_VERSION: Final = 4
CONSUMER_HEARTBEAT_VERSION: Final = 1
REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 27, 79
_SILENCE_SECONDS = 15.0
_PATIENCE_SECONDS = 0.01
"""When nothing came for so long and the group is not stable, those that have no answer to wait for ask again."""
_KEY_POSITION = 4
# All answers: correlation id, tags of the header, throttle time, error; then that of JoinGroup: generation, names.
_HEADER_POSITION: Final = 4
_RESULT_BYTES: Final = 6
_ERROR_POSITION: Final = 9
_GENERATION_POSITION: Final = 11
_PROTOCOL_BYTES: Final = 2 + len(group_frames.PROTOCOL_TYPE) + len(group_frames.PROTOCOL)
_LEADER_POSITION: Final = 15 + _PROTOCOL_BYTES


class Member(ABC):
    """One connection, on which at most one request is open."""

    def __init__(self, group: "Members", connection: socket.socket) -> None:
        self.group = group
        self.connection = connection
        self.member_id = ""
        self.asked: int | None = None
        """The API of the open request."""
        self.generation = -1
        self.partitions: Sequence[int] = ()
        """What it owns; nothing while it has no assignment of that generation."""
        self._received = bytearray()

    def ask(self, frame: bytes | bytearray) -> None:
        self.asked = frame[_KEY_POSITION] << 8 | frame[_KEY_POSITION + 1]
        self.group.open += 1
        self.connection.sendall(frame)

    def receive(self) -> None:
        received = self._received
        more = self.connection.recv(1 << 16)
        if not more:
            raise BenchError(f"the broker closed the connection of a member of {self.group.group_id}")
        received += more
        if self.asked is None:
            raise BenchError("an answer that nobody asked for")
        if len(received) < 4 or len(received) - 4 < int.from_bytes(received[:4], "big"):
            return
        api, answer, self.asked, self._received = self.asked, received[4:], None, bytearray()
        self.group.open -= 1
        self.group.answered += 1
        self.take(api, answer)

    def refuse(self, api: int, error: int) -> None:
        raise BenchError(f"a member of {self.group.group_id} hears error code {error} (API {api})")

    @abstractmethod
    def join(self) -> None:
        """As a process that has just been started."""

    @abstractmethod
    def look(self) -> None:
        """A heartbeat, by which a member learns what there is to do."""

    @abstractmethod
    def leave(self) -> None: ...

    @abstractmethod
    def take(self, api: int, answer: bytearray) -> None:
        """Do with an answer, from its correlation id on, what a client does: often that is to ask the next thing."""


class ClassicMember(Member):
    """Of the classic protocol, eager: it gives up everything at a rebalance."""

    def join(self) -> None:
        self._know("")
        self.ask(self._join)

    def look(self) -> None:
        self.ask(self._with_generation(self._heartbeat))

    def leave(self) -> None:
        self.generation, self.partitions = -1, ()
        self.ask(group_frames.leave_group(self.group.group_id, self.member_id).frame())

    def _know(self, member_id: str) -> None:
        group_id, metadata = self.group.group_id, group_frames.subscription(self.group.topic.name)
        self.member_id = member_id
        self._join = group_frames.join_group(group_id, member_id, metadata).frame()
        self._heartbeat = _patched(group_frames.heartbeat(HEARTBEAT_VERSION, group_id, member_id))
        self._sync = _patched(group_frames.sync_group(group_id, member_id))

    def _with_generation(self, patched: tuple[bytearray, int]) -> bytearray:
        frame, position = patched
        struct.pack_into(">i", frame, position, self.generation)
        return frame

    def take(self, api: int, answer: bytearray) -> None:
        (error,) = struct.unpack_from(">h", answer, _ERROR_POSITION)
        if error == REBALANCE_IN_PROGRESS:
            self.partitions = ()
            self.ask(self._join)
        elif error == MEMBER_ID_REQUIRED:
            self._know(_join_answer(answer)[1])
            self.ask(self._join)
        elif error:
            self.refuse(api, error)
        elif api == JOIN_GROUP:
            self._take_join(answer)
        elif api == SYNC_GROUP:
            reader = Reader(bytes(answer[_HEADER_POSITION:]), flexible=True)
            reader.raw(_RESULT_BYTES + _PROTOCOL_BYTES)
            self.partitions = _read_assignment(reader.raw(reader.count()))

    def _take_join(self, answer: bytearray) -> None:
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
    """Generation, own id, ids of the members (the leader alone has them), of JoinGroup v9."""
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
    """The partitions of the one topic; empty for no assignment."""
    if not data:
        return ()
    (length,) = struct.unpack_from(">h", data, 6)
    (count,) = struct.unpack_from(">i", data, 8 + length)
    return struct.unpack_from(f">{count}i", data, 12 + length)


class ConsumerMember(Member):
    """Of KIP-848. `generation` is its epoch; what it is told to give up it gives up at once."""

    def join(self) -> None:
        self.member_id, self.generation = str(uuid.uuid4()), JOIN_EPOCH
        topic = self.group.topic
        self._beat([topic.name], Place(topic.name, (), topic.topic_id))

    def look(self) -> None:
        self._beat()

    def leave(self) -> None:
        self.generation, self.partitions = LEAVE_EPOCH, ()
        self._beat()

    def _beat(self, topics: Sequence[str] | None = None, owned: Place | None = None) -> None:
        group_id, epoch = self.group.group_id, self.generation
        writer = group_frames.consumer_group_heartbeat(
            CONSUMER_HEARTBEAT_VERSION, group_id, self.member_id, epoch, topics, owned
        )
        self.ask(writer.frame())

    def take(self, api: int, answer: bytearray) -> None:
        reader = Reader(bytes(answer[_HEADER_POSITION:]), flexible=True)
        reader.number("i")
        error = reader.number("h")
        if error:
            self.refuse(api, error)
        reader.string()
        reader.string()
        epoch = reader.number("i")
        reader.number("i")
        if self.generation == LEAVE_EPOCH:
            return
        self.generation = epoch
        if reader.number("b") >= 0:
            self._own([partition for _ in range(reader.count()) for partition in _read_place(reader)])

    def _own(self, partitions: Sequence[int]) -> None:
        if set(partitions) != set(self.partitions):
            self.partitions, topic = partitions, self.group.topic
            self._beat(owned=Place(topic.name, partitions, topic.topic_id))


def _read_place(reader: Reader) -> list[int]:
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
        """Requests without an answer."""
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
        """All of them; seconds until the group is stable."""
        started = time.perf_counter()
        for member in self.members:
            member.join()
        self._settle()
        return time.perf_counter() - started

    def restart(self, number: int) -> float:
        """One leaves and comes again; the others hear of it at their next heartbeat: now. Seconds until stable."""
        started = time.perf_counter()
        one = self.members[number % len(self.members)]
        one.leave()
        self._finish()
        one.join()
        self._look()
        self._settle()
        return time.perf_counter() - started

    def leave(self) -> None:
        for member in self.members:
            member.leave()
        self._finish()

    def _finish(self) -> None:
        """Until no request is open."""
        while self.open:
            if not self._turn(_SILENCE_SECONDS):
                raise BenchError(f"no answer for {_SILENCE_SECONDS:g} s to {self.open} members of {self.group_id}")

    def _look(self) -> None:
        for member in self.members:
            if member.asked is None:
                member.look()

    def _settle(self) -> None:
        """Until the group is stable; raises BenchError unless every partition then has one owner."""
        heard = time.monotonic()
        while self.open or not self._is_settled():
            if self.open and self._turn(_PATIENCE_SECONDS):
                heard = time.monotonic()
                continue
            if time.monotonic() - heard > _SILENCE_SECONDS:
                raise BenchError(f"{self.group_id} is not stable, and nothing has come for {_SILENCE_SECONDS:g} s")
            self._look()
        owned = sorted(partition for member in self.members for partition in member.partitions)
        if owned != list(range(self.topic.partitions)):
            raise BenchError(f"{self.group_id} is stable, but not every partition has one owner: {owned[:20]} ...")

    def _is_settled(self) -> bool:
        one_generation = len({member.generation for member in self.members}) == 1
        return one_generation and sum(len(member.partitions) for member in self.members) >= self.topic.partitions

    def _turn(self, seconds: float) -> bool:
        """Take the answers that there are; whether there were any."""
        events = self._poller.poll(seconds)
        for descriptor, _ in events:
            self._by_descriptor[descriptor].receive()
        return bool(events)
