"""The application: the page's files, the session of a visitor, the resources below `/api/`, and the changes.

A resource's function runs in a thread and blocks there (`resource_table.py`, `visitors.py`).
"""

from __future__ import annotations

import json
import mimetypes
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console import protection
from headgate.tools.console.answers import JSON, StreamedAnswer, json_bytes, refusal_of
from headgate.tools.console.changes.change_routes import change_routes
from headgate.tools.console.cluster_access import ClusterAccess
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resource_table import RESOURCES, AnswerKind
from headgate.tools.console.visitors import Visitor, Visitors

PAGE: Final = Path(__file__).parent / "page"
for suffix in (".js", ".mjs"):  # the system's table may have another type, and browsers refuse it
    mimetypes.add_type("text/javascript", suffix)


def make_app(access: ClusterAccess, *, may_write: bool = False) -> tuple[ASGIApp, Visitors]:
    """The protected application, and the sessions of its visitors. `may_write`: visitors may change the cluster."""
    visitors = Visitors(access)
    sessions = _Sessions(visitors, may_write=may_write)
    routes = [
        Route("/api/session", sessions.show),
        Route("/api/login", sessions.log_in, methods=["POST"]),
        Route("/api/logout", sessions.log_out, methods=["POST"]),
        *change_routes(may_write=may_write),
        Route("/api/{name}", _resource),
        Mount("/", StaticFiles(directory=PAGE, html=True)),
    ]
    app = Starlette(routes=routes)
    return protection.Protection(app, visitors, (PAGE / "index.html").read_bytes()), visitors


def _answer(content: Any, status: int = 200) -> Response:
    return Response(json_bytes(content), status, media_type=JSON)


def _refuse(status: int, sentence: str) -> Response:
    return _answer({"error": sentence}, status)


class _Sessions:
    """The session: whether a login is needed, and login and logout."""

    def __init__(self, visitors: Visitors, *, may_write: bool) -> None:
        self._visitors = visitors
        self._may_write = may_write

    async def show(self, request: Request) -> Response:
        """The session of the visitor; a new visitor gets one."""
        visitor: Visitor | None = request.scope[protection.VISITOR]
        response = self._describe(visitor or (begun := self._visitors.begin()))
        if visitor is None:
            self._set_cookie(request, response, begun.session_id)
        return response

    def _describe(self, visitor: Visitor) -> Response:
        access = self._visitors.access
        return _answer(
            {
                "csrf_token": visitor.csrf_token,
                "needs_login": visitor.security is None,
                "user": None if visitor.login is None else visitor.login.user,
                "mechanisms": access.mechanisms,
                "bootstrap": access.bootstrap,
                "may_write": self._may_write,
                "version": version("headgate"),
            }
        )

    async def log_in(self, request: Request) -> Response:
        """Log in as a user of the cluster; a new session replaces the one before."""
        try:
            given = json.loads(await request.body())
            mechanism, user, password = (str(given[name]) for name in ("mechanism", "user", "password"))
        except (ValueError, KeyError, TypeError, RecursionError):
            return _refuse(400, "a login is JSON with mechanism, user and password")
        before: Visitor = request.scope[protection.VISITOR]
        visitor = self._visitors.begin()  # a session id from before the login is worth nothing after it
        try:
            await visitor.log_in(mechanism, user, password)
        except ClientError as error:
            self._visitors.end(visitor)
            return _refuse(403, str(error))
        self._visitors.end(before)
        response = self._describe(visitor)
        self._set_cookie(request, response, visitor.session_id)
        return response

    async def log_out(self, request: Request) -> Response:
        """End the session and its connections."""
        self._visitors.end(request.scope[protection.VISITOR])
        response = _answer({})
        self._set_cookie(request, response, "")
        return response

    @staticmethod
    def _set_cookie(request: Request, response: Response, session_id: str) -> None:
        is_secure = request.url.scheme == "https"
        name = protection.cookie_name(request.scope["server"][1], is_secure=is_secure)
        response.headers["set-cookie"] = protection.cookie_header(name, session_id, is_secure=is_secure)


# ----------------------------------------------------------------------------------------------------------- resources


async def _resource(request: Request) -> Response | StreamedAnswer:
    """The answer of a resource, or a sentence."""
    name, visitor = request.path_params["name"], request.scope[protection.VISITOR]
    resource = RESOURCES.get(name)
    if resource is None:
        return _refuse(404, f"there is no resource {name[:40]!r}")
    if visitor is None:
        return _refuse(401, "there is no session; load the page again")
    parameters = Parameters(request.query_params.multi_items())

    def ask(cluster: Cluster) -> Any:
        return resource.load()(cluster, parameters)

    if resource.kind is not AnswerKind.ANSWER:
        return StreamedAnswer(visitor, resource.kind, ask)
    try:
        return Response(await visitor.ask(lambda cluster: json_bytes(ask(cluster))), media_type=JSON)
    except Exception as error:  # noqa: BLE001 - a fault is logged there
        return _refuse(*refusal_of(error))
