"""The system's epoll, as the engine uses it."""

import time

import pytest
import trio
import trio.testing

from headgate.gateway.network import sockets
from headgate.gateway.network.epoll import Epoll
from headgate.gateway.network.tests.conformance import TcpEngine, run
from headgate.gateway.network.tests.test_connection import framed

pytestmark = pytest.mark.skipif(not sockets.AVAILABLE, reason="there is no epoll, eventfd or sendfile on this platform")


@pytest.mark.sockets
def test_the_systems_epoll_is_as_quiet_over_what_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    polls = 0

    async def scenario(served: TcpEngine) -> None:
        nonlocal polls
        client = await served.park()
        with trio.move_on_after(0.1):
            while True:
                await client.send(framed(bytes(900)) * 100)
        await served.until(lambda: not served.drivers[0].connection.wants_data)
        before = polls
        await trio.sleep(0.05)
        assert polls - before <= 2, "it spins on what it does not read"
        await client.reset()
        await served.until(lambda: served.gone == 1)

    class Counting(Epoll):
        def __init__(self) -> None:
            super().__init__()
            poll = self.poll

            def counted(timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
                nonlocal polls
                polls += 1
                return poll(timeout, maxevents)

            self.poll = counted

    monkeypatch.setattr(sockets, "Epoll", Counting)
    run(TcpEngine, scenario)
    assert polls


@pytest.mark.sockets
def test_epoll_is_woken_from_elsewhere_once_for_each_wake() -> None:
    async def main() -> None:
        poller = Epoll()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(poller.ready)
                await trio.testing.wait_all_tasks_blocked()
                poller.wake()
            assert len(poller.poll(0, 10)) == 1
            assert poller.poll(0, 10) == []
        finally:
            poller.close()

    start = time.monotonic()
    trio.run(main)
    assert time.monotonic() - start < 5
