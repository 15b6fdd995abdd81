"""The login of a link: before its first request, and again before the session ends."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from headgate.gateway.network.link_logins import MakeLogin
from headgate.gateway.network.links import REFUSED_BACKOFF_MS
from headgate.gateway.network.tests.link_conformance import SIMULATED, TABLE, Asked, Linked, Peer, Simulated, run
from headgate.gateway.runtime.broker_links import LinkLost
from headgate.protocol.client.connection import ClientConnection, Exchange
from headgate.protocol.client.tests.scripted_peer import respond
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from headgate.protocol.messages.metadata import MetadataRequest, MetadataResponse
from headgate.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from headgate.protocol.messages.sasl_handshake import SaslHandshakeResponse
from headgate.protocol.schema import Message
from headgate.protocol.security.sasl import login
from headgate.protocol.security.sasl.client_tokens import plain
from headgate.protocol.security.sasl.login import LoginSession
from headgate.protocol.security.secret import Secret

VERSIONS = ApiVersionsResponse(api_keys=[*TABLE.api_keys, ApiVersion(17, 0, 1), ApiVersion(36, 0, 2)])
WRONG = SaslAuthenticateResponse(
    error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="Authentication failed: Invalid password"
)


def log_in(peer: ClientConnection, _host: str) -> Exchange[LoginSession]:
    return (yield from login.log_in(peer, "PLAIN", plain("broker", Secret("hunter2"))))


def fail(_peer: ClientConnection, _host: str) -> Exchange[LoginSession]:
    raise ZeroDivisionError("ours")
    yield MetadataRequest(), 0


def with_login(kind: type[Simulated], make: MakeLogin = log_in) -> type[Simulated]:
    return type(f"LoggedIn{kind.__name__}", (kind,), {"make_login": staticmethod(make)})


logging_in = pytest.mark.parametrize("kind", [with_login(kind) for kind in SIMULATED])


class LoginPeer(Peer):
    """A broker that asks for a login; `seen` has the names of the requests that it was asked."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer.client)
        self.seen: list[str] = []

    async def reply(self, response: Message) -> None:
        def note(request: Message, _version: int) -> Message:
            self.seen.append(type(request).__name__.removesuffix("Request"))
            return response

        await self.client.send(respond(await self.request(), note))

    async def admit(self, session: SaslAuthenticateResponse | None = None) -> None:
        await self.reply(SaslHandshakeResponse(mechanisms=["PLAIN"]))
        await self.reply(session or SaslAuthenticateResponse())


async def begin(linked: Linked, session: SaslAuthenticateResponse | None = None) -> tuple[Asked, LoginPeer]:
    """A request that waits for the login, and the broker, which has answered the login."""
    asked, peer = linked.ask(), LoginPeer(await linked.accept())
    await peer.reply(VERSIONS)
    await peer.admit(session)
    return asked, peer


def answered(name: str) -> MetadataResponse:
    return MetadataResponse(cluster_id=name)


@logging_in
def test_a_link_logs_in_before_its_first_request(kind: Any) -> None:
    async def scenario(linked: Simulated) -> None:
        asked, peer = await begin(linked)
        await peer.reply(answered("c"))
        assert (await asked.result()).cluster_id == "c"
        assert peer.seen == ["ApiVersions", "SaslHandshake", "SaslAuthenticate", "Metadata"]
        await trio.sleep(5_000)
        assert not linked.kernel.opened[0].outgoing, "a session without an end is not renewed"

    run(kind, scenario)


@logging_in
def test_a_wrong_password_is_one_line_and_few_connections(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(linked: Simulated) -> None:
        refused_at: list[float] = []
        for number in range(3):
            if number == 2:  # another link to the same broker has a time of its own
                linked.link = linked.links.open(2, *linked.address(), "broker-1-markers")
            asked = linked.ask()
            await trio.sleep(REFUSED_BACKOFF_MS / 1000 if number == 1 else 0)
            peer = LoginPeer(await linked.accept())
            await peer.reply(VERSIONS)
            await peer.admit(WRONG)
            error = await asked.result()
            assert isinstance(error, LinkLost)
            assert "the broker refuses the login by PLAIN: Authentication failed: Invalid password" in str(error)
            assert linked.kernel.opened[number].is_closed
            refused_at.append(trio.current_time())
        waited_s = linked.kernel.opened[1].connected_at - refused_at[0]
        assert round(waited_s * 1000) == REFUSED_BACKOFF_MS

    run(kind, scenario)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "headgate.links"]
    assert line.startswith("this broker cannot connect to broker 2 at 127.0.0.1:9092: the broker refuses the login")
    assert "hunter2" not in caplog.text


