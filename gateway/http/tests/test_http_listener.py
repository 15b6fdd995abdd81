"""The HTTP listener, and what a peer may take of it."""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

import pytest
import trio
import trio.testing

from headgate.gateway.api.context import Client
from headgate.gateway.http import exchange, http_listener, json_body
from headgate.gateway.http.access import HttpAccess
from headgate.gateway.http.exchange import HEAD_BYTES
from headgate.gateway.http.http_listener import BLOCK_BYTES, MAX_PEERS, HttpListener, Security
from headgate.gateway.http.resources import TEXT, HttpAnswer, HttpResource, HttpResources
from headgate.gateway.network.tls.tests.fake_listener import HOST, client_context, new_context
from headgate.gateway.runtime.scheduler import TrioClock
from headgate.gateway.tests.harness import MemoryListener
from headgate.protocol.acls import AclOperation, AclResource

GET = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
# Imported here, so that no thread of the listener imports it while a clock jumps
IMPORTED = (exchange, json_body)


def resources_of(body: Callable[[], Iterator[bytes]]) -> HttpResources:
    resources = HttpResources()
    resources.add("/metrics", HttpResource("metrics", lambda: HttpAnswer(TEXT, body())))
    resources.add("/v1/a.json", HttpResource("a", lambda: json_body.answer({"a": 1}, 503)))
    return resources


def two_metrics() -> Iterator[bytes]:
    yield from (b"a 1\n", b"", b"b 2\n")


def run(
    scenario: Callable[[MemoryListener], Awaitable[None]], body: Callable[[], Iterator[bytes]] = two_metrics
) -> None:
    async def main() -> None:
        listener = MemoryListener()
        served = HttpListener(resources_of(body))
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


async def until_broken(stream: trio.abc.Stream, first: bytes, pause_s: float) -> None:
    """Send until the listener has closed the connection."""
    with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await stream.send_all(first)
        for _ in range(1_000):
            await trio.sleep(pause_s)
            await stream.send_all(b"x" * 10_000)
        pytest.fail("the listener never closed the connection")


def test_a_get_is_answered_from_the_table() -> None:
    async def scenario(listener: MemoryListener) -> None:
        for parts in ([GET], [bytes([one]) for one in GET]):
            head, _, body = (await answer(listener.connect(), *parts)).partition(b"\r\n\r\n")
            assert head.split(b"\r\n")[0] == b"HTTP/1.1 200 OK"
            assert b"Content-Length: 8" in head
            assert body == b"a 1\nb 2\n"

    run(scenario)


def test_an_answer_has_its_own_status_and_type() -> None:
    async def scenario(listener: MemoryListener) -> None:
        head, _, body = (await answer(listener.connect(), GET.replace(b"/metrics", b"/v1/a.json"))).partition(
            b"\r\n\r\n"
        )
        assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n")
        assert json.loads(body) == {"a": 1}

    run(scenario)


def test_head_is_answered_without_the_work() -> None:
    def body() -> Iterator[bytes]:
        yield b"".join(pytest.fail("the body is made"))

    async def scenario(listener: MemoryListener) -> None:
        head, _, rest = (await answer(listener.connect(), GET.replace(b"GET", b"HEAD"))).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK")
        assert rest == b""

    run(scenario, body)


@pytest.mark.parametrize(
    "sent, status, body",
    [
        (GET.replace(b"GET", b"POST"), b"405", b"POST is not served here, GET and HEAD are\n"),
        (GET.replace(b"/metrics", b"/etc/passwd"), b"404", b"there is nothing at /etc/passwd; the list of what is"),
        (GET.replace(b"/metrics", b"/v1/x"), b"404", b'{"error": "there is nothing at /v1/x; the list'),
        (GET.replace(b"/metrics", b"/metrics?name=a"), b"200", b"a 1\n"),
        (GET.replace(b"127.0.0.1", b"evil.example"), b"421", b"the header Host has to be localhost or an address"),
        (b"GET /metrics SPDY/1\r\n\r\n", b"400", b"this is no request of HTTP/1.1"),
        (b"\x16\x03\x01\r\n\r\n", b"400", b"this listener speaks HTTP without TLS"),
        (b"GET /" + b"a" * HEAD_BYTES, b"431", b"the head of a request has at most 8192 bytes\n"),
    ],
)
def test_anything_else_is_refused(sent: bytes, status: bytes, body: bytes) -> None:
    async def scenario(listener: MemoryListener) -> None:
        head, _, rest = (await answer(listener.connect(), sent)).partition(b"\r\n\r\n")
        assert head.split()[1] == status
        assert rest.startswith(body)

    run(scenario)


