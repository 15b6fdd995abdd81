"""What a page of another site gets, and what every answer forbids."""

from __future__ import annotations

import base64
import hashlib
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from headgate.tools.console import protection
from headgate.tools.console.app import PAGE, make_app
from headgate.tools.console.changes.change_routes import READS_ONLY
from headgate.tools.console.cluster_access import ClusterAccess
from headgate.tools.console.protection import (
    BUSY,
    FOREIGN_HOST,
    FOREIGN_SITE,
    LARGE_CHANGE,
    TOO_LARGE,
    RefusedRequest,
    refusal_of,
)
from headgate.tools.console.tests.asgi import Peer

OURS = {b"host": b"127.0.0.1:9080"}
API = "/api/brokers"
CHANGE = "/api/changes/produce/plan"


@pytest.fixture
def peer() -> Peer:
    app, _ = make_app(ClusterAccess("127.0.0.1:9092", {}, is_loopback=True))
    return Peer(app)


@pytest.mark.parametrize(
    "method, path, headers, refusal",
    [
        ("GET", "/", OURS, None),
        ("GET", API, OURS, None),
        ("GET", "/", {b"host": b"evil.example:9080"}, FOREIGN_HOST),
        ("GET", API, {b"host": b"evil.example"}, FOREIGN_HOST),
        ("GET", "/", OURS | {b"sec-fetch-site": b"cross-site"}, None),
        ("GET", API, OURS | {b"sec-fetch-site": b"cross-site"}, FOREIGN_SITE),
        ("GET", API, OURS | {b"sec-fetch-site": b"same-site"}, FOREIGN_SITE),
        ("GET", API, OURS | {b"sec-fetch-site": b"same-origin"}, None),
        ("GET", API, OURS | {b"origin": b"http://127.0.0.1:8000"}, FOREIGN_SITE),
        ("POST", API, OURS | {b"origin": b"http://127.0.0.1:9080"}, None),
        ("POST", "/", OURS | {b"origin": b"null"}, FOREIGN_SITE),
        ("POST", API, OURS | {b"content-length": b"65537"}, TOO_LARGE),
        ("POST", API, OURS | {b"content-length": b"x"}, TOO_LARGE),
        ("POST", API, OURS | {b"content-length": b"9" * 5000}, TOO_LARGE),
        ("POST", CHANGE, OURS | {b"content-length": b"65537"}, None),
        ("POST", CHANGE, OURS | {b"content-length": b"2097153"}, LARGE_CHANGE),
    ],
)
def test_the_head_of_a_request_decides(
    method: str, path: str, headers: dict[bytes, bytes], refusal: RefusedRequest | None
) -> None:
    assert refusal_of(method, path, headers, is_secure=False) == refusal


def test_over_tls_the_certificate_names_the_host() -> None:
    assert refusal_of("GET", API, {b"host": b"console.example"}, is_secure=True) is None


def test_a_foreign_host_gets_421(peer: Peer) -> None:
    async def run() -> None:
        answer = await peer.ask("/", headers={"host": "evil.example"})
        assert (answer.status, answer.json) == (421, {"error": FOREIGN_HOST.sentence})
        assert "set-cookie" not in answer.headers

    trio.run(run)


@pytest.mark.parametrize("path", ["/api/logout", "/api/login", "/api/brokers", "/index.html"])
def test_a_change_needs_cookie_and_token(peer: Peer, path: str) -> None:
    async def run() -> None:
        assert (await peer.post(path)).status == 403
        await peer.begin()
        assert (await peer.post(path, x_headgate_csrf="")).status == 403
        assert (await peer.post(path, x_headgate_csrf="wrong")).status == 403
        assert (await peer.post(path, cookie="headgate_console_9080=other")).status == 403
        assert (await peer.post(path)).status != 403

    trio.run(run)


def test_a_large_body_is_refused_whatever_its_head_says(peer: Peer) -> None:
    async def run() -> None:
        await peer.begin()
        answer = await peer.post("/api/logout", "x" * protection.BODY_BYTES)
        assert answer.status == 413

    trio.run(run)


