"""A link in the engine, on a scripted poller: how it connects, and how it shares the engine with clients."""

from __future__ import annotations

import errno
import select
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from headgate.gateway.network import sockets
from headgate.gateway.network.epoll import READING
from headgate.gateway.network.link_socket import CONNECT_TIMEOUT_MS, LinkSocket
from headgate.gateway.network.links import SLICE_BYTES, Link, Links
from headgate.gateway.network.socket_driver import SocketDriver
from headgate.gateway.network.tests.conformance import SimulatedClient, SimulatedEngine
from headgate.gateway.network.tests.conformance import run as run_served
from headgate.gateway.network.tests.link_conformance import TABLE, Peer, SimulatedSocket, run
from headgate.gateway.network.tests.test_connection import framed
from headgate.gateway.network.tests.test_links import fetched, records_of
from headgate.gateway.runtime.broker_links import LinkLost
from headgate.gateway.runtime.tasks import Task, Tasks
from headgate.protocol.client.tests.scripted_peer import respond
from headgate.protocol.messages.fetch import FetchRequest
from headgate.protocol.messages.metadata import MetadataRequest, MetadataResponse
from headgate.protocol.schema import Message

pytestmark = pytest.mark.skipif(not sockets.AVAILABLE, reason="there is no epoll, eventfd or sendfile on this platform")

TWO_ADDRESSES = [
    (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 9092, 0, 0)),
    (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 9092)),
]


def resolve(monkeypatch: pytest.MonkeyPatch, found: list[Any] | None = None) -> list[int]:
    """Have names resolved to two addresses, or to `found`. Returns the flags of the calls."""
    calls: list[int] = []

    def getaddrinfo(host: str, port: int, *, type: int, flags: int) -> list[Any]:  # noqa: A002
        calls.append(flags)
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        if found is None:
            return TWO_ADDRESSES
        if not found:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return found

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return calls


def test_a_thread_resolves_the_name_of_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve(monkeypatch)

    async def scenario(linked: SimulatedSocket) -> None:
        threads: Any = linked.scheduler.hold()  # type: ignore[attr-defined]
        asked = linked.ask()
        await trio.sleep(1)
        assert not linked.kernel.opened
        threads.run_all()
        peer = await linked.accept()
        await peer.answer(TABLE)
        await peer.answer(MetadataResponse(cluster_id="c"))
        assert (await asked.result()).cluster_id == "c"

    run(SimulatedSocket, scenario)


def test_a_name_without_an_address_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve(monkeypatch, [])

    async def scenario(linked: SimulatedSocket) -> None:
        error = await linked.ask().result()
        assert isinstance(error, LinkLost)
        assert "Temporary failure in name resolution" in str(error)

    run(SimulatedSocket, scenario)


def test_a_name_that_cannot_exist_is_the_reason() -> None:
    async def scenario(linked: SimulatedSocket) -> None:
        linked.link = linked.links.open(3, "a" * 70, 9092, "broker-1")
        error = await linked.ask().result()
        assert isinstance(error, LinkLost)
        assert "its address cannot be resolved" in str(error)

    run(SimulatedSocket, scenario)


def test_a_link_closed_before_its_name_is_resolved_stays_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve(monkeypatch)

    async def scenario(linked: SimulatedSocket) -> None:
        threads: Any = linked.scheduler.hold()  # type: ignore[attr-defined]
        asked = linked.ask()
        await trio.sleep(1)
        linked.link.close()
        threads.run_all()
        assert isinstance(await asked.result(), LinkLost)
        assert not linked.kernel.opened

    run(SimulatedSocket, scenario)


@pytest.mark.parametrize("refusal", [errno.ECONNREFUSED, 0])
def test_a_host_with_two_addresses_is_tried_at_both(monkeypatch: pytest.MonkeyPatch, refusal: int) -> None:
    resolve(monkeypatch)

    async def scenario(linked: SimulatedSocket) -> None:
        linked.kernel.refusals.append(refusal)
        asked = linked.ask()
        await linked.until(lambda: linked.kernel.opened)
        start = trio.current_time()
        if not refusal:
            await trio.sleep(CONNECT_TIMEOUT_MS / 1000)
        linked.skip(1)
        peer = await linked.accept()
        assert [sock.address[0] for sock in linked.kernel.opened] == ["::1", "127.0.0.1"]
        assert trio.current_time() - start < (0.1 if refusal else CONNECT_TIMEOUT_MS / 1000 + 0.1)
        await peer.answer(TABLE)
        await peer.answer(MetadataResponse(cluster_id="c"))
        assert (await asked.result()).cluster_id == "c"
        await trio.sleep(20)
        assert not linked.kernel.opened[1].is_closed, "the time to connect is over, and the link is connected"

    run(SimulatedSocket, scenario)


def test_without_descriptors_a_link_is_lost_and_tries_again() -> None:
    async def scenario(linked: SimulatedSocket) -> None:
        make = linked.engine.make_socket

        def refuse(*_: int) -> socket.socket:
            raise OSError(errno.EMFILE, "Too many open files")

        linked.engine.make_socket = refuse
        error = await linked.ask().result()
        assert "it cannot be reached: Too many open files" in str(error)
        linked.engine.make_socket = make
        await linked.connect()

    run(SimulatedSocket, scenario)


