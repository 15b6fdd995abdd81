"""Scenarios that the model and a real ZooKeeper 3.9 with the real client pass alike."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from headgate.gateway.zookeeper.session import (
    ANY_VERSION,
    MAX_REQUEST_BYTES,
    Check,
    Create,
    Delete,
    KeeperError,
    Refused,
    SessionEvent,
    SetData,
    Stat,
)
from headgate.gateway.zookeeper.tests.model import Fault
from headgate.gateway.zookeeper.tests.worlds import SOON_MS, Observed, World

CONNECTED, SUSPENDED = SessionEvent.CONNECTED, SessionEvent.SUSPENDED
RECONNECTED, EXPIRED = SessionEvent.RECONNECTED, SessionEvent.EXPIRED


def get(world: World, observed: Observed, path: str) -> Any:
    return world.ask(observed.session.get, path)


def stat(world: World, observed: Observed, path: str) -> Any:
    return world.ask(observed.session.exists, path)


def names(world: World, observed: Observed, path: str = "/") -> tuple[str, ...]:
    listed: tuple[str, ...] = world.ask(observed.session.children, path).names
    return listed


def create(world: World, observed: Observed, *nodes: str | Create) -> Any:
    for node in nodes:
        wanted = Create(node) if isinstance(node, str) else node
        result = world.ask(observed.session.create, wanted)
    return result


def watch(world: World, observed: Observed, kind: str, path: str, seen: list[Any]) -> Any:
    """Read a node with a watch that notes what it sees."""
    results: list[Any] = []
    getattr(observed.session, kind)(path, results.append, partial(_note, seen, kind))
    world.until(lambda: bool(results))
    return results[0]


def _note(seen: list[Any], kind: str, path: str) -> None:
    seen.append((kind, path))


# Nodes


def test_a_node_is_created_read_changed_and_deleted(world: World) -> None:
    a = world.connected()
    assert a.take_events() == [CONNECTED]
    assert create(world, a, Create("/n", b"1")) == "/n"
    data, first = get(world, a, "/n")
    assert (data, first.version, first.ephemeral_owner, first.children) == (b"1", 0, 0, 0)
    assert first.czxid == first.mzxid
    second = world.ask(a.session.set, "/n", b"2", 0)
    assert (second.version, second.czxid) == (1, first.czxid)
    assert second.mzxid > first.mzxid
    assert get(world, a, "/n") == (b"2", second)
    assert stat(world, a, "/n") == second
    assert world.ask(a.session.delete, "/n", 1) is None
    assert get(world, a, "/n") is KeeperError.NO_NODE
    assert stat(world, a, "/n") is KeeperError.NO_NODE


def test_what_does_not_exist_is_refused(world: World) -> None:
    a = world.connected()
    assert get(world, a, "/n") is KeeperError.NO_NODE
    assert world.ask(a.session.children, "/n") is KeeperError.NO_NODE
    assert world.ask(a.session.set, "/n", b"", ANY_VERSION) is KeeperError.NO_NODE
    assert world.ask(a.session.delete, "/n", ANY_VERSION) is KeeperError.NO_NODE
    assert create(world, a, "/n/below") is KeeperError.NO_NODE


def test_a_version_conflict_changes_nothing(world: World) -> None:
    a, b = world.connected(), world.connected()
    create(world, a, Create("/n", b"1"))
    assert world.ask(b.session.set, "/n", b"2", 0).version == 1
    assert world.ask(a.session.set, "/n", b"3", 0) is KeeperError.BAD_VERSION
    assert world.ask(a.session.delete, "/n", 0) is KeeperError.BAD_VERSION
    assert world.ask(a.session.delete, "/n", 2) is KeeperError.BAD_VERSION
    assert get(world, a, "/n").data == b"2"
    assert world.ask(a.session.set, "/n", b"4", ANY_VERSION).version == 2


def test_a_recreated_node_begins_with_version_0(world: World) -> None:
    a = world.connected()
    create(world, a, "/n")
    world.ask(a.session.set, "/n", b"1", 0)
    before = stat(world, a, "/n")
    world.ask(a.session.delete, "/n", 1)
    create(world, a, "/n")
    after = stat(world, a, "/n")
    assert after.version == 0
    assert after.czxid > before.mzxid


def test_no_data_differ_from_empty_data(world: World) -> None:
    """Kafka creates directories without data, and fails on some nodes with empty data."""
    a = world.connected()
    create(world, a, "/none", Create("/empty", b""))
    world.ask(
        a.session.multi, [Create("/none2"), Create("/empty2", b""), SetData("/none", b""), SetData("/empty", None)]
    )
    assert [get(world, a, path).data for path in ("/none", "/empty", "/none2", "/empty2")] == [b"", None, None, b""]
    world.ask(a.session.set, "/none", None, ANY_VERSION)
    world.ask(a.session.set, "/empty", b"", ANY_VERSION)
    assert [get(world, a, path).data for path in ("/none", "/empty")] == [None, b""]


def test_children_keep_a_node(world: World) -> None:
    a = world.connected()
    create(world, a, "/n", "/n/b", "/n/a")
    assert names(world, a, "/n") == ("a", "b")
    assert world.ask(a.session.delete, "/n", ANY_VERSION) is KeeperError.NOT_EMPTY
    assert stat(world, a, "/n").children == 2
    world.ask(a.session.delete, "/n/a", ANY_VERSION)
    listed = world.ask(a.session.children, "/n")
    assert listed.names == ("b",)
    assert (listed.stat.children, listed.stat.children_version, listed.stat.version) == (1, 3, 0)


def test_a_node_exists_once(world: World) -> None:
    a = world.connected()
    create(world, a, Create("/n", b"1"))
    assert create(world, a, Create("/n", b"2")) is KeeperError.NODE_EXISTS
    assert get(world, a, "/n").data == b"1"


def test_the_digits_of_sequential_nodes_count_all_children(world: World) -> None:
    a = world.connected()
    create(world, a, "/n", "/n/other")
    assert create(world, a, Create("/n/s_", is_sequential=True)) == "/n/s_0000000001"
    world.ask(a.session.delete, "/n/s_0000000001", ANY_VERSION)
    world.ask(a.session.delete, "/n/other", ANY_VERSION)
    assert create(world, a, Create("/n/t_", is_sequential=True)) == "/n/t_0000000002"
    both = Create("/n/e_", is_ephemeral=True, is_sequential=True)
    assert create(world, a, both) == "/n/e_0000000003"
    assert stat(world, a, "/n/e_0000000003").ephemeral_owner == a.session.session_id


@pytest.mark.parametrize(
    "path", ["n", "", "/n/", "//n", "/n/../m", "/n/.", "/a\0", "/a\x1f", "/a\x7f", "/\ue000", "/🙂"]
)
def test_a_path_that_is_none_is_refused(world: World, path: str) -> None:
    a = world.connected()
    assert create(world, a, path) is KeeperError.BAD_ARGUMENTS
    assert get(world, a, path) is KeeperError.BAD_ARGUMENTS
    assert world.ask(a.session.multi, [Create("/ok"), Create(path)]) == Refused(1, KeeperError.BAD_ARGUMENTS)
    assert names(world, a) == ()


def test_names_of_other_alphabets_and_with_blanks_are_allowed(world: World) -> None:
    a = world.connected()
    for name in ("grüße", "日本", "a b", "a..b", "~", "\ufeff"):
        assert create(world, a, f"/{name}") == f"/{name}"
        assert stat(world, a, f"/{name}").version == 0


def test_a_large_node_is_kept_and_a_larger_one_refused(world: World) -> None:
    a = world.connected()
    large = bytes(MAX_REQUEST_BYTES - 1000)
    assert create(world, a, Create("/n", large)) == "/n"
    assert get(world, a, "/n").data == large
    assert create(world, a, Create("/m", bytes(MAX_REQUEST_BYTES))) is KeeperError.TOO_LARGE
    many = [SetData("/n", bytes(MAX_REQUEST_BYTES // 4), ANY_VERSION)] * 5
    assert world.ask(a.session.multi, many) is KeeperError.TOO_LARGE
    assert a.take_events() == [CONNECTED]


def test_requests_are_answered_in_their_order(world: World) -> None:
    a = world.connected()
    create(world, a, "/n")
    results: list[Any] = []
    for number in range(200):
        a.session.set("/n", b"%d" % number, number, results.append)
        a.session.get("/n", results.append)
    world.until(lambda: len(results) == 400)
    assert [result.version for result in results[::2]] == list(range(1, 201))
    assert [result.data for result in results[1::2]] == [b"%d" % number for number in range(200)]


def test_an_answer_never_comes_before_the_call_returns(world: World) -> None:
    a = world.connected()
    results: list[Any] = []
    a.session.get("bad", results.append)
    assert results == []
    world.until(lambda: bool(results))


# Ephemeral nodes


def test_an_ephemeral_node_ends_with_its_session(world: World) -> None:
    a, b = world.connected(), world.connected()
    create(world, a, Create("/e", b"1", is_ephemeral=True))
    assert stat(world, b, "/e").ephemeral_owner == a.session.session_id != b.session.session_id
    assert create(world, b, "/e/below") is KeeperError.NO_CHILDREN_FOR_EPHEMERALS
    assert world.ask(a.session.close) is True
    assert stat(world, b, "/e") is KeeperError.NO_NODE


def test_an_expired_session_loses_its_ephemeral_nodes(world: World) -> None:
    a, b = world.connected(), world.connected()
    create(world, a, Create("/e", is_ephemeral=True), "/n")
    seen: list[Any] = []
    watch(world, b, "exists", "/e", seen)
    first_id = a.session.session_id
    a.take_events()
    world.expire(a.session)
    world.until(lambda: a.events[-1:] == [CONNECTED])
    assert a.take_events() == [SUSPENDED, EXPIRED, CONNECTED]
    assert a.session.session_id not in {0, first_id}
    world.until(lambda: bool(seen))
    assert seen == [("exists", "/e")]
    assert stat(world, a, "/e") is KeeperError.NO_NODE
    assert stat(world, a, "/n").version == 0
    assert create(world, a, Create("/e", is_ephemeral=True)) == "/e"
    assert stat(world, b, "/e").ephemeral_owner == a.session.session_id


def test_a_node_of_an_own_earlier_session_is_replaced(world: World) -> None:
    """A broker that was killed and starts again finds its own registration."""
    killed, started = world.connected(), world.connected()
    create(world, killed, Create("/0", b"old", is_ephemeral=True))
    owner = killed.session.session_id
    world.cut_off(killed)
    assert create(world, started, Create("/0", b"new", is_ephemeral=True)) is KeeperError.NODE_EXISTS
    found = get(world, started, "/0")
    assert (found.data, found.stat.ephemeral_owner) == (b"old", owner)
    replacement = [Delete("/0", found.stat.version), Create("/0", b"new", is_ephemeral=True)]
    assert world.ask(started.session.multi, replacement) == (None, "/0")
    world.expire(killed.session)
    world.settle(started)
    found = get(world, started, "/0")
    assert (found.data, found.stat.ephemeral_owner) == (b"new", started.session.session_id)


def test_the_end_of_an_own_earlier_session_can_be_awaited(world: World) -> None:
    killed, started = world.connected(), world.connected()
    create(world, killed, Create("/0", is_ephemeral=True))
    world.cut_off(killed)
    seen: list[Any] = []
    assert isinstance(watch(world, started, "exists", "/0", seen), Stat)
    world.expire(killed.session)
    world.until(lambda: bool(seen))
    assert create(world, started, Create("/0", is_ephemeral=True)) == "/0"


# Multi


def test_a_multi_does_all_of_it(world: World) -> None:
    a = world.connected()
    create(world, a, Create("/n", b"1"), "/gone")
    operations = [
        Check("/n", 0),
        Create("/m", b"1", is_ephemeral=True),
        SetData("/n", b"2", 0),
        SetData("/m", b"2", 0),
        Delete("/gone", 0),
        Create("/s_", is_sequential=True),
        Create("/below-n-in-the-same", b""),
        Create("/below-n-in-the-same/child", b""),
    ]
    checked, made, set_n, set_m, deleted, sequential, *_ = world.ask(a.session.multi, operations)
    assert (checked, made, deleted, sequential) == (None, "/m", None, "/s_0000000003")
    assert (set_n.version, set_m.version, set_m.ephemeral_owner) == (1, 1, a.session.session_id)
    assert set_n.mzxid == set_m.czxid == set_m.mzxid
    assert get(world, a, "/n") == (b"2", set_n)
    assert names(world, a) == ("below-n-in-the-same", "m", "n", "s_0000000003")


@pytest.mark.parametrize(
    "refused, error",
    [
        (Check("/n", 7), KeeperError.BAD_VERSION),
        (Check("/none"), KeeperError.NO_NODE),
        (SetData("/n", b"x", 7), KeeperError.BAD_VERSION),
        (SetData("/none", b"x"), KeeperError.NO_NODE),
        (Create("/n"), KeeperError.NODE_EXISTS),
        (Create("/none/below"), KeeperError.NO_NODE),
        (Delete("/n", 7), KeeperError.BAD_VERSION),
        (Delete("/none"), KeeperError.NO_NODE),
        (Delete("/full"), KeeperError.NOT_EMPTY),
        (Create("/e/below"), KeeperError.NO_CHILDREN_FOR_EPHEMERALS),
    ],
    ids=repr,
)
def test_a_multi_that_fails_in_the_middle_does_nothing(world: World, refused: Any, error: KeeperError) -> None:
    a = world.connected()
    create(world, a, Create("/n", b"1"), "/gone", "/full", "/full/child", Create("/e", is_ephemeral=True))
    seen: list[Any] = []
    for kind, path in (("get", "/n"), ("get", "/gone"), ("exists", "/m"), ("children", "/")):
        watch(world, a, kind, path, seen)
    before = [stat(world, a, path) for path in ("/", "/n", "/gone", "/full")]
    operations = [Create("/m"), SetData("/n", b"2", 0), Delete("/gone"), refused, Create("/later")]
    assert world.ask(a.session.multi, operations) == Refused(3, error)
    world.settle(a)
    assert seen == []
    assert [stat(world, a, path) for path in ("/", "/n", "/gone", "/full")] == before
    assert names(world, a) == ("e", "full", "gone", "n")
    assert create(world, a, Create("/s_", is_sequential=True)) == "/s_0000000004"


def test_a_multi_of_a_deposed_controller_is_refused(world: World) -> None:
    """The next epoch and the controller's node in one multi, and every write conditional on the epoch."""
    a, b = world.connected(), world.connected()
    create(world, a, Create("/controller_epoch", b"1"), Create("/state", b"0"))
    elect = [SetData("/controller_epoch", b"2", 0), Create("/controller", b"a", is_ephemeral=True)]
    _, created = world.ask(a.session.multi, elect)
    assert created == "/controller"
    assert world.ask(b.session.multi, elect) == Refused(0, KeeperError.BAD_VERSION)
    world.ask(b.session.delete, "/controller", ANY_VERSION)
    again = [SetData("/controller_epoch", b"3", 1), Create("/controller", b"b", is_ephemeral=True)]
    world.ask(b.session.multi, again)
    write = [Check("/controller_epoch", 1), SetData("/state", b"a")]
    assert world.ask(a.session.multi, write) == Refused(0, KeeperError.BAD_VERSION)
    assert get(world, b, "/state").data == b"0"