def test_a_change_is_larger_than_other_requests_after_its_token(peer: Peer) -> None:
    async def run() -> None:
        large, too_large = "x" * protection.BODY_BYTES, "x" * protection.CHANGE_BYTES
        assert (await peer.post(CHANGE, too_large)).json == {"error": protection.NO_TOKEN.sentence}
        await peer.begin()
        assert (await peer.post(CHANGE, large)).json == {"error": READS_ONLY}
        answer = await peer.post(CHANGE, too_large)
        assert (answer.status, answer.json) == (413, {"error": LARGE_CHANGE.sentence})

    trio.run(run)


def test_the_bodies_of_changes_in_memory_are_bounded(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protection, "MOST_CHANGES", 2)

    async def run() -> None:
        await peer.begin()
        headers = {"x-headgate-csrf": peer.token}
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(partial(peer.ask, CHANGE, "POST", headers, b"{", is_whole=False))
            await trio.testing.wait_all_tasks_blocked()
            assert (await peer.post(CHANGE, {})).json == {"error": BUSY.sentence}
            assert (await peer.post("/api/logout", {})).status == 200
        await peer.begin()
        assert (await peer.post(CHANGE, {})).json == {"error": READS_ONLY}, "the slow ones are over"

    trio.run(run, clock=MockClock(autojump_threshold=1))


def test_the_body_of_a_change_is_read_after_the_login() -> None:
    properties = {"security.protocol": "SASL_SSL"}
    peer = Peer(make_app(ClusterAccess("127.0.0.1:9092", properties, is_loopback=True), may_write=True)[0])

    async def run() -> None:
        await peer.begin()
        answer = await peer.ask(CHANGE, "POST", {"x-headgate-csrf": peer.token}, b"{", is_whole=False)
        assert (answer.status, answer.json) == (401, {"error": protection.NO_LOGIN.sentence})

    trio.run(run)


def test_a_body_without_an_end_is_refused(peer: Peer) -> None:
    async def run() -> None:
        await peer.begin()
        headers = {"x-headgate-csrf": peer.token}
        answer = await peer.ask("/api/logout", "POST", headers, b"{", is_whole=False)
        assert answer.status == 408

    trio.run(run, clock=MockClock(autojump_threshold=0))


def test_a_body_that_is_cut_is_not_taken_for_the_whole(peer: Peer) -> None:
    async def run() -> None:
        await peer.begin()
        headers = {"x-headgate-csrf": peer.token}
        answer = await peer.ask("/api/logout", "POST", headers, b"{}", is_whole=False, leaves=True)
        assert answer.status == 400

    trio.run(run)


def test_every_answer_has_the_policy(peer: Peer) -> None:
    async def run() -> None:
        for path in ("/", "/app.js", "/nowhere", "/api/session", "/api/nowhere"):
            headers = (await peer.ask(path)).headers
            assert "script-src 'self' 'sha256-" in headers["content-security-policy"]
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cache-control"] == ("no-store" if path.startswith("/api/") else "no-cache")

    trio.run(run)


def test_the_import_map_is_the_only_inline_script() -> None:
    page = (PAGE / "index.html").read_bytes()
    inline = page.partition(b'<script type="importmap">')[2].partition(b"</script>")[0]
    digest = base64.b64encode(hashlib.sha256(inline).digest()).decode()
    assert f"script-src 'self' 'sha256-{digest}';" in protection.content_policy(page)
    assert page.count(b"<script") == 2


def test_cookies_are_strict_and_of_one_port() -> None:
    plain, secure = (protection.cookie_name(9080, is_secure=is_secure) for is_secure in (False, True))
    assert (plain, secure) == ("headgate_console_9080", "__Host-headgate_console_9080")
    header = protection.cookie_header(secure, "abc", is_secure=True)
    assert header == f"{secure}=abc; Path=/; HttpOnly; SameSite=Strict; Secure"
    assert protection.cookie_header(plain, "", is_secure=False).endswith("; Max-Age=0")
    assert protection.session_id_of({b"cookie": b"a=1; headgate_console_9080=xyz"}, plain) == "xyz"
    assert protection.session_id_of({}, plain) is None