def test_a_socket_that_connects_to_itself_is_no_broker() -> None:
    async def scenario(linked: SimulatedSocket) -> None:
        make = linked.engine.make_socket

        def make_own(*arguments: int) -> Any:
            sock: Any = make(*arguments)
            sock.local_address = linked.address()
            return sock

        linked.engine.make_socket = make_own
        error = await linked.ask().result()
        assert "its port is the own port of the new socket" in str(error)
        assert linked.kernel.opened[0].is_closed

    run(SimulatedSocket, scenario)


def test_the_end_of_the_engine_ends_its_links() -> None:
    async def scenario(linked: SimulatedSocket) -> None:
        await linked.connect()
        asked = linked.ask()
        await trio.testing.wait_all_tasks_blocked()
        linked.engine_scope.cancel()
        assert "this broker closes its connections" in str(await asked.result())

    run(SimulatedSocket, scenario)


def test_a_link_polls_for_room_only_while_its_socket_is_full() -> None:
    async def scenario(linked: SimulatedSocket) -> None:
        peer = await linked.connect()
        (sock,) = linked.kernel.opened
        sock.room = 10
        asked = linked.ask()
        await trio.testing.wait_all_tasks_blocked()
        assert linked.kernel.interest[sock.fileno()] == READING | select.EPOLLOUT
        await peer.answer(MetadataResponse(cluster_id="c"))
        assert (await asked.result()).cluster_id == "c"
        assert linked.kernel.interest[sock.fileno()] == READING

    run(SimulatedSocket, scenario)


def test_a_large_answer_is_received_in_place_a_megabyte_a_round() -> None:
    async def scenario(linked: SimulatedSocket) -> None:
        peer = await linked.connect()
        linked.kernel.received.clear()
        asked = linked.ask(FetchRequest())
        await peer.answer(fetched(bytes(4_000_000)))
        assert len(records_of(await asked.result())) == 4_000_000
        first, *rest = linked.kernel.received
        assert first == len(linked.engine.scratch)
        assert max(rest) == SLICE_BYTES
        assert len(rest) == 4

    run(SimulatedSocket, scenario)


# Beside clients


class Shared(SimulatedEngine):
    """An engine with clients and with a link; `connect_link` gives the link's end of the other broker."""

    def __init__(self) -> None:
        super().__init__()
        self.engine.make_socket = self.kernel.make_socket
        self.links = Links(self.clock, self.scheduler, lambda link: LinkSocket(self.engine, link))
        self.tasks = Tasks(self.clock, self.scheduler)
        self.answers: list[Any] = []

    def ask(self, link: Link, message: Message) -> None:
        def task() -> Task[Any]:
            return (yield link.ask(message))

        self.tasks.start(task(), self.answers.append)

    async def connect_link(self) -> tuple[Link, Peer]:
        link = self.links.open(2, "127.0.0.1", 9092, "broker-1")
        self.ask(link, MetadataRequest())
        await self.until(lambda: self.kernel.opened)
        peer = Peer(SimulatedClient(self.kernel.opened[0]))
        await peer.answer(TABLE)
        await peer.answer(MetadataResponse())
        assert self.answers.pop()
        return link, peer


def put_first(shared: Shared, number: int) -> None:
    """The client of this number is a broker."""
    driver = shared.drivers[number]
    assert isinstance(driver, SocketDriver)
    driver.put_first()


def run_shared(scenario: Callable[[Shared], Awaitable[None]]) -> None:
    async def whole(shared: Shared) -> None:
        await scenario(shared)
        shared.links.close()

    run_served(Shared, whole)


def test_a_link_is_served_before_clients_that_came_earlier() -> None:
    async def scenario(shared: Shared) -> None:
        link, peer = await shared.connect_link()
        clients = [await shared.connect() for _ in range(5)]
        order: list[str] = []
        receive = link.receive

        def note(data: Any) -> None:
            order.append("link")
            receive(data)

        link.receive = note  # type: ignore[method-assign]
        shared.dispatcher.when_heavy = lambda: order.append("client")
        shared.ask(link, MetadataRequest())
        answer = respond(await peer.request(), lambda *_: MetadataResponse())
        for client in clients:
            assert isinstance(client, SimulatedClient)
            client.socket.client_sends(framed(b"heavy"))
        shared.kernel.opened[0].client_sends(answer)
        await trio.testing.wait_all_tasks_blocked()
        assert order == ["link", *["client"] * 5]

    run_shared(scenario)


