"""Members of a group against the answers of a broker that a test plays."""

import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self
from unittest.mock import Mock

import pytest

from headgate.tools.bench.measuring.target import Topic
from headgate.tools.bench.requests import frames, group_frames
from headgate.tools.bench.requests.client import BenchError
from headgate.tools.bench.requests.tests.test_frames import read_with_kio
from headgate.tools.bench.rows.coordinators.members import ClassicMember, ConsumerMember, Member, Members

pytestmark = pytest.mark.sockets

TOPIC = Topic("topic", bytes(range(16)), 3)


class Bed:
    """A group of some members, and the broker's ends of their connections."""

    def __init__(self, kind: type[Member], count: int) -> None:
        self.pairs = [socket.socketpair() for _ in range(count)]
        ends = iter(self.pairs)
        client = Mock(connect=lambda: Unnamed(next(ends)[0]))
        self.group = Members(client, "group", TOPIC, kind, count)

    def heard(self, number: int) -> tuple[int, Any]:
        """API and request that a member has sent."""
        frame = self.pairs[number][1].recv(1 << 16)
        header, request = read_with_kio(frame)
        return header.request_api_key, request

    def answer(self, number: int, body: bytes) -> None:
        """Flexible: correlation id and tags before it."""
        frame = bytes(4) + b"\x00" + body
        self.pairs[number][1].sendall(struct.pack(">i", len(frame)) + frame)
        self.group.members[number].receive()

    def close(self) -> None:
        for pair in self.pairs:
            for end in pair:
                end.close()


class Unnamed:
    """A socket of a pair, which is no TCP socket."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end.close()

    def __getattr__(self, name: str) -> object:
        return (lambda *_: None) if name == "setsockopt" else getattr(self._end, name)


@contextmanager
def bed_of(kind: type[Member], count: int) -> Iterator[Bed]:
    bed = Bed(kind, count)
    try:
        with bed.group:
            yield bed
    finally:
        bed.close()


def joined(generation: int, leader: str, member_id: str, members: Sequence[str] = (), error: int = 0) -> bytes:
    """JoinGroup answer v9."""
    rows = b"".join(compact(each) + b"\x00" + compact("metadata") + b"\x00" for each in members)
    names = compact("consumer") + compact("range") + compact(leader) + b"\x00" + compact(member_id)
    return struct.pack(">ihi", 0, error, generation) + names + frames.varint(len(members) + 1) + rows + b"\x00"


def synced(partitions: Sequence[int], error: int = 0) -> bytes:
    """SyncGroup answer v5."""
    assigned = group_frames.assignment("topic", partitions) if partitions else b""
    names = compact("consumer") + compact("range")
    return struct.pack(">ih", 0, error) + names + frames.varint(len(assigned) + 1) + assigned + b"\x00"


def compact(text: str) -> bytes:
    return frames.varint(len(text) + 1) + text.encode()


def test_members_join_with_given_ids_and_the_leader_assigns() -> None:
    with bed_of(ClassicMember, 2) as bed:
        one, other = bed.group.members
        for number, member in enumerate((one, other)):
            member.join()
            assert bed.heard(number)[1].member_id == ""
            bed.answer(number, joined(-1, "", f"id-{number}", error=79))
            assert bed.heard(number)[1].member_id == f"id-{number}"
        bed.answer(0, joined(5, "id-0", "id-0", ["id-1", "id-0"]))
        api, request = bed.heard(0)
        assert (api, request.generation_id) == (frames.SYNC_GROUP, 5)
        assert [each.member_id for each in request.assignments] == ["id-0", "id-1"]
        bed.answer(1, joined(5, "id-0", "id-1"))
        assert bed.heard(1)[1].assignments == ()
        for number, each in enumerate(request.assignments):
            bed.answer(number, synced(partitions_in(each.assignment)))
        assert [tuple(member.partitions) for member in (one, other)] == [(0, 2), (1,)]
        assert [member.generation for member in (one, other)] == [5, 5]
        assert bed.group.open == 0


def partitions_in(assignment: bytes) -> list[int]:
    (count,) = struct.unpack_from(">i", assignment, 13)
    return list(struct.unpack_from(f">{count}i", assignment, 17))


def test_a_rebalance_makes_a_member_revoke_and_join_again() -> None:
    with bed_of(ClassicMember, 1) as bed:
        (member,) = bed.group.members
        member.join()
        bed.heard(0)
        bed.answer(0, joined(1, "other", "id"))
        bed.heard(0)
        bed.answer(0, synced([0, 1, 2]))
        member.heartbeat()
        bed.heard(0)
        bed.answer(0, struct.pack(">ih", 0, 27) + b"\x00")
        assert bed.heard(0)[0] == frames.JOIN_GROUP
        assert member.partitions == ()


def test_any_other_error_ends_the_row() -> None:
    with bed_of(ClassicMember, 1) as bed:
        bed.group.members[0].join()
        with pytest.raises(BenchError, match="gets error code 25"):
            bed.answer(0, joined(-1, "", "", error=25))


def assigned(epoch: int, partitions: Sequence[int] | None) -> bytes:
    """ConsumerGroupHeartbeat answer v1."""
    place = b"\xff"
    if partitions is not None:
        numbers = struct.pack(f">{len(partitions)}i", *partitions)
        place = b"\x01\x02" + TOPIC.topic_id + frames.varint(len(partitions) + 1) + numbers + b"\x00\x00"
    return struct.pack(">ih", 0, 0) + b"\x00" + compact("id") + struct.pack(">ii", epoch, 5000) + place + b"\x00"


def test_a_kip848_member_acknowledges_an_assignment_once() -> None:
    with bed_of(ConsumerMember, 1) as bed:
        (member,) = bed.group.members
        member.join()
        assert bed.heard(0)[1].member_epoch == 0
        bed.answer(0, assigned(3, [0, 2]))
        owns = bed.heard(0)[1]
        assert (owns.member_epoch, [each.partitions for each in owns.topic_partitions]) == (3, [(0, 2)])
        bed.answer(0, assigned(3, [0, 2]))
        assert (bed.group.open, member.generation, list(member.partitions)) == (0, 3, [0, 2])
        member.heartbeat()
        bed.heard(0)
        bed.answer(0, assigned(4, None))
        assert (bed.group.open, member.generation, list(member.partitions)) == (0, 4, [0, 2])
