"""The listener of metrics, and what a peer may take of it."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

import pytest
import trio
import trio.testing

from headgate.gateway.api.context import Client
from headgate.gateway.network import metrics_listener
from headgate.gateway.network.metrics_access import MetricsAccess
from headgate.gateway.network.metrics_listener import HEAD_BYTES, MAX_PEERS, MetricsListener, Security
from headgate.gateway.network.tls.tests.fake_listener import HOST, client_context, new_context
from headgate.gateway.runtime.scheduler import TrioClock
from headgate.gateway.tests.harness import MemoryListener
from headgate.protocol.acls import AclOperation, AclResource

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


# Beyond the loopback interface


class DescribingUsers:
    """Lets one user describe the cluster."""

    def allows(self, client: Client, operation: AclOperation, resource: AclResource, name: str) -> bool:
        assert (operation, resource, name) == (AclOperation.DESCRIBE, AclResource.CLUSTER, "kafka-cluster")
        return client.principal in {"User:prometheus", ONE_CERTIFICATE}

    def allows_any(self, client: Client, operation: AclOperation, resource: AclResource) -> bool:
        raise NotImplementedError


class SlowUsers:
    """A password that a thread has to check, for a user whose name begins with `slow`."""

    def check(self, user: str, password: str) -> bool | Callable[[], bool]:
        is_right = password == "right"
        return (lambda: is_right) if user.startswith("slow") else is_right


ONE_CERTIFICATE = "User:certificate"


def run_securely(
    scenario: Callable[[MemoryListener], Awaitable[None]], *, client_auth: ssl.VerifyMode = ssl.CERT_NONE
) -> None:
    async def main() -> None:
        context = new_context(ssl.Purpose.CLIENT_AUTH, name="broker")
        context.verify_mode = client_auth
        listener = MemoryListener()
        access = MetricsAccess(NamedTls(context), SlowUsers(), DescribingUsers(), 100)  # type: ignore[arg-type]
        served = MetricsListener(lambda: iter([b"a 1\n"]), "text/plain", Security(access, TrioClock()))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(served.serve, [listener])
            with trio.fail_after(3_000):
                await scenario(listener)
            nursery.cancel_scope.cancel()

    trio.run(main)


class NamedTls(NamedTuple):
    context: ssl.SSLContext

    def principal_of(self, certificate: bytes | None) -> str:
        assert certificate is not None
        return ONE_CERTIFICATE


async def ask_securely(listener: MemoryListener, head: bytes, context: ssl.SSLContext | None = None) -> bytes:
    stream = trio.SSLStream(
        listener.connect(), context or client_context(), server_hostname=HOST, https_compatible=True
    )
    return await answer(stream, head)


def basic(user: str, password: str) -> bytes:
    token = base64.b64encode(f"{user}:{password}".encode())
    return GET.replace(b"Host: h", b"authorization:  basic " + token)


@pytest.mark.parametrize(
    "head, status",
    [
        (basic("prometheus", "right"), b"200 OK"),
        (basic("prometheus", "wrong"), b"401 Unauthorized"),
        (basic("slow", "right"), b"403 Forbidden"),
        (basic("slow", "wrong"), b"401 Unauthorized"),
        (basic("other", "right"), b"403 Forbidden"),
        (GET, b"401 Unauthorized"),
        (GET.replace(b"Host: h", b"Authorization: Basic !"), b"401 Unauthorized"),
        (GET.replace(b"Host: h", b"Authorization: Bearer abc"), b"401 Unauthorized"),
        (basic("prometheus", "right").replace(b"/metrics", b"/other"), b"404 Not Found"),
    ],
)
def test_a_user_who_may_describe_the_cluster_is_answered(
    head: bytes, status: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(listener: MemoryListener) -> None:
        answered = await ask_securely(listener, head)
        assert answered.split(b"\r\n")[0] == b"HTTP/1.1 " + status
        assert (b"\r\nWWW-Authenticate: Basic " in answered) == (status == b"401 Unauthorized")
        assert (b"a 1\n" in answered) == (status == b"200 OK")

    run_securely(scenario)
    assert ("refused a collector" in caplog.text) == (status[:2] == b"40" and status[:3] != b"404")
    assert "right" not in caplog.text.replace("the right password", "")
    assert "wrong" not in caplog.text


def test_a_certificate_is_enough() -> None:
    async def scenario(listener: MemoryListener) -> None:
        known = new_context(ssl.Purpose.SERVER_AUTH, name="collector")
        assert b"200 OK" in await ask_securely(listener, GET, known)
        assert b"401 Unauthorized" in await ask_securely(listener, GET)

    run_securely(scenario, client_auth=ssl.CERT_OPTIONAL)


def test_without_tls_nothing_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(listener: MemoryListener) -> None:
        assert b"a 1" not in await answer(listener.connect(), basic("prometheus", "right"))
        assert b"200 OK" in await ask_securely(listener, basic("prometheus", "right"))

    run_securely(scenario)
    assert "the client sent an HTTP request" in caplog.text


def test_half_open_peers_keep_no_collector_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_listener, "MAX_UNKNOWN_PEERS", 3)
    monkeypatch.setattr("headgate.gateway.network.admission.unauthenticated.MAX_DELAY_MS", 0)

    async def scenario(listener: MemoryListener) -> None:
        for _ in range(20):
            await listener.connect().send_all(b"\x16\x03\x01")
        assert b"200 OK" in await ask_securely(listener, basic("prometheus", "right"))

    run_securely(scenario)