def test_the_next_request_of_a_link_leaves_before_clients_are_served() -> None:
    async def scenario(shared: Shared) -> None:
        link, peer = await shared.connect_link()
        client = await shared.connect()
        sock = shared.kernel.opened[0]
        sizes: list[int] = []

        def ask_twice() -> Task[Any]:
            yield link.ask(MetadataRequest())
            return (yield link.ask(MetadataRequest()))

        shared.tasks.start(ask_twice(), shared.answers.append)
        answer = respond(await peer.request(), lambda *_: MetadataResponse())
        assert not sock.outgoing
        shared.dispatcher.when_heavy = lambda: sizes.append(len(sock.outgoing))
        assert isinstance(client, SimulatedClient)
        client.socket.client_sends(framed(b"heavy"))
        sock.client_sends(answer)
        await peer.answer(MetadataResponse())
        assert len(shared.answers) == 1
        assert sizes[0] > 0

    run_shared(scenario)


def test_a_client_known_as_a_broker_is_served_before_the_others() -> None:
    async def scenario(shared: Shared) -> None:
        clients = [await shared.connect() for _ in range(3)]
        put_first(shared, 2)
        for number, client in enumerate(clients):
            assert isinstance(client, SimulatedClient)
            client.socket.client_sends(framed(b"%d" % number))
        await trio.testing.wait_all_tasks_blocked()
        assert shared.dispatcher.seen == [b"2", b"0", b"1"]

    run_shared(scenario)


def test_a_parked_reply_to_a_broker_is_sent_before_clients_are_served() -> None:
    async def scenario(shared: Shared) -> None:
        parked, client = [await shared.park(b"behind") for _ in range(2)], await shared.connect()
        put_first(shared, 1)
        sent: list[list[int]] = []
        shared.dispatcher.when_heavy = lambda: sent.append([len(each.socket.outgoing) for each in parked])  # type: ignore[attr-defined]
        assert isinstance(client, SimulatedClient)
        client.socket.client_sends(framed(b"heavy"))
        for done in shared.dispatcher.parked:
            done([b"ready"])
        assert [await each.read(11) for each in parked] == [b"readybehind"] * 2
        assert sent[0][0] == 0
        assert sent[0][1] >= 5

    run_shared(scenario)


def test_brokers_that_take_the_whole_turn_starve_no_client() -> None:
    async def scenario(shared: Shared) -> None:
        brokers, client = [await shared.connect() for _ in range(2)], await shared.connect()
        put_first(shared, 0)
        put_first(shared, 1)
        assert isinstance(client, SimulatedClient)
        for number in range(30):
            for broker in brokers:
                assert isinstance(broker, SimulatedClient)
                if not broker.socket.incoming:
                    broker.socket.client_takes(100)
                    broker.socket.client_sends(framed(b"heavy"))
            if number == 3:
                client.socket.client_sends(framed(b"hello"))
            await trio.lowlevel.checkpoint()
            if b"hello" in shared.dispatcher.seen:
                break
        before = shared.dispatcher.seen.index(b"hello")
        assert 2 <= before <= 12

    run_shared(scenario)


def test_a_large_answer_leaves_each_round_to_clients() -> None:
    async def scenario(shared: Shared) -> None:
        link, peer = await shared.connect_link()
        client = await shared.connect()
        assert isinstance(client, SimulatedClient)
        shared.ask(link, FetchRequest())
        answer = respond(await peer.request(), lambda *_: fetched(bytes(8_000_000)))
        shared.kernel.opened[0].client_sends(answer)
        client.socket.client_sends(framed(b"hello"))
        left: list[int] = []
        dispatch = shared.dispatcher.dispatch

        def note(*arguments: Any) -> Any:
            left.append(len(shared.kernel.opened[0].incoming))
            return dispatch(*arguments)

        shared.dispatcher.dispatch = note  # type: ignore[assignment, method-assign]
        assert await client.read(5) == b"hello"
        assert left[0] > 6_000_000, "the client waited for more than a slice of the answer"
        assert len(records_of(shared.answers[0])) == 8_000_000

    run_shared(scenario)


def test_a_fault_in_a_link_ends_that_link_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(shared: Shared) -> None:
        link, peer = await shared.connect_link()
        client = await shared.connect()

        def fail(data: object) -> None:
            raise ZeroDivisionError("ours")

        link.receive = fail  # type: ignore[method-assign]
        shared.ask(link, MetadataRequest())
        await peer.answer(MetadataResponse())
        assert isinstance(shared.answers[0], LinkLost)
        assert "serving broker 2 at 127.0.0.1:9092 failed" in caplog.text
        await client.send(framed(b"hello"))
        assert await client.read(5) == b"hello"

    run_shared(scenario)


def test_a_failed_batched_write_ends_no_link(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(shared: Shared) -> None:
        link, peer = await shared.connect_link()
        client = await shared.connect()
        put_first(shared, 0)

        def fail() -> None:
            shared.dispatcher.batcher.is_open = False
            raise ZeroDivisionError("ours")

        shared.dispatcher.batcher.write_all = fail  # type: ignore[method-assign]
        shared.ask(link, MetadataRequest())  # sent in the round of the failed write
        await client.send(framed(b"stage"))
        assert await client.is_closed()
        assert "a batched write failed" in caplog.text
        await peer.answer(MetadataResponse(cluster_id="c"))
        assert shared.answers[0].cluster_id == "c"

    run_shared(scenario)
