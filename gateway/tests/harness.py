"""The real broker without a port: memory streams, trio's mock clock, a client over `protocol.client.connection`."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import trio
import trio.testing

from headgate.gateway.app.broker import Broker
from headgate.gateway.app.composition import Seams
from headgate.gateway.app.composition import connect as no_zookeeper
from headgate.gateway.config import BrokerConfig
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import TrioClock
from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler
from headgate.gateway.zookeeper.membership.connection import ZooKeeperConnection
from headgate.gateway.zookeeper.tests.model import ZooKeeperModel
from headgate.gateway.zookeeper.tests.opening import connector
from headgate.protocol.client.connection import ClientConnection
from headgate.protocol.schema import Message


class MemoryListener(trio.abc.Listener[trio.abc.Stream]):
    """Accepts what `connect` makes."""

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[trio.abc.Stream](1_000)

    def connect(self) -> trio.abc.Stream:
        ours, theirs = trio.testing.memory_stream_pair()
        self._send.send_nowait(theirs)
        return ours

    async def open_stream(self, host: str, port: int) -> trio.abc.Stream:
        """The connection of a link: every address is that of this listener."""
        await trio.lowlevel.checkpoint()
        return self.connect()

    def return_to_backlog(self, stream: trio.abc.Stream) -> None:
        self._send.send_nowait(stream)

    async def accept(self) -> trio.abc.Stream:
        return await self._receive.receive()

    async def aclose(self) -> None:
        self._receive.close()


class WireClient:
    """One connection to the broker, speaking messages."""

    def __init__(self, stream: trio.abc.Stream, client_id: str = "test") -> None:
        self.stream = stream
        self._peer = ClientConnection(client_id)
        self._responses: list[Any] = []

    async def send(self, request: Message, version: int) -> None:
        await self.stream.send_all(self._peer.request(request, version))

    async def receive(self) -> Any:
        first, *rest = await self.receive_some()
        self._responses = rest
        return first

    async def receive_some(self) -> list[Any]:
        """The responses that come next, one or several."""
        while not self._responses:
            self._responses += [response for _, response in self._peer.receive(await self._some())]
        responses, self._responses = self._responses, []
        return responses

    async def ask(self, request: Message, version: int) -> Any:
        await self.send(request, version)
        return await self.receive()

    async def _some(self) -> bytes:
        data = bytes(await self.stream.receive_some(1 << 20))
        if not data:
            raise EOFError("the broker hung up")
        return data


class MemoryBroker:
    """A running broker and ways to reach it."""

    def __init__(self, broker: Broker, listener: MemoryListener) -> None:
        self.broker = broker
        self._listener = listener

    def connect(self, client_id: str = "test") -> WireClient:
        return WireClient(self._listener.connect(), client_id)


def run_broker(directory: Path, scenario: Callable[[MemoryBroker], Awaitable[None]], **settings: str) -> None:
    """Run `scenario` beside a broker on `directory`; the clock jumps to the next deadline when all wait."""
    _run(directory, scenario, settings, no_zookeeper)


def run_broker_with_zookeeper(
    keeper: ZooKeeperModel, directory: Path, scenario: Callable[[MemoryBroker], Awaitable[None]], **settings: str
) -> None:
    """The same with the metadata in ZooKeeper."""
    _run(directory, scenario, {"zookeeper_connect": "model:2181", **settings}, connector(keeper))


def _run(
    directory: Path,
    scenario: Callable[[MemoryBroker], Awaitable[None]],
    settings: Mapping[str, str],
    connect: Callable[[BrokerConfig, Clock], ZooKeeperConnection | None],
) -> None:
    async def main() -> None:
        settings_of_tests = f"log.dirs={directory}", "headgate.census=false"
        config = BrokerConfig.load(
            "", [*settings_of_tests, *(f"{name.replace('_', '.')}={value}" for name, value in settings.items())]
        )
        listener = MemoryListener()
        # While a thread runs, all tasks wait, and the clock jumps to where every deadline has passed.
        seams = Seams(
            TrioClock(),
            random=Random(0),
            make_scheduler=FakeScheduler,
            connect=connect,
            open_stream=listener.open_stream,
        )
        broker = Broker(config, seams)
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run, [("PLAINTEXT", listener)])
            await scenario(MemoryBroker(broker, listener))
            await broker.stop()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