# Watches


def test_a_data_watch_sees_one_change(world: World) -> None:
    a, b = world.connected(), world.connected()
    create(world, a, "/n", "/n/child")
    seen: list[Any] = []
    watch(world, a, "get", "/n", seen)
    create(world, b, "/n/other")
    world.ask(b.session.set, "/n/child", b"", 0)
    world.settle(b, a)
    assert seen == []  # children are not its business
    world.ask(b.session.set, "/n", b"1", 0)
    world.ask(b.session.set, "/n", b"2", 1)
    world.settle(b, a)
    assert seen == [("get", "/n")]
    watch(world, a, "get", "/n", seen)
    world.ask(b.session.delete, "/n/child", 1)
    world.ask(b.session.delete, "/n/other", 0)
    world.ask(b.session.delete, "/n", 2)
    world.settle(b, a)
    assert seen == [("get", "/n")] * 2


def test_an_exists_watch_sees_a_creation(world: World) -> None:
    a, b = world.connected(), world.connected()
    seen: list[Any] = []
    assert watch(world, a, "exists", "/n", seen) is KeeperError.NO_NODE
    assert watch(world, a, "get", "/m", seen) is KeeperError.NO_NODE
    assert watch(world, a, "children", "/m", seen) is KeeperError.NO_NODE
    create(world, b, "/m", "/n")
    world.settle(b, a)
    assert seen == [("exists", "/n")]  # a read that failed sets no watch
    watch(world, a, "exists", "/n", seen)
    world.ask(b.session.set, "/n", b"", 0)
    world.settle(b, a)
    assert seen == [("exists", "/n")] * 2


