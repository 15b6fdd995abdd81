"""Requests to an application without a socket: `requests(app)` inside of trio."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import trio
from starlette.types import ASGIApp, Message

HOST = {"host": "127.0.0.1:9080"}


class Answer(NamedTuple):
    """An answer; names of headers are small letters."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Peer:
    """A browser: keeps the cookie, and sends the token."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str] = HOST, scheme: str = "http") -> None:
        self.app = app
        self.headers = dict(headers)
        self.scheme = scheme
        self.token = ""

    async def begin(self) -> Any:
        """Load the session."""
        answer = await self.ask("/api/session")
        if "set-cookie" in answer.headers:
            self.headers["cookie"] = answer.headers["set-cookie"].partition(";")[0]
        self.token = answer.json["csrf_token"]
        return answer.json

    async def post(self, path: str, content: Any = None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        body = json.dumps(content).encode()
        return await self.ask(path, "POST", {"x-headgate-csrf": self.token} | named, body)

    async def ask(
        self,
        path: str,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        is_whole: bool = True,
        leaves: bool = False,
    ) -> Answer:
        """Send a request, and wait for all of the answer. Without `is_whole` the body has no end.

        `leaves`: the browser disconnects after what it has sent.
        """
        given = {**self.headers, **(headers or {})}
        target, _, query = path.partition("?")
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": target,
            "raw_path": target.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "scheme": self.scheme,
            "server": ("127.0.0.1", 9080),
            "client": ("127.0.0.1", 50_000),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        }
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": not is_whole}]
        sent: list[Message] = []

        async def receive() -> Message:
            if messages:
                return messages.pop()
            if leaves:
                return {"type": "http.disconnect"}
            await trio.sleep_forever()
            raise AssertionError

        async def send(message: Message) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        headers_sent = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], headers_sent, b"".join(each.get("body", b"") for each in sent[1:]))
