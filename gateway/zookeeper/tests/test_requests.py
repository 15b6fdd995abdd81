"""Requests in sequence: answers, exceptions, and many side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headgate.gateway.runtime.tasks import Task, gather, run
from headgate.gateway.zookeeper.requests import Failed, Lost, checked, children, delete, ensure, exists, get, remove
from headgate.gateway.zookeeper.session import Create, KeeperError
from headgate.gateway.zookeeper.tests.model import ModelSession, ZooKeeperModel


@pytest.fixture
def session() -> ModelSession:
    keeper = ZooKeeperModel()
    session = keeper.session()
    session.start()
    keeper.run()
    session.keeper = keeper  # type: ignore[attr-defined]
    return session


def finish(session: ModelSession, steps: Task[Any]) -> Any:
    results: list[Any] = []
    run(steps, results.append)
    session.keeper.run()  # type: ignore[attr-defined]
    (result,) = results
    return result


def test_steps_return_a_value(session: ModelSession) -> None:
    def steps() -> Task[tuple[object, ...]]:
        yield from ensure(session, "/a/b")
        found = yield from get(session, "/a/b")
        assert found is not None
        names = yield from children(session, "/a")
        gone = yield from delete(session, "/a/b")
        again = yield from delete(session, "/a/b")
        return found.data, names, gone, again, (yield from exists(session, "/a/b")), (yield from get(session, "/a/b"))

    assert finish(session, steps()) == (None, ("b",), True, False, None, None)


def test_an_error_is_raised_in_the_steps(session: ModelSession) -> None:
    assert isinstance(finish(session, get(session, "no path")), Failed)
    session.keeper.stop()  # type: ignore[attr-defined]
    assert isinstance(finish(session, get(session, "/a")), Lost)


def test_answers_are_checked() -> None:
    assert checked("/a", 5) == 5
    with pytest.raises(Failed, match="/a: NO_AUTH"):
        checked("/a", KeeperError.NO_AUTH)


def test_many_run_side_by_side() -> None:
    waiting: list[Callable[[Any], None]] = []

    def one(number: int) -> Task[int]:
        answer = yield waiting.append
        return number * int(answer)

    results: list[Any] = []
    run(gather([one(number) for number in range(5)], 2), results.append)
    assert len(waiting) == 2
    while waiting:
        waiting.pop()(10)
    assert results == [[0, 10, 20, 30, 40]]


def test_an_exception_ends_all_once_they_have_ended() -> None:
    waiting: list[Callable[[Any], None]] = []

    def one() -> Task[int]:
        yield waiting.append
        return 1

    results: list[Any] = []
    run(gather([one() for _ in range(5)], 2), results.append)
    waiting.pop()(ValueError("no"))
    assert results == []
    waiting.pop()(0)
    assert isinstance(results[0], ValueError)
    assert not waiting


def test_many_steps_without_requests_end_at_once() -> None:
    def one() -> Task[int]:
        return 1
        yield

    results: list[Any] = []
    run(gather([one() for _ in range(10_000)]), results.append)
    run(gather([]), results.append)
    assert [len(result) for result in results] == [10_000, 0]


def test_ensure_creates_what_is_missing(session: ModelSession) -> None:
    session.create(Create("/a", b"kept"), lambda _: None)
    assert finish(session, ensure(session, "/a/b/c")) is None
    assert finish(session, get(session, "/a")).data == b"kept"


def test_answers_at_once_need_no_stack() -> None:
    def steps() -> Task[int]:
        total = 0
        for _ in range(5_000):
            total += sum((yield from gather([_nothing(), _nothing()])))
        return total

    results: list[object] = []
    run(steps(), results.append)
    assert results == [10_000]


def _nothing() -> Task[int]:
    return 1
    yield


def test_a_request_that_raises_is_raised_in_the_steps() -> None:
    def ask(_: object) -> None:
        raise ZeroDivisionError

    def steps() -> Task[str]:
        try:
            yield ask
        except ZeroDivisionError:
            return "raised"
        return ""

    results: list[object] = []
    run(steps(), results.append)
    assert results == ["raised"]


def test_a_tree_is_removed() -> None:
    keeper = ZooKeeperModel()
    session = keeper.session()
    session.start()
    keeper.run()
    for path in ("/a", "/a/b", "/a/b/c", "/a/d", "/e"):
        keeper.transact(7, [Create(path)])
    results: list[object] = []
    for path in ("/a", "/a"):
        run(remove(session, path), results.append)
        keeper.run()
    assert results == [True, False]
    assert set(keeper.tree.nodes) == {"/", "/e"}
