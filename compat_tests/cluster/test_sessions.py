"""A broker stands still for longer than its session; requests wait in its sockets, and get no old answer."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.cluster.cluster import HEADGATE, KAFKA, OFFSETS, Cluster
from compat_tests.harness.topics import placed_topic
from compat_tests.harness.waiting import until
from compat_tests.harness.wire import FETCH, LIST_OFFSETS, Reader, connect, frame, receive_frame, request_header, string
from compat_tests.harness.writing import commit, send

pytestmark = pytest.mark.sockets

OFFSET_FETCH = 9
NOT_LEADER, NOT_COORDINATOR = 6, 16
GROUP = "readers"


# Kafka answers such requests from what it had
KINDS = [HEADGATE, pytest.param(KAFKA, marks=[pytest.mark.soak, pytest.mark.xfail(strict=False)])]


@pytest.mark.parametrize("kind", KINDS)
def test_requests_after_a_stall_get_no_old_answer(kind: str, tmp_path: Path, figure: Callable[[str], None]) -> None:
    with Cluster(tmp_path, kind) as cluster:
        still = cluster.roles().coordinator
        others = [one for one in cluster.brokers if one != still]
        topic = placed_topic(cluster.bootstrap, [(still, *others)])
        cluster.wait_for_topic(topic, 1)
        send(cluster.bootstrap, topic, [b"old"])
        commit(cluster.bootstrap, GROUP, topic, {0: 1})
        with connect(cluster.brokers[still].bootstrap) as reader, connect(cluster.brokers[still].bootstrap) as member:
            cluster.pause(still)
            cluster.wait_for_session_end(still)
            until(lambda: cluster.view(others[0]).partitions[OFFSETS].leader in others, "the next coordinator")
            until(lambda: cluster.view(others[0]).partitions[topic, 0].leader in others, "the next leader")
            bootstrap = cluster.brokers[others[0]].bootstrap
            send(bootstrap, topic, [b"new"])
            commit(bootstrap, GROUP, topic, {0: 2})
            for stream, key, version, body in (
                (member, OFFSET_FETCH, 1, offset_fetch(topic)),
                (reader, LIST_OFFSETS, 1, list_offsets(topic)),
                (reader, FETCH, 4, fetch(topic)),
            ):
                stream.sendall(frame(request_header(key, version) + body))
            cluster.resume(still)
            committed, code = offset_fetch_answer(receive_frame(member))
            listed, fetched = list_offsets_answer(receive_frame(reader)), fetch_answer(receive_frame(reader))
        cluster.wait_for_full_sets()
    assert (committed, code) == (-1, NOT_COORDINATOR) or committed == 2
    assert listed == (-1, NOT_LEADER) or listed[0] == 2
    assert fetched == NOT_LEADER
    figure(f"{kind}: after a stall OffsetFetch {committed} ({code}), ListOffsets {listed}, Fetch ({fetched})")


def offset_fetch(topic: str) -> bytes:
    return string(GROUP) + struct.pack(">i", 1) + string(topic) + struct.pack(">ii", 1, 0)


def offset_fetch_answer(answer: bytes) -> tuple[int, int]:
    """The committed offset and the error."""
    found = Reader(answer)
    found.skip(4 + 4)
    found.string()
    found.skip(4 + 4)
    offset = found.number("q")
    found.string()
    return offset, found.number("h")


def list_offsets(topic: str) -> bytes:
    return struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">iiq", 1, 0, -1)


def list_offsets_answer(answer: bytes) -> tuple[int, int]:
    """The offset and the error."""
    found = Reader(answer)
    found.skip(4 + 4)
    found.string()
    found.skip(4 + 4)
    code = found.number("h")
    found.skip(8)
    return found.number("q"), code


def fetch(topic: str) -> bytes:
    return struct.pack(">iiiibi", -1, 0, 1, 1 << 20, 0, 1) + string(topic) + struct.pack(">iiqi", 1, 0, 0, 1 << 20)


def fetch_answer(answer: bytes) -> int:
    """The error."""
    found = Reader(answer)
    found.skip(4 + 4 + 4)
    found.string()
    found.skip(4 + 4)
    return found.number("h")