def test_a_refused_peer_may_end_what_it_sends() -> None:
    """Bytes that nobody reads would have the system reset the connection, and drop the response."""

    async def scenario(listener: MemoryListener) -> None:
        stream = listener.connect()
        await stream.send_all(GET.replace(b"GET", b"POST"))
        received = await stream.receive_some()
        assert b"405" in received
        for _ in range(3):
            await stream.send_all(b"x" * 10_000)
        began = trio.current_time()
        await until_broken(listener.connect(), GET.replace(b"GET", b"POST"), 0.01)
        assert trio.current_time() - began <= http_listener.LINGER_S

    run(scenario)


def test_a_head_has_five_seconds() -> None:
    async def scenario(listener: MemoryListener) -> None:
        began = trio.current_time()
        text = await answer(listener.connect(), b"GET /")
        assert text.split()[1] == b"408"
        assert text.endswith(b"did not end in time; send it at once, and ask again\n")
        assert trio.current_time() - began == pytest.approx(http_listener.HEAD_S, abs=http_listener.LINGER_S)

    run(scenario)


def test_peers_that_say_nothing_keep_others_waiting_for_seconds_only() -> None:
    async def scenario(listener: MemoryListener) -> None:
        silent = [listener.connect() for _ in range(MAX_PEERS)]
        await trio.testing.wait_all_tasks_blocked()
        assert b"200 OK" in await answer(listener.connect(), GET)
        assert trio.current_time() >= http_listener.HEAD_S
        assert silent

    run(scenario)


def test_one_fewer_silent_peers_keep_nobody_waiting() -> None:
    async def scenario(listener: MemoryListener) -> None:
        silent = [listener.connect() for _ in range(MAX_PEERS - 1)]
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        assert b"200 OK" in await answer(listener.connect(), GET)
        assert trio.current_time() == began
        assert silent

    run(scenario)


def test_a_peer_that_hangs_up_ends_itself_only() -> None:
    async def scenario(listener: MemoryListener) -> None:
        gone = listener.connect()
        await gone.aclose()
        assert b"200 OK" in await answer(listener.connect(), GET)

    run(scenario)


def test_a_fault_in_a_resource_ends_its_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    def body() -> Iterator[bytes]:
        yield b"a 1\n"
        raise ZeroDivisionError

    async def scenario(listener: MemoryListener) -> None:
        assert b"500 Internal Server Error" in await answer(listener.connect(), GET)
        assert b"200 OK" in await answer(listener.connect(), GET.replace(b"/metrics", b"/"))

    run(scenario, body)
    assert "cannot answer GET /metrics" in caplog.text


def test_a_large_body_is_sent_while_it_is_made() -> None:
    """A peer that reads slowly holds a block, not the whole body, and is cut off in the end."""
    made = []

    def body() -> Iterator[bytes]:
        for number in range(1_000):
            made.append(number)
            yield b"x" * 1_024

    async def scenario(listener: MemoryListener) -> None:
        text = await answer(listener.connect(), GET)
        head, _, chunks = text.partition(b"\r\n\r\n")
        assert b"Transfer-Encoding: chunked" in head
        assert chunks.count(b"x") == 1_000 * 1_024
        assert chunks.endswith(b"\r\n0\r\n\r\n")
        made.clear()
        ours, theirs = trio.testing.lockstep_stream_pair()
        listener.return_to_backlog(theirs)
        await ours.send_all(GET)
        await trio.testing.wait_all_tasks_blocked()
        assert len(made) == BLOCK_BYTES // 1_024
        await until_broken(ours, b"x", http_listener.ANSWER_S)

    run(scenario, body)


def test_a_fault_behind_the_first_block_cuts_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    def body() -> Iterator[bytes]:
        yield b"x" * BLOCK_BYTES
        raise ZeroDivisionError

    async def scenario(listener: MemoryListener) -> None:
        text = await answer(listener.connect(), GET)
        assert b"200 OK" in text
        assert not text.endswith(b"0\r\n\r\n"), "a collector must not take a part for the whole"

    run(scenario, body)
    assert "cannot answer GET /metrics" in caplog.text


