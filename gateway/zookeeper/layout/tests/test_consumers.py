from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.zookeeper.layout.consumers import (
    BLACK_LIST,
    STATIC,
    WHITE_LIST,
    ConsumerOffset,
    ConsumerRegistration,
    PartitionOwner,
    ids_path,
    partition_of,
)
from headgate.gateway.zookeeper.layout.node import MAX_INT32, MAX_INT64, InvalidNode
from headgate.gateway.zookeeper.layout.tests.recordings import OLD, Write, read, steps

_ids = st.from_regex(r"[a-z][a-z0-9_.-]{0,20}", fullmatch=True)
_subscriptions = st.dictionaries(st.text(), st.integers(0, MAX_INT32), max_size=3)
_patterns = st.sampled_from([STATIC, WHITE_LIST, BLACK_LIST])


@given(st.builds(ConsumerRegistration, _subscriptions, _patterns, st.integers(-1, MAX_INT64)))
def test_registrations_round_trip(value: ConsumerRegistration) -> None:
    assert ConsumerRegistration.decode("g", "m", value.encode()) == value


@given(st.builds(PartitionOwner, _ids, st.integers(0, MAX_INT32)))
def test_owners_round_trip(value: PartitionOwner) -> None:
    assert PartitionOwner.decode("g", "t", 0, value.encode()) == value


@given(st.builds(ConsumerOffset, st.integers(-(2**63), MAX_INT64)))
def test_offsets_round_trip(value: ConsumerOffset) -> None:
    assert ConsumerOffset.decode("g", "t", 0, value.encode()) == value


def test_a_group_with_a_slash_cannot_be_in_zookeeper() -> None:
    sentence = "^ZooKeeper's /consumers: 'a/b' cannot be in ZooKeeper: a node's name has no '/'$"
    for path in (ids_path, lambda group: ConsumerOffset.path(group, "t", 0)):
        with pytest.raises(InvalidNode, match=sentence):
            path("a/b")


def test_paths() -> None:
    assert ConsumerRegistration.path("a g", "m") == "/consumers/a g/ids/m"
    assert PartitionOwner.path("g", "t", 3) == "/consumers/g/owners/t/3"
    assert ConsumerOffset.path("g", "t", 3) == "/consumers/g/offsets/t/3"
    assert partition_of("/consumers/g/offsets/t", "3") == 3


@pytest.mark.parametrize("data", [b"", b"m", b"-0", b"m-", b"m-x", b"a/b-0", b"\xff-0"])
def test_other_owners_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidNode, match=r"^ZooKeeper's /consumers/g/owners/t/0: "):
        PartitionOwner.decode("g", "t", 0, data)


def test_members_of_0_8_own_what_they_registered_for() -> None:
    (joined,) = [writes for name, writes in steps(OLD, "consumers").items() if name.startswith("a member with two")]
    (member,) = [write for write in joined if "/ids/" in write.path]
    registration = read(member.path, member.data)
    assert (registration.subscription, registration.pattern) == ({"t": 2}, STATIC)
    owners = {read(write.path, write.data) for write in joined if _is_owner(write)}
    assert owners == {PartitionOwner(member.path.rpartition("/")[2], stream) for stream in (0, 1)}


def test_the_expressions_of_0_8_are_read() -> None:
    writes = [write for step in steps(OLD, "patterns").values() for write in step]
    found = [read(write.path, write.data) for write in writes if write.data and "/ids/" in write.path[10:]]
    assert [(one.pattern, one.subscription) for one in found] == [
        (WHITE_LIST, {'t|"a.*"|\\d': 1}),
        (BLACK_LIST, {"(assigned|many|__.*)": 1}),
    ]


def _is_owner(write: Write) -> bool:
    return write.verb == "create" and "/owners/t/" in write.path