def test_a_children_watch_sees_creations_and_deletions(world: World) -> None:
    a, b = world.connected(), world.connected()
    create(world, a, "/n")
    seen: list[Any] = []
    watch(world, a, "children", "/n", seen)
    world.ask(b.session.set, "/n", b"", 0)
    world.settle(b, a)
    assert seen == []  # the data are not its business
    create(world, b, "/n/child", "/n/second")
    world.settle(b, a)
    assert seen == [("children", "/n")]
    watch(world, a, "children", "/n", seen)
    world.ask(b.session.set, "/n/child", b"", 0)
    create(world, b, "/n/child/below")
    world.settle(b, a)
    assert len(seen) == 1  # nor are grandchildren
    world.ask(b.session.delete, "/n/second", 0)
    world.settle(b, a)
    assert len(seen) == 2
    world.ask(b.session.delete, "/n/child/below", 0)
    world.ask(b.session.delete, "/n/child", 1)
    watch(world, a, "children", "/n", seen)
    world.ask(b.session.delete, "/n", 1)
    world.settle(b, a)
    assert seen == [("children", "/n")] * 3


def test_own_changes_and_those_of_a_multi_are_seen(world: World) -> None:
    a = world.connected()
    create(world, a, "/n", "/m")
    seen: list[Any] = []
    for kind, path in (("get", "/n"), ("children", "/"), ("exists", "/new"), ("get", "/m")):
        watch(world, a, kind, path, seen)
    assert world.ask(a.session.multi, [SetData("/n", b"1"), Create("/new"), Check("/m")])[1] == "/new"
    world.settle(a)
    assert sorted(seen) == [("children", "/"), ("exists", "/new"), ("get", "/n")]