@logging_in
def test_a_session_is_renewed_before_its_end_and_requests_wait(kind: Any) -> None:
    async def scenario(linked: Simulated) -> None:
        first, peer = await begin(linked, SaslAuthenticateResponse(session_lifetime_ms=10_000))
        begun = trio.current_time()
        await peer.reply(answered("first"))
        assert (await first.result()).cluster_id == "first"
        await trio.sleep(8)
        before = linked.ask()
        await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(1)
        meanwhile = linked.ask()
        await peer.reply(answered("before"))
        assert (await before.result()).cluster_id == "before"
        await peer.admit(SaslAuthenticateResponse(session_lifetime_ms=20_000))
        await peer.reply(answered("meanwhile"))
        assert (await meanwhile.result()).cluster_id == "meanwhile"
        renewal = ["SaslHandshake", "SaslAuthenticate"]
        assert peer.seen == ["ApiVersions", *renewal, "Metadata", "Metadata", *renewal, "Metadata"]
        await trio.sleep(17.1)
        await peer.admit()
        assert round(trio.current_time() - begun) == 26
        assert len(linked.kernel.opened) == 1

    run(kind, scenario)


@logging_in
def test_a_refused_renewal_ends_the_connection(kind: Any) -> None:
    async def scenario(linked: Simulated) -> None:
        first, peer = await begin(linked, SaslAuthenticateResponse(session_lifetime_ms=1_000))
        await peer.reply(answered("first"))
        await first.result()
        await trio.sleep(0.9)
        waiting = linked.ask()
        await peer.admit(WRONG)
        assert "Invalid password" in str(await waiting.result())
        assert linked.kernel.opened[0].is_closed

    run(kind, scenario)


@logging_in
@pytest.mark.parametrize("stage", ["versions", "handshake", "session"])
def test_a_connection_lost_in_the_login_begins_again(kind: Any, stage: str) -> None:
    async def scenario(linked: Simulated) -> None:
        asked, peer = linked.ask(), LoginPeer(await linked.accept())
        if stage != "versions":
            await peer.reply(VERSIONS)
        if stage == "session":
            await peer.admit(SaslAuthenticateResponse(session_lifetime_ms=1_000))
        await peer.client.close()
        assert isinstance(await asked.result(), LinkLost)
        await trio.sleep(5)
        again, peer = await begin(linked)
        await peer.reply(answered("again"))
        assert (await again.result()).cluster_id == "again"

    run(kind, scenario)


@logging_in
def test_a_step_in_a_thread_ends_with_its_link(kind: Any) -> None:
    async def scenario(linked: Simulated) -> None:
        asked, peer = linked.ask(), LoginPeer(await linked.accept())
        threads: Any = linked.scheduler.hold()  # type: ignore[attr-defined]
        await peer.reply(VERSIONS)
        await trio.testing.wait_all_tasks_blocked()
        linked.link.close()
        threads.run_all()
        assert "this broker has closed the link" in str(await asked.result())

    run(kind, scenario)


@pytest.mark.parametrize("kind", [with_login(kind, fail) for kind in SIMULATED])
def test_a_fault_in_a_login_loses_the_connection(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(linked: Simulated) -> None:
        asked, peer = linked.ask(), LoginPeer(await linked.accept())
        await peer.reply(VERSIONS)
        assert "this broker cannot log in" in str(await asked.result())

    run(kind, scenario)
    assert "a login to another broker failed unexpectedly" in caplog.text


@logging_in
def test_a_listener_without_logins_is_named(kind: Any) -> None:
    async def scenario(linked: Simulated) -> None:
        asked, peer = linked.ask(), LoginPeer(await linked.accept())
        await peer.reply(VERSIONS)
        await peer.reply(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
        assert "the broker asks for no login on this port" in str(await asked.result())

    run(kind, scenario)
