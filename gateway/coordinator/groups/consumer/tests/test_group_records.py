"""Records of consumer groups: what is written is read back as it was, through the bytes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.gateway.coordinator.groups.consumer import group_records
from headgate.gateway.coordinator.groups.consumer.group import ConsumerGroup
from headgate.gateway.coordinator.groups.consumer.members import ConsumerMember
from headgate.gateway.coordinator.groups.consumer.subscriptions import Resolved
from headgate.protocol.internal.offsets import (
    ClassicMemberMetadata,
    ClassicProtocol,
    UnknownType,
    decode,
    encode_key,
    encode_value,
)
from headgate.protocol.tests.examples import share

TEXT = st.text("abc", max_size=3)
ASSIGNMENTS = st.dictionaries(
    st.binary(min_size=16, max_size=16), st.frozensets(st.integers(0, 50), min_size=1), max_size=3
)
MEMBERS = st.builds(
    ConsumerMember,
    member_id=st.just("m"),
    instance_id=st.none() | TEXT.filter(bool),
    rack_id=st.none() | TEXT,
    client_id=TEXT,
    client_host=TEXT,
    topics=st.frozensets(TEXT, max_size=3),
    expression=TEXT,
    rebalance_timeout_ms=st.integers(-1, 10**6),
    assignor=st.none() | TEXT,
    classic=st.none()
    | st.builds(
        ClassicMemberMetadata,
        st.integers(0, 10**6),
        st.lists(st.builds(ClassicProtocol, TEXT, st.binary()), max_size=2),
    ),
    epoch=st.integers(-2, 10**6),
    previous_epoch=st.integers(-2, 10**6),
    state=st.integers(0, 2),
    assigned=ASSIGNMENTS,
)


def applied(*records: group_records.GroupRecord) -> ConsumerGroup:
    """A group made of records as they are in the log."""
    group = ConsumerGroup("g")
    for key, value in records:
        read = decode(encode_key(key), None if value is None else encode_value(value))
        assert not isinstance(read, UnknownType)
        group.apply(*read)
    return group


@settings(max_examples=share(50))
@given(member=MEMBERS, revoking=ASSIGNMENTS)
def test_a_member_is_read_as_it_was_written_in_either_order(
    member: ConsumerMember, revoking: dict[bytes, frozenset[int]]
) -> None:
    member = replace(member, revoking={topic: of for topic, of in revoking.items() if topic not in member.assigned})
    said, state = group_records.member("g", member), group_records.current("g", member)
    assert applied(said, state).members == applied(state, said).members == {"m": member}


@given(target=ASSIGNMENTS)
def test_targets_and_epochs(target: dict[bytes, frozenset[int]]) -> None:
    group = applied(
        group_records.epoch("g", 7, -3),
        group_records.target("g", "m", target),
        group_records.target_epoch("g", 6),
    )
    assert (group.epoch, group.metadata_hash, group.target_epoch, group.targets) == (7, -3, 6, {"m": target})


def test_expressions() -> None:
    resolved = Resolved(frozenset({"b", "a"}), 3, 1_700_000_000_000)
    record = group_records.resolved("g", "a|b", resolved)
    assert applied(record).resolved == {"a|b": resolved}
    assert applied(record, group_records.no_resolved("g", "a|b")).resolved == {}


def test_tombstones_of_a_member_and_of_the_group_leave_nothing() -> None:
    member = ConsumerMember("m", instance_id="i", topics=frozenset("t"), epoch=3, assigned={b"t" * 16: frozenset({1})})
    records = [
        group_records.member("g", member),
        group_records.epoch("g", 3, 1),
        group_records.target("g", "m", member.assigned),
        group_records.target_epoch("g", 3),
        group_records.current("g", member),
    ]
    group = applied(*records, *group_records.no_member("g", "m"))
    assert (group.members, group.targets, group.owners, group.static) == ({}, {}, {}, {})
    assert not group.is_dead
    gone = applied(*records, *group_records.no_group("g", ["m"], ["x"], has_partition_metadata=True))
    assert (gone.members, gone.targets, gone.owners, gone.static, gone.is_dead) == ({}, {}, {}, {}, True)
