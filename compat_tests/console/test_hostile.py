"""Pages of other sites, forged requests, and texts of clients that would be scripts: none gets anything."""

from __future__ import annotations

import http.client
import http.server
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import pytest
from playwright.sync_api import Browser, Page

from compat_tests.console.browser import FOREIGN_NAME, opened_page

SAFE_HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Answer(NamedTuple):
    """An answer as it came; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: str


def ask(
    address: str, path: str, method: str = "GET", body: str = "", headers: Mapping[str, str] | None = None
) -> Answer:
    """Send a request with exactly these headers."""
    connection = http.client.HTTPConnection(address.partition("://")[2], timeout=30)
    try:
        given = {"Content-Length": str(len(body)), **(headers or {})} if body else dict(headers or {})
        connection.putrequest(method, path, skip_host="Host" in given, skip_accept_encoding=True)
        for name, value in given.items():
            connection.putheader(name, value)
        connection.endheaders(body.encode() or None)
        response = connection.getresponse()
        return Answer(
            response.status, {name.lower(): value for name, value in response.getheaders()}, response.read().decode()
        )
    finally:
        connection.close()


class Session(NamedTuple):
    """A visitor without a browser."""

    cookie: str
    token: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Cookie": self.cookie, "X-Headgate-CSRF": self.token}


def begin_session(address: str) -> Session:
    answer = ask(address, "/api/session")
    return Session(answer.headers["set-cookie"].partition(";")[0], json.loads(answer.body)["csrf_token"])


def authority(address: str) -> str:
    return address.partition("://")[2]


# ------------------------------------------------------------------------------------------------------------- requests


@pytest.mark.parametrize("host", [FOREIGN_NAME, "127.0.0.1.nip.example", "", "localhost.example:80"])
def test_a_foreign_host_gets_nothing(console_address: str, host: str) -> None:
    for path in ("/", "/app.js", "/api/session", "/api/brokers"):
        answer = ask(console_address, path, headers={"Host": host})
        assert answer.status == 421, path
        assert "set-cookie" not in answer.headers


def test_other_origins_get_nothing(console_address: str) -> None:
    session = begin_session(console_address)
    own = f"http://{authority(console_address)}"
    for headers, status in (
        ({"Origin": own}, 200),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": f"https://{FOREIGN_NAME}"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ):
        answer = ask(console_address, "/api/brokers", headers={"Cookie": session.cookie, **headers})
        assert answer.status == status, headers


def test_a_change_needs_the_token_of_its_own_session(console_address: str) -> None:
    session, other = begin_session(console_address), begin_session(console_address)
    for headers in (
        {},
        {"Cookie": session.cookie},
        {"X-Headgate-CSRF": session.token},
        {"Cookie": session.cookie, "X-Headgate-CSRF": other.token},
        {"Cookie": session.cookie, "X-Headgate-CSRF": ""},
        {"Cookie": session.cookie, "X-Headgate-CSRF": session.token[:-1]},
    ):
        assert ask(console_address, "/api/logout", "POST", "{}", headers).status == 403, headers
    assert ask(console_address, "/api/logout", "POST", "{}", session.headers).status == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
def test_other_methods_change_nothing(console_address: str, method: str) -> None:
    session = begin_session(console_address)
    for path in ("/", "/api/brokers", "/api/logout"):
        assert ask(console_address, path, method, headers=session.headers).status in {403, 404, 405}, path


def test_a_session_ends_with_its_logout(console_address: str) -> None:
    """A cookie that another kept is worth nothing then; nor is one that somebody has made up."""
    session = begin_session(console_address)
    cookie = {"Cookie": session.cookie}
    assert ask(console_address, "/api/brokers", headers=cookie).status == 200
    assert ask(console_address, "/api/logout", "POST", "{}", session.headers).status == 200
    name = session.cookie.partition("=")[0]
    for kept in (session.cookie, f"{name}=", f"{name}={'A' * 43}", f"{name}={'x' * 4000}"):
        assert ask(console_address, "/api/brokers", headers={"Cookie": kept}).status == 401


def test_the_cookie_is_for_the_browser_alone(console_address: str) -> None:
    cookie = ask(console_address, "/api/session").headers["set-cookie"]
    assert {"httponly", "samesite=strict", "path=/"} <= {part.strip().lower() for part in cookie.split(";")}


def test_every_answer_has_safe_headers(console_address: str) -> None:
    session = begin_session(console_address)
    for path, headers in (
        ("/", {}),
        ("/app.js", {}),
        ("/nowhere", {}),
        ("/api/session", {}),
        ("/api/brokers", {"Cookie": session.cookie}),
        ("/api/nowhere", {"Cookie": session.cookie}),
        ("/api/brokers", {"Host": FOREIGN_NAME}),
    ):
        answer = ask(console_address, path, headers=headers)
        assert {name: answer.headers.get(name) for name in SAFE_HEADERS} == SAFE_HEADERS, path
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        if path.startswith("/api/"):
            assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path",
    [
        "/../app.py",
        "/%2e%2e/app.py",
        "/..%2fapp.py",
        "//etc/passwd",
        "/vendor/../../app.py",
        "/vendor/%2e%2e/%2e%2e/__init__.py",
        "/\\..\\app.py",
        "/app.js%00.html",
    ],
)
def test_paths_stay_within_the_page(console_address: str, path: str) -> None:
    answer = ask(console_address, path)
    assert answer.status in {400, 404}
    assert "import" not in answer.body


def test_large_and_broken_requests_are_refused(console_address: str) -> None:
    session = begin_session(console_address)
    assert ask(console_address, "/api/login", "POST", "x" * 70_000, session.headers).status == 413
    for body in ("", "[]", "[" * 60_000, '{"mechanism": 1}', "\x00"):
        assert ask(console_address, "/api/login", "POST", body or " ", session.headers).status in {400, 403}
    many = "&".join(f"topic=t{number}" for number in range(4_000))
    assert ask(console_address, f"/api/topic_figures?{many}", headers={"Cookie": session.cookie}).status == 400
    assert ask(console_address, "/api/brokers", headers={"Cookie": session.cookie}).status == 200


# ---------------------------------------------------------------------------------------------------------- other sites


class _EvilPage(http.server.BaseHTTPRequestHandler):
    """Another site's page: frames the console, loads its answers as scripts and images, and sends it forms."""

    def do_GET(self) -> None:
        target = self.server.target  # type: ignore[attr-defined]
        body = f"""<!doctype html><title>evil</title>
          <iframe src="{target}/"></iframe><script src="{target}/api/brokers"></script><img src="{target}/icon.svg">
          <form id="form" method="post" action="{target}/api/logout" enctype="text/plain" target="sink">
          <input name="{{" value="}}"></form><iframe name="sink"></iframe>""".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@contextmanager