def test_others_have_turns_between_two_slices() -> None:
    turns = []

    def body() -> Iterator[bytes]:
        for number in range(5):
            turns.append(number)
            yield b"x"

    async def main() -> None:
        listener = MemoryListener()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(HttpListener(resources_of(body)).serve, [listener])
            stream = listener.connect()
            await stream.send_all(GET)
            seen = set()
            while len(turns) < 5:
                seen.add(len(turns))
                await trio.lowlevel.checkpoint()
            assert len(seen) > 2
            nursery.cancel_scope.cancel()

    trio.run(main)


LAZY = """
import importlib, sys, threading, trio, trio.testing
from headgate.gateway.http import http_listener
from headgate.gateway.http.http_listener import HttpListener
from headgate.gateway.http.resources import TEXT, HttpAnswer, HttpResource, HttpResources
from headgate.gateway.tests.harness import MemoryListener

async def main():
    heavy = {"h11", "prometheus_client", "headgate.gateway.http.json_body", "headgate.gateway.http.health"}
    for name in [name for name in sys.modules if name.partition(".")[0] in heavy or name in heavy]:
        del sys.modules[name]
    in_threads = set()

    def import_module(name):
        if threading.current_thread() is not threading.main_thread():
            in_threads.add(name)
        return importlib.import_module(name)

    http_listener.import_module = import_module
    sys.modules.pop("headgate.gateway.http.exchange", None)
    listener, resources = MemoryListener(), HttpResources()
    resources.add("/a", HttpResource("a", lambda: HttpAnswer(TEXT, [b"a"]), ("prometheus_client",)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(HttpListener(resources).serve, [listener])
        await trio.testing.wait_all_tasks_blocked()
        assert not heavy & set(sys.modules), heavy & set(sys.modules)
        stream = listener.connect()
        await stream.send_all(b"GET /a HTTP/1.0\\r\\n\\r\\n")
        while await stream.receive_some():
            pass
        assert {"h11", "prometheus_client"} <= set(sys.modules)
        assert {"headgate.gateway.http.exchange", "prometheus_client"} <= in_threads, in_threads
        nursery.cancel_scope.cancel()

trio.run(main)
"""


@pytest.mark.sockets
@pytest.mark.slow
def test_the_first_peer_has_the_modules_imported() -> None:
    done = subprocess.run([sys.executable, "-c", LAZY], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# Over TLS


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
        access = HttpAccess(NamedTls(context), SlowUsers(), DescribingUsers(), 100)  # type: ignore[arg-type]
        served = HttpListener(resources_of(lambda: iter([b"a 1\n"])), Security(access, TrioClock()))
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
    return GET.replace(b"\r\n\r\n", b"\r\nauthorization:  basic " + token + b"\r\n\r\n")


@pytest.mark.parametrize(
    "head, status",
    [
        (basic("prometheus", "right"), b"200 OK"),
        (basic("prometheus", "wrong"), b"401 Unauthorized"),
        (basic("slow", "right"), b"403 Forbidden"),
        (basic("slow", "wrong"), b"401 Unauthorized"),
        (basic("other", "right"), b"403 Forbidden"),
        (GET, b"401 Unauthorized"),
        (GET.replace(b"Host:", b"Authorization: Basic !\r\nHost:"), b"401 Unauthorized"),
        (GET.replace(b"Host:", b"Authorization: Bearer abc\r\nHost:"), b"401 Unauthorized"),
        (b"\0\r\n\r\n", b"400 Bad Request"),
        (GET.replace(b"GET", b"POST"), b"405 Method Not Allowed"),
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
    assert ("refused an HTTP request" in caplog.text) == (status[:3] in {b"401", b"403"})
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
        text = await answer(listener.connect(), basic("prometheus", "right"))
        assert text.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert text.endswith(b"write https:// in place of http://\n")
        assert b"400" not in await answer(listener.connect(), b"\0\0\0\x20\0\x12\0\3" + bytes(28))
        assert b"200 OK" in await ask_securely(listener, basic("prometheus", "right"))

    run_securely(scenario)
    assert "this listener speaks HTTP over TLS; write https:// in place of http://" in caplog.text
    assert "the TLS handshake failed" in caplog.text


def test_half_open_peers_keep_no_collector_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_listener, "MAX_UNKNOWN_PEERS", 3)
    monkeypatch.setattr("headgate.gateway.network.admission.unauthenticated.MAX_DELAY_MS", 0)

    async def scenario(listener: MemoryListener) -> None:
        for _ in range(20):
            await listener.connect().send_all(b"\x16\x03\x01")
        assert b"200 OK" in await ask_securely(listener, basic("prometheus", "right"))

    run_securely(scenario)