def test_each_watch_is_called_once(world: World) -> None:
    a = world.connected()
    create(world, a, "/n")
    seen: list[str] = []
    answers: list[Any] = []
    first, second = seen.append, partial(seen.append)
    for function in (first, second, first):
        a.session.get("/n", answers.append, function)
    a.session.exists("/n", answers.append, first)
    world.until(lambda: len(answers) == 4)
    world.ask(a.session.set, "/n", b"", 0)
    world.settle(a)
    assert seen == ["/n", "/n"]  # the same function on the same node is one watch


def test_a_deletion_ends_both_kinds_of_watches(world: World) -> None:
    a = world.connected()
    create(world, a, "/n")
    seen: list[Any] = []
    watch(world, a, "get", "/n", seen)
    watch(world, a, "children", "/n", seen)
    world.ask(a.session.delete, "/n", 0)
    create(world, a, "/n", "/n/child")
    world.ask(a.session.set, "/n", b"", 0)
    world.settle(a)
    assert sorted(seen) == [("children", "/n"), ("get", "/n")]


# Connections


def test_a_request_is_lost_before_it_takes_effect(world: World) -> None:
    a = world.connected()
    create(world, a, Create("/n", b"1"))
    a.take_events()
    world.lose_requests(a, Fault.BEFORE)
    assert world.ask(a.session.set, "/n", b"2", 0) is KeeperError.CONNECTION_LOSS
    world.reconnect(a)
    world.until(lambda: a.session.is_connected)
    assert a.take_events() == [SUSPENDED, RECONNECTED]
    assert get(world, a, "/n").data == b"1"


