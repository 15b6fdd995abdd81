"""The listener of metrics, and what a peer may take of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import pytest
import trio
import trio.testing

from headgate.gateway.network import metrics_listener
from headgate.gateway.network.metrics_listener import HEAD_BYTES, MAX_PEERS, MetricsListener
from headgate.gateway.tests.harness import MemoryListener

GET = b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n"


def run(scenario: Callable[[MemoryListener], Awaitable[None]]) -> None:
    async def main() -> None:
        listener = MemoryListener()
        served = MetricsListener(lambda: iter([b"a 1\n", b"b 2\n"]), "text/plain")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(served.serve, [listener])
            await scenario(listener)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def answer(stream: trio.abc.Stream, *parts: bytes) -> bytes:
    for part in parts:
        await stream.send_all(part)
    received = b""
    while data := await stream.receive_some():
        received += data
    return received


def test_a_get_is_answered_with_the_metrics() -> None:
    async def scenario(listener: MemoryListener) -> None:
        for parts in ([GET], [bytes([one]) for one in GET]):
            head, _, body = (await answer(listener.connect(), *parts)).partition(b"\r\n\r\n")
            assert head.split(b"\r\n")[0] == b"HTTP/1.1 200 OK"
            assert b"Content-Length: 8" in head
            assert body == b"a 1\nb 2\n"

    run(scenario)


@pytest.mark.parametrize(
    "sent, status",
    [
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"GET /etc/passwd HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /metrics?name=a HTTP/1.1\r\n\r\n", b"200"),
        (b"GET /metrics SPDY/1\r\n\r\n", b"400"),
        (b"\x16\x03\x01\r\n\r\n", b"400"),
        (b"GET /" + b"a" * HEAD_BYTES, b"400"),
    ],
)
def test_anything_else_is_refused(sent: bytes, status: bytes) -> None:
    async def scenario(listener: MemoryListener) -> None:
        assert (await answer(listener.connect(), sent)).split()[1] == status

    run(scenario)


def test_a_head_has_five_seconds() -> None:
    async def scenario(listener: MemoryListener) -> None:
        began = trio.current_time()
        assert (await answer(listener.connect(), b"GET /")).split()[1] == b"400"
        assert trio.current_time() - began == pytest.approx(metrics_listener.HEAD_S)

    run(scenario)


def test_peers_that_say_nothing_keep_others_waiting_for_seconds_only() -> None:
    async def scenario(listener: MemoryListener) -> None:
        silent = [listener.connect() for _ in range(MAX_PEERS)]
        await trio.testing.wait_all_tasks_blocked()
        assert b"200 OK" in await answer(listener.connect(), GET)
        assert trio.current_time() >= metrics_listener.HEAD_S
        assert silent

    run(scenario)


def test_a_peer_that_hangs_up_ends_itself_only() -> None:
    async def scenario(listener: MemoryListener) -> None:
        gone = listener.connect()
        await gone.aclose()
        assert b"200 OK" in await answer(listener.connect(), GET)

    run(scenario)


def test_others_have_turns_between_two_metrics() -> None:
    turns = []

    def exposition() -> Iterator[bytes]:
        for number in range(5):
            turns.append(number)
            yield b"x"

    async def main() -> None:
        listener = MemoryListener()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(MetricsListener(exposition, "text/plain").serve, [listener])
            stream = listener.connect()
            await stream.send_all(GET)
            seen = set()
            while len(turns) < 5:
                seen.add(len(turns))
                await trio.lowlevel.checkpoint()
            assert len(seen) > 2
            nursery.cancel_scope.cancel()

    trio.run(main)
