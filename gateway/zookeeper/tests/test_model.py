"""What only the model does: it shuffles what is on its way, and scripts faults. `test_scenarios.py` has its rules."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from headgate.gateway.zookeeper.session import Create, KeeperError, NodeData, SessionEvent, SetData
from headgate.gateway.zookeeper.tests.model import Fault, ModelSession, ZooKeeperModel


def connected(keeper: ZooKeeperModel) -> ModelSession:
    session = keeper.session()
    session.start()
    keeper.run()
    assert session.is_connected
    return session


def ignore(_: Any) -> None:
    pass


def history(seed: int) -> list[str]:
    """The order in which the answers and events of two sessions arrive."""
    keeper = ZooKeeperModel(Random(seed))
    a, b = connected(keeper), connected(keeper)
    a.create(Create("/n"), ignore)
    keeper.run()
    seen: list[str] = []
    b.get("/n", ignore, lambda _: seen.append("event"))
    keeper.run()
    for number in range(3):
        a.set("/n", b"", -1, partial(_note, seen, f"a{number}"))
        b.sync("/", partial(_note, seen, f"b{number}"))
    keeper.run()
    return seen


def _note(seen: list[str], what: str, _result: object) -> None:
    seen.append(what)


def test_a_seed_is_one_history_and_seeds_differ() -> None:
    histories = [history(seed) for seed in range(50)]
    assert histories == [history(seed) for seed in range(50)]
    assert len({tuple(one) for one in histories}) > 10
    for one in histories:  # whatever the order, that of each session's answers stays
        assert [what for what in one if what[0] == "a"] == ["a0", "a1", "a2"]
        assert [what for what in one if what[0] == "b"] == ["b0", "b1", "b2"]
        assert one.count("event") == 1


def test_an_event_may_come_before_or_after_a_later_answer() -> None:
    orders = set()
    for seed in range(50):
        seen = history(seed)
        orders.add(seen.index("event") < seen.index("b2"))
    assert orders == {True, False}


def test_without_a_seed_things_happen_in_the_order_of_their_causes() -> None:
    keeper = ZooKeeperModel()
    a = connected(keeper)
    seen: list[Any] = []
    a.create(Create("/n"), seen.append)
    a.get("/n", seen.append, lambda path: seen.append("event"))
    a.set("/n", b"1", 0, seen.append)
    keeper.run()
    assert seen[0] == "/n"
    assert isinstance(seen[1], NodeData)
    assert seen[2] == "event"
    assert seen[3].version == 1


def test_a_simulation_is_woken_for_each_thing_on_its_way() -> None:
    woken: list[None] = []
    keeper = ZooKeeperModel(on_way=lambda: woken.append(None))
    session = keeper.session()
    session.start()
    session.get("/", ignore)
    steps = 0
    while keeper.step():
        steps += 1
    assert len(woken) == steps > 0


def test_a_cut_while_connecting_brings_no_connection() -> None:
    keeper = ZooKeeperModel()
    events: list[SessionEvent] = []
    session = keeper.session(events.append)
    session.start()
    session.start()
    keeper.cut(session)
    keeper.run()
    assert (events, session.is_connected) == ([], False)
    session.start()
    keeper.run()
    assert events == [SessionEvent.CONNECTED]


def test_what_was_sent_to_a_hanging_server_may_take_effect() -> None:
    for takes_effect in (True, False):
        keeper = ZooKeeperModel()
        a, results = connected(keeper), list[Any]()
        keeper.freeze()
        a.create(Create("/n"), results.append)
        keeper.run()
        assert results == []
        keeper.time_out(takes_effect=takes_effect)
        assert results == [KeeperError.CONNECTION_LOSS]
        assert ("/n" in keeper.tree.nodes) == takes_effect


def test_a_multi_that_fails_leaves_the_tree_as_it_was() -> None:
    keeper = ZooKeeperModel()
    a = connected(keeper)
    a.create(Create("/n"), ignore)
    keeper.run()
    before = {path: (node.data, node.stat()) for path, node in keeper.tree.nodes.items()}
    a.multi([Create("/n/a"), Create("/n/a/b"), SetData("/n", b"1"), SetData("/n", b"2", 0)], ignore)
    keeper.run()
    assert {path: (node.data, node.stat()) for path, node in keeper.tree.nodes.items()} == before


def test_a_lost_close_leaves_the_session_open_at_the_server() -> None:
    for fault, is_left in ((Fault.BEFORE, True), (Fault.AFTER, False)):
        keeper = ZooKeeperModel()
        a, closed = connected(keeper), list[bool]()
        a.create(Create("/e", is_ephemeral=True), ignore)
        keeper.run()
        a.faults.append(fault)
        a.close(closed.append)
        keeper.run()
        assert closed == [False]
        assert ("/e" in keeper.tree.nodes) == is_left


def test_a_request_from_within_an_answer_is_served() -> None:
    keeper = ZooKeeperModel()
    a, seen = connected(keeper), list[str]()

    def again(left: int) -> Callable[[Any], None]:
        def done(path: str) -> None:
            seen.append(path)
            if left:
                a.create(Create(f"/{left}"), again(left - 1))

        return done

    a.create(Create("/start"), again(3))
    keeper.run()
    assert seen == ["/start", "/3", "/2", "/1"]


def test_the_end_of_a_connection_takes_no_refusal_away() -> None:
    keeper, answers = ZooKeeperModel(), list[Any]()
    session = keeper.session()
    session.get("/a", answers.append)
    session.get("no path", answers.append)
    session.connected(1)
    keeper.cut(session)
    assert answers == []
    keeper.run()
    assert answers == [KeeperError.NOT_CONNECTED, KeeperError.BAD_ARGUMENTS]