def test_a_request_is_lost_after_it_took_effect(world: World) -> None:
    a = world.connected()
    create(world, a, Create("/n", b"1"))
    world.lose_requests(a, None, Fault.AFTER)
    assert get(world, a, "/n").data == b"1"
    assert world.ask(a.session.set, "/n", b"2", 0) is KeeperError.CONNECTION_LOSS
    world.reconnect(a)
    world.until(lambda: a.session.is_connected)
    assert get(world, a, "/n").data == b"2"
    assert world.ask(a.session.set, "/n", b"2", 0) is KeeperError.BAD_VERSION
    assert stat(world, a, "/n").version == 1  # it was not sent again


@pytest.mark.parametrize("fault", Fault)
def test_a_sequential_creation_or_a_multi_is_never_repeated(world: World, fault: Fault) -> None:
    a = world.connected()
    create(world, a, "/n")
    done = fault is Fault.AFTER
    operations = [Create("/n/m_", is_sequential=True), SetData("/n", b"1", 0)]
    world.lose_requests(a, fault)
    assert create(world, a, Create("/n/s_", is_sequential=True)) is KeeperError.CONNECTION_LOSS
    world.reconnect(a)
    world.until(lambda: a.session.is_connected)
    world.lose_requests(a, fault)
    assert world.ask(a.session.multi, operations) is KeeperError.CONNECTION_LOSS
    world.reconnect(a)
    world.until(lambda: a.session.is_connected)
    assert names(world, a, "/n") == (("m_0000000001", "s_0000000000") if done else ())
    assert stat(world, a, "/n").version == int(done)


