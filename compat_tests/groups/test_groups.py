"""Groups of every client family: members share a topic, come, go and crash, and go on from what was committed.

Members commit only when they are told to, and are told before each change, in quiet: so whatever happens, each record
is given to one member, once. Each is a process of its own; a crash is SIGKILL.
"""

from __future__ import annotations

import pytest

from compat_tests.groups.committed import committed_offsets
from compat_tests.groups.group import LONG_SESSION_MS, PARTITIONS, SERVER_SESSION_MS, SESSION_MS, Group
from compat_tests.groups.member import KINDS, SERVER, Kind
from compat_tests.harness.broker import TARGET

STATIC_KINDS = [kind for kind in KINDS if kind.has_static_members]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    found.command()
    return found


@pytest.fixture(params=STATIC_KINDS, ids=lambda kind: kind.name)
def static_kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    found.command()
    return found


def session_s(kind: Kind, session_ms: int) -> float:
    """Seconds after which a group takes a silent member for dead: the member, or the broker, says how many."""
    return (SERVER_SESSION_MS if kind.assignor == SERVER else session_ms) / 1000


def test_members_join_leave_and_crash_and_go_on_after_a_restart(group: Group, kind: Kind) -> None:
    """The others have the partitions of one that left before its session is over, and those of a dead one after it.

    What was committed is where the others begin, and where everybody begins after the broker was restarted.
    """
    group.session_ms = LONG_SESSION_MS
    group.join(kind)
    leaving = group.join(kind)
    group.settle()
    assert group.type() == kind.group_type
    group.share()
    group.commit()

    group.session_ms = SESSION_MS
    doomed = group.join(kind)
    group.settle()
    group.share()
    group.commit()

    group.leave(leaving)
    group.settle(session_s(kind, LONG_SESSION_MS))
    group.share()
    group.commit()

    group.crash(doomed)
    took_s = group.settle()
    assert took_s > session_s(kind, SESSION_MS) / 2, "nobody told the group that the member is dead"
    group.share()
    group.commit()

    group.broker.restart()
    group.share()
    group.commit()
    group.leave(group.members[0])

    group.broker.restart()
    group.join(kind)
    group.settle()
    group.share()
    group.commit()


def test_a_static_member_comes_back_to_its_partitions(group: Group, static_kind: Kind) -> None:
    """KIP-345: one that ends and is back within its session is not missed; the other does not notice.

    In the newer protocol it says that it will be back; its id is not given to another before (UNRELEASED_INSTANCE_ID).
    """
    group.session_ms = LONG_SESSION_MS
    other = group.join(static_kind, "other")
    member = group.join(static_kind, "restarted")
    group.settle()
    group.share()
    group.commit()
    had, assignments = member.owned, len(other.assignments)

    (group.leave if static_kind.assignor == SERVER else group.crash)(member)
    back = group.join(static_kind, "restarted")
    group.settle()
    group.share()
    group.commit()
    assert back.owned == had
    assert len(other.assignments) == assignments


@pytest.mark.parametrize("kinds", [[kind for kind in KINDS if kind.assignor == "range"]], ids=["range"])
def test_clients_of_all_families_share_a_group(group: Group, kinds: list[Kind]) -> None:
    """One leads and assigns for all the others: they understand each other's subscriptions through the broker."""
    assert len(kinds) <= PARTITIONS
    for kind in kinds:
        kind.command()
        group.join(kind)
    group.settle()
    group.share()
    group.commit()
    group.crash(group.members[0])
    group.settle()
    group.share()
    group.commit()


@pytest.mark.parametrize(
    "classic",
    [Kind("java-4.4", "range"), Kind("java-4.4", "cooperative-sticky"), Kind("confluent-kafka", "range")],
    ids=lambda kind: kind.name,
)
def test_a_group_changes_its_protocol_while_it_reads(group: Group, classic: Kind) -> None:
    """KIP-848's online migration: a classic group takes in members of the newer protocol, one by one; and back.

    Not librdkafka's cooperative-sticky: it puts data of its own into assignments, and Kafka refuses to lose it.
    """
    newer = Kind(classic.client, SERVER)
    classic.command()
    members = [group.join(classic), group.join(classic)]
    group.settle()
    group.share()
    for into in (newer, newer, classic, classic):
        group.commit()
        group.leave(members.pop(0))
        members.append(group.join(into))
        group.settle()
        group.share()
        # It is of the newer kind as long as anybody in it speaks the newer protocol
        assert group.type() == ("consumer" if newer in (member.kind for member in group.members) else "classic")
    group.commit()


@pytest.mark.skipif(TARGET != "headgate", reason="says what a start of this broker takes")
def test_committed_offsets_survive_a_kill(group: Group) -> None:
    """SIGKILL of the broker right after a commit was answered: with one replica the log is what there is."""
    kind = Kind("confluent-kafka", "range")
    group.join(kind)
    group.settle()
    group.share()
    group.commit()
    group.broker.kill()
    group.broker.start()
    assert committed_offsets(group.broker.bootstrap, group.name, group.topic) == dict.fromkeys(
        range(PARTITIONS), group.end()
    )
    group.share()
    group.commit()