def evil_site(target: str) -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _EvilPage)
    server.target = target  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_another_sites_page_reads_and_changes_nothing(browser: Browser, console_address: str) -> None:
    """From another port of this address, and from another name of it."""
    with evil_site(console_address) as port, opened_page(browser, is_strict=False) as page:
        page.goto(f"{console_address}/#/brokers")
        page.get_by_role("grid").wait_for()
        cookies = page.context.cookies(console_address)
        for host in ("127.0.0.1", "localhost", FOREIGN_NAME):
            statuses = visit_evil(page, f"http://{host}:{port}/", console_address)
            assert statuses == {"read": "refused", "post": "refused"}, host
        assert page.context.cookies(console_address) == cookies != []


def visit_evil(page: Page, address: str, target: str) -> dict[str, Any]:
    """What a script there gets from the console. The console is in none of the frames."""
    page.goto(address)
    assert [frame for frame in page.frames if frame.url.startswith(target) and frame.query_selector("main")] == []
    script = """async (target) => {
        const attempt = async (path, options) => {
            try { return (await fetch(target + path, {credentials: "include", ...options})).status; }
            catch { return "refused"; }
        };
        document.querySelector("#form").submit();
        return {
            read: await attempt("/api/brokers", {}),
            post: await attempt("/api/logout", {method: "POST", body: "{}", headers: {"X-Headgate-CSRF": "x"}}),
        };
    }"""
    found: dict[str, Any] = page.evaluate(script, target)
    return found


def test_a_name_that_is_bound_to_this_machine_gets_nothing(browser: Browser, console_address: str) -> None:
    """DNS rebinding: the browser believes that the console is the foreign site itself."""
    with opened_page(browser, is_strict=False) as page:
        answer = page.goto(f"http://{FOREIGN_NAME}:{authority(console_address).rpartition(':')[2]}/")
        assert answer is not None
        assert answer.status == 421
        assert page.context.cookies() == []