def test_all_requests_are_answered_before_the_suspension_is_told(world: World) -> None:
    a = world.connected()
    create(world, a, "/n")
    results: list[Any] = []
    events_at: list[int] = []
    world.lose_requests(a, None, None, Fault.BEFORE)

    def note(result: Any) -> None:
        results.append(result)
        events_at.append(len(a.events))

    for _ in range(100):
        a.session.get("/n", note)
    world.until(lambda: SUSPENDED in a.events)
    assert len(results) == 100
    assert set(events_at) == {1}
    lost = [result for result in results if isinstance(result, KeeperError)]
    assert results[: 100 - len(lost)] == [result for result in results if not isinstance(result, KeeperError)]
    assert len(lost) >= 98
    assert set(lost) <= {KeeperError.CONNECTION_LOSS, KeeperError.NOT_CONNECTED}
    assert lost == sorted(lost, key=lambda error: error is KeeperError.NOT_CONNECTED)  # the sent ones came first


def test_without_a_connection_nothing_is_sent(world: World) -> None:
    a, b = world.connected(), world.connected()
    create(world, a, Create("/e", is_ephemeral=True))
    a.take_events()
    world.cut_off(a)
    assert not a.session.is_connected
    assert a.session.session_id != 0
    assert create(world, a, "/n") is KeeperError.NOT_CONNECTED
    assert world.ask(a.session.multi, [Create("/n")]) is KeeperError.NOT_CONNECTED
    assert get(world, a, "/e") is KeeperError.NOT_CONNECTED
    world.reconnect(a)
    world.until(lambda: a.session.is_connected)
    assert a.take_events() == [SUSPENDED, RECONNECTED]
    assert names(world, b) == ("e",)
    assert stat(world, a, "/e").ephemeral_owner == a.session.session_id


def test_watches_do_not_outlive_the_connection(world: World) -> None:
    a, b = world.connected(), world.connected()
    create(world, a, "/n")
    seen: list[Any] = []
    watch(world, a, "get", "/n", seen)
    watch(world, a, "children", "/", seen)
    world.cut_off(a)
    world.ask(b.session.set, "/n", b"1", 0)
    world.reconnect(a)
    world.until(lambda: a.session.is_connected)
    world.ask(b.session.set, "/n", b"2", 1)
    create(world, b, "/m")
    world.settle(b, a)
    assert seen == []
    assert watch(world, a, "get", "/n", seen).data == b"2"
    world.ask(b.session.set, "/n", b"3", 2)
    world.settle(b, a)
    assert seen == [("get", "/n")]


def test_a_session_survives_a_restart_of_the_server(world: World) -> None:
    a = world.connected()
    create(world, a, Create("/e", b"1", is_ephemeral=True), Create("/n", b"2"))
    a.take_events()
    world.stop_server()
    assert get(world, a, "/n") is KeeperError.NOT_CONNECTED
    world.start_server()
    world.until(lambda: a.session.is_connected)
    events = a.take_events()
    assert events == [SUSPENDED, RECONNECTED]
    assert get(world, a, "/n").data == b"2"
    assert stat(world, a, "/e").ephemeral_owner == a.session.session_id
    assert world.ask(a.session.set, "/n", b"3", 0).version == 1


def test_a_server_that_hangs_is_left(world: World) -> None:
    a = world.connected(timeout_ms=SOON_MS)
    create(world, a, Create("/n", b"1"))
    a.take_events()
    world.freeze_server()
    results: list[Any] = []
    for number in range(100):
        a.session.set("/n", b"%d" % number, number, results.append)
    world.time_out()
    world.until(lambda: len(results) == 100)
    assert set(results) <= {KeeperError.CONNECTION_LOSS, KeeperError.NOT_CONNECTED}
    assert results[0] is KeeperError.CONNECTION_LOSS
    world.start_server()
    world.until(lambda: a.session.is_connected)
    assert a.take_events() in ([SUSPENDED, RECONNECTED], [SUSPENDED, EXPIRED, CONNECTED])
    data, known = get(world, a, "/n")
    assert known.version <= results.count(KeeperError.CONNECTION_LOSS)
    assert data == (b"%d" % (known.version - 1) if known.version else b"1")


