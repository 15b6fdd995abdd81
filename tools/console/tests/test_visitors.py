"""Sessions: found by their id alone, bounded, ended when idle; questions run beside each other, a few at a time."""

from __future__ import annotations

import threading

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from headgate.tools.client.cluster import Cluster
from headgate.tools.console.cluster_access import ClusterAccess, VisitorLogin
from headgate.tools.console.visitors import (
    IDLE_S,
    MOST_QUESTIONS,
    MOST_STREAMS,
    MOST_VISITORS,
    NotLoggedIn,
    TooManyStreams,
    Visitors,
)

ACCESS = ClusterAccess("127.0.0.1:9092", {}, is_loopback=True)
assert ACCESS.lent is not None
LOGIN = VisitorLogin("ann", ACCESS.lent)


def test_a_visitor_is_found_by_the_id_alone() -> None:
    async def run() -> None:
        visitors = Visitors(ACCESS)
        visitor, other = visitors.begin(), visitors.begin()
        assert visitors.find(visitor.session_id) is visitor
        assert visitors.find(visitor.session_id[:-1]) is None
        assert visitors.find("é") is None
        assert visitors.find(None) is None
        assert visitor.csrf_token != other.csrf_token
        visitors.end(visitor)
        assert visitors.find(visitor.session_id) is None

    trio.run(run)


def test_idle_sessions_end() -> None:
    async def run() -> None:
        visitors = Visitors(ACCESS)
        idle, busy = visitors.begin(), visitors.begin()
        await trio.sleep(IDLE_S / 2)
        visitors.find(busy.session_id)
        await trio.sleep(IDLE_S / 2 + 1)
        visitors.end_idle()
        assert visitors.find(idle.session_id) is None
        assert visitors.find(busy.session_id) is busy

    trio.run(run, clock=MockClock(autojump_threshold=0))


def test_many_strangers_end_no_login() -> None:
    async def run() -> None:
        visitors = Visitors(ACCESS)
        known = visitors.begin()
        known.login = LOGIN
        for _ in range(MOST_VISITORS + 3):
            visitors.begin()
        assert visitors.find(known.session_id) is known

    trio.run(run)


def test_a_few_questions_run_at_a_time() -> None:
    async def run() -> None:
        visitor = Visitors(ACCESS).begin()
        free, running, most = threading.Semaphore(0), [], []

        def question(cluster: Cluster) -> None:
            running.append(cluster)
            most.append(len(running))
            free.acquire()
            running.remove(cluster)

        async with trio.open_nursery() as nursery:
            for _ in range(MOST_QUESTIONS + 2):
                nursery.start_soon(visitor.ask, question)
            with trio.fail_after(20):
                while len(running) < MOST_QUESTIONS:
                    await trio.lowlevel.checkpoint()
            free.release(MOST_QUESTIONS + 2)
        assert max(most) == MOST_QUESTIONS

    trio.run(run)


def test_a_cluster_answers_one_question_after_another() -> None:
    async def run() -> None:
        visitor = Visitors(ACCESS).begin()
        first = await visitor.ask(lambda cluster: cluster)
        assert await visitor.ask(lambda cluster: cluster) is first
        with pytest.raises(ZeroDivisionError):
            await visitor.ask(lambda cluster: 1 // 0)
        assert await visitor.ask(lambda cluster: cluster) is first
        visitor.close()
        assert await visitor.ask(lambda cluster: cluster) is not first

    trio.run(run)


def test_streams_are_counted() -> None:
    async def run() -> None:
        visitor = Visitors(ACCESS).begin()
        streams = [visitor.stream() for _ in range(MOST_STREAMS)]
        for stream in streams:
            stream.__enter__()
        with pytest.raises(TooManyStreams), visitor.stream():
            pass
        streams.pop().__exit__(None, None, None)
        with visitor.stream() as asked:
            assert await asked.ask(lambda cluster: 5) == 5

    trio.run(run)


def test_a_visitor_without_a_login_asks_nothing() -> None:
    async def run() -> None:
        visitor = Visitors(ClusterAccess("x", {"security.protocol": "SASL_PLAINTEXT"}, is_loopback=True)).begin()
        with pytest.raises(NotLoggedIn):
            await visitor.ask(lambda cluster: cluster)
        visitor.login = LOGIN
        assert await visitor.ask(lambda cluster: 1) == 1

    trio.run(run)


def test_a_question_that_nobody_waits_for_closes_its_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = threading.Event()
    monkeypatch.setattr(Cluster, "close", lambda self: closed.set())

    async def run() -> None:
        visitor = Visitors(ACCESS).begin()
        begun, free = threading.Event(), threading.Event()

        def question(cluster: Cluster) -> None:
            begun.set()
            free.wait(20)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(visitor.ask, question)
            await trio.to_thread.run_sync(begun.wait, 20)
            nursery.cancel_scope.cancel()
        assert not closed.is_set()
        free.set()
        assert await trio.to_thread.run_sync(closed.wait, 20)

    trio.run(run)
