"""Members of a group: what is counted is what one would find by looking at all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.coordinator.groups.classic.members import (
    ClassicMember,
    ClassicMembers,
    protocols_of,
    rebalance_timeout_ms,
)
from headgate.gateway.coordinator.groups.tests.groups import FakeTicket
from headgate.protocol.errors import ErrorCode
from headgate.protocol.internal.offsets import MemberMetadata
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

NAMES = ("a", "b", "c")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "protocols", "park", "take", "replace"]),
        st.integers(0, 4),
        st.lists(st.sampled_from(NAMES), min_size=1, unique=True),
    )
)


def member(member_id: str, instance_id: str | None = None, protocols: list[str] | None = None) -> ClassicMember:
    return ClassicMember(member_id, instance_id, "client", "/h", 100, 10, dict.fromkeys(protocols or ["a"], b""))


@pytest.mark.slow
@given(STEPS)
def test_counts_are_those_of_the_members(steps: list[tuple[str, int, list[str]]]) -> None:
    members = ClassicMembers()
    for place, (step, number, protocols) in enumerate(steps):
        one = next((each for each in members if each.instance_id == f"i{number}"), None)
        if step == "add" and one is None:
            members.add(member(f"m{place}", f"i{number}", protocols))
        elif one is None:
            continue
        elif step == "remove":
            members.remove(one.member_id)
        elif step == "protocols":
            members.set_protocols(one, dict.fromkeys(protocols, b""))
        elif step == "park":
            members.park_join(one, FakeTicket("t"), 9)
        elif step == "take":
            members.take_join(one)
        elif step == "replace":
            members.replace(one, member(f"m{place}", f"i{number}", protocols))
        everybody = list(members)
        assert members.joining == sum(each.join is not None for each in everybody)
        assert members.all_joined == all(each.join is not None for each in everybody)
        assert members.by_instance == {each.instance_id: each.member_id for each in everybody}
        assert members.by_id == {each.member_id: each for each in everybody}
        for name in NAMES:
            assert members.supports_any([name]) == all(name in each.protocols for each in everybody)


def test_replacing_keeps_the_place() -> None:
    members = ClassicMembers()
    for number in range(3):
        members.add(member(f"m{number}", f"i{number}"))
    members.replace(members.by_id["m1"], member("new", "i1"))
    assert list(members.by_id) == ["m0", "new", "m2"]


def test_who_is_known() -> None:
    members = ClassicMembers()
    members.add(member("dynamic"))
    members.add(member("static", "i"))
    assert members.check("dynamic", None) is ErrorCode.NONE
    assert members.check("static", None) is ErrorCode.NONE
    assert members.check("static", "i") is ErrorCode.NONE
    assert members.check("dynamic", "i") is ErrorCode.FENCED_INSTANCE_ID
    assert members.check("nobody", "i") is ErrorCode.FENCED_INSTANCE_ID
    assert members.check("dynamic", "j") is ErrorCode.UNKNOWN_MEMBER_ID
    assert members.check("nobody", None) is ErrorCode.UNKNOWN_MEMBER_ID
    assert members.check("", None) is ErrorCode.UNKNOWN_MEMBER_ID


def test_of_a_protocol_that_comes_twice_the_first_counts() -> None:
    rows = [
        JoinGroupRequestProtocol("b", b"1"),
        JoinGroupRequestProtocol("a", b"2"),
        JoinGroupRequestProtocol("b", b"3"),
    ]
    assert list(protocols_of(rows).items()) == [("b", b"1"), ("a", b"2")]


def test_rebalance_timeouts_of_old_requests() -> None:
    request = JoinGroupRequest(session_timeout_ms=10, rebalance_timeout_ms=60)
    assert rebalance_timeout_ms(request, 1) == 60
    assert rebalance_timeout_ms(request, 0) == 10
    assert rebalance_timeout_ms(JoinGroupRequest(session_timeout_ms=10), 1) == 10


def test_what_a_record_says_and_what_it_does_not() -> None:
    one = member("m", "i", ["a", "b"])
    record = one.record("a", b"mine")
    assert record == MemberMetadata("m", "i", "client", "/h", 100, 10, b"", b"mine")
    one.set_recorded(record, "a")
    assert list(one.protocols) == ["a", "b"]
    assert one.assignment == b"mine"
    other = member("m", None, ["b"])
    other.set_recorded(record, "a")
    assert list(other.protocols) == ["a"]
    assert other.instance_id == "i"


def test_records_before_v1_have_no_rebalance_timeout() -> None:
    one = member("m")
    one.set_recorded(MemberMetadata("m", None, "client", "/h", -1, 30, b"", b""), "a")
    assert one.rebalance_timeout_ms == 30


def test_stored_bytes_grow_with_everything_that_is_kept() -> None:
    small = member("m", protocols=["a"]).stored_bytes()
    assert member("m" * 11, protocols=["a"]).stored_bytes() == small + 10
    assert member("m", "i" * 10, ["a"]).stored_bytes() == small + 10
    assert member("m", protocols=["a", "b"]).stored_bytes() > small + 100, "an empty protocol is not free"
    large = member("m", protocols=["a"])
    large.protocols["a"] = bytes(1_000)
    assert large.stored_bytes() == small + 1_000


@pytest.mark.parametrize("name", ["n" * 40_000, "ü" * 20_000])
def test_names_that_no_record_can_hold(name: str) -> None:
    assert not member("m", "i", ["a"]).has_long_name()
    assert member(name).has_long_name()
    assert member("m", name).has_long_name()
    assert member("m", protocols=[name]).has_long_name()