def test_a_session_can_be_opened_before_the_server_runs(world: World) -> None:
    before = world.connected()
    world.stop_server()
    a = world.new(world.root)
    a.session.start()
    assert get(world, a, "/") is KeeperError.NOT_CONNECTED
    assert (a.events, a.session.session_id) == ([], 0)
    world.start_server()
    world.until(lambda: a.session.is_connected and before.session.is_connected)
    assert a.events == [CONNECTED]


# Chroots


def test_a_missing_chroot_is_noticed_and_made(world: World) -> None:
    a, outside = world.connected("/kafka/eu"), world.connected()
    assert stat(world, a, "/") is KeeperError.NO_NODE
    assert create(world, a, "/n") is KeeperError.NO_NODE
    assert create(world, a, "/") is KeeperError.NO_NODE  # a level above is missing too
    create(world, outside, "/kafka")
    assert create(world, a, "/") == "/"
    assert create(world, a, "/n") == "/n"
    assert names(world, outside, "/kafka/eu") == ("n",)


def test_a_session_sees_paths_below_its_chroot(world: World) -> None:
    outside = world.connected()
    create(world, outside, "/kafka")
    a = world.connected("/kafka")
    create(world, a, "/n")
    seen: list[Any] = []
    for kind, path in (("get", "/n"), ("children", "/"), ("get", "/")):
        watch(world, a, kind, path, seen)
    assert create(world, a, Create("/s_", is_sequential=True)) == "/s_0000000001"
    made = world.ask(a.session.multi, [Create("/t_", is_sequential=True), SetData("/n", b"", 0)])
    assert made[0] == "/t_0000000002"
    world.ask(outside.session.set, "/kafka", b"", 0)
    world.settle(outside, a)
    assert sorted(seen) == [("children", "/"), ("get", "/"), ("get", "/n")]


def test_the_root_is_there_and_stays(world: World) -> None:
    world.root = ""
    a = world.connected()
    assert stat(world, a, "/").version == 0
    assert create(world, a, "/") is KeeperError.NODE_EXISTS
    assert world.ask(a.session.delete, "/", ANY_VERSION) is KeeperError.BAD_ARGUMENTS


# The end


def test_a_closed_session_answers_what_was_sent_and_nothing_else(world: World) -> None:
    a, b = world.connected(), world.connected()
    create(world, a, Create("/e", is_ephemeral=True), "/n")
    seen: list[Any] = []
    watch(world, a, "get", "/n", seen)
    a.take_events()
    results: list[Any] = []
    closed: list[bool] = []
    a.session.set("/n", b"1", 0, results.append)
    a.session.close(closed.append)
    a.session.set("/n", b"2", 1, results.append)
    world.until(lambda: bool(closed))
    assert closed == [True]
    assert len(results) == 2
    assert {type(result) for result in results} == {Stat, KeeperError}
    assert KeeperError.NOT_CONNECTED in results
    assert get(world, b, "/n").data == b"1"
    assert stat(world, b, "/e") is KeeperError.NO_NODE
    assert (a.events, a.session.session_id, a.session.is_connected) == ([], 0, False)


def test_a_session_without_a_connection_is_closed_at_once(world: World) -> None:
    a, b = world.connected(), world.connected()
    create(world, a, Create("/e", is_ephemeral=True))
    world.cut_off(a)
    a.take_events()
    assert world.ask(a.session.close) is False
    world.reconnect(a)
    assert isinstance(stat(world, b, "/e"), Stat)  # it stays until the session times out
    assert a.events == []


@pytest.mark.parametrize("fault", Fault)
def test_a_lost_close_is_not_confirmed(world: World, fault: Fault) -> None:
    a, b = world.connected(), world.connected()
    create(world, a, Create("/e", is_ephemeral=True))
    world.lose_requests(a, fault)
    assert world.ask(a.session.close) is False
    assert (stat(world, b, "/e") is KeeperError.NO_NODE) == (fault is Fault.AFTER)
