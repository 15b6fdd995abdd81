"""The two steps of a change: plan, which only reads, and apply, which makes the change of the plan that was shown.

| status | of apply |
|---|---|
| 200 | the change was made, or parts of it: `done` and `failures` |
| 403 | the console only reads |
| 409 | the plan is another one by now; the answer has it as `plan`, and nothing was changed |
| 400 | a parameter is wrong, the plan has problems, or the name to confirm is missing |
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.answers import JSON, json_bytes, refusal_of
from headgate.tools.console.changes.change_table import CHANGES
from headgate.tools.console.changes.plan import ChangePlan
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.console.protection import VISITOR
from headgate.tools.console.visitors import Visitor
from headgate.tools.output import printable

READS_ONLY: Final = (
    "the console only reads; headgate.console.write=true or `headgate console --write` lets visitors change"
)
CHANGED: Final = "nothing is changed: the cluster differs from the preview that was shown; this is the new one"
MOST_TEXTS: Final = 20_000
"""Of the parameters of a change: as many stay in memory while the change waits for its turn."""
MOST_LOGGED: Final = 1_000
"""Characters of a line of the log."""
_BAD_BODY: Final = 'a change is JSON, as in {"parameters": {"topic": ["orders"]}, "digest": "..."}'

logger = logging.getLogger("headgate.console.changes")


class ChangeRequest(NamedTuple):
    """The body of a request; `digest` and `confirmation` are of the step apply."""

    parameters: Parameters
    digest: str
    confirmation: str

    @classmethod
    def parse(cls, body: bytes) -> ChangeRequest:
        """Raises BadParameter."""
        try:
            given = json.loads(body)
            pairs = [
                (str(name), value)
                for name, values in given.get("parameters", {}).items()
                for value in (values if isinstance(values, list) else [values])
            ]
            digest, confirmation = given.get("digest", ""), given.get("confirmation", "")
        except (ValueError, AttributeError, RecursionError):
            raise BadParameter(_BAD_BODY) from None
        if not all(isinstance(each, str) for each in (digest, confirmation, *(value for _, value in pairs))):
            raise BadParameter(_BAD_BODY)
        if len(pairs) > MOST_TEXTS:
            raise BadParameter(f"a change has at most {MOST_TEXTS} values of parameters, and this one has {len(pairs)}")
        for name, value in pairs:
            _check_characters(name, value)
        return cls(Parameters(pairs), digest, confirmation)


def _check_characters(name: str, value: str) -> None:
    """Raises BadParameter for a lone surrogate: JSON may have one, and Kafka's texts are UTF-8."""
    try:
        f"{name}{value}".encode()
    except UnicodeEncodeError:
        shown = name.encode(errors="replace").decode()
        raise BadParameter(f"the parameter {shown[:40]} has half of a character") from None


def change_routes(*, may_write: bool) -> list[Route]:
    """The routes of both steps; without `may_write` both are refused."""
    changes = _Changes(may_write=may_write)
    return [
        Route("/api/changes/{name}/plan", changes.plan, methods=["POST"]),
        Route("/api/changes/{name}/apply", changes.apply, methods=["POST"]),
    ]


def _answer(content: Any, status: int = 200) -> Response:
    return Response(json_bytes(content), status, media_type=JSON)


def _refuse(status: int, sentence: str) -> Response:
    return _answer({"error": sentence}, status)


_Step = Callable[[Visitor, str, ChangeRequest], Awaitable[Response]]


class _Changes:
    def __init__(self, *, may_write: bool) -> None:
        self._may_write = may_write

    async def plan(self, request: Request) -> Response:
        """Answer with what the change would do."""
        return await self._run(request, _planned)

    async def apply(self, request: Request) -> Response:
        """Make the change, if its plan is the one that was shown."""
        return await self._run(request, _applied)

    async def _run(self, request: Request, step: _Step) -> Response:
        name, visitor = request.path_params["name"], request.scope[VISITOR]
        if not self._may_write:
            return _refuse(403, READS_ONLY)
        if name not in CHANGES:
            return _refuse(404, f"there is no change {name[:40]!r}")
        try:
            return await step(visitor, name, ChangeRequest.parse(await request.body()))
        except Exception as error:  # noqa: BLE001 - a fault is logged there
            return _refuse(*refusal_of(error))


async def _planned(visitor: Visitor, name: str, given: ChangeRequest) -> Response:
    return _answer(await visitor.ask(lambda cluster: CHANGES[name].load()(cluster, given.parameters).answer()))


async def _applied(visitor: Visitor, name: str, given: ChangeRequest) -> Response:
    user = "a visitor without login" if visitor.login is None else visitor.login.user

    def apply(cluster: Cluster) -> Response:
        plan = CHANGES[name].load()(cluster, given.parameters)
        shown = plan.answer()
        if shown["digest"] != given.digest:
            return _answer({"error": CHANGED, "plan": shown}, 409)
        if shown["problems"]:
            return _refuse(400, shown["problems"][0])
        if given.confirmation != plan.confirmation:
            return _refuse(400, f"type {plan.confirmation} to confirm the change")
        try:
            result = plan.apply(cluster)
        except Exception as error:
            reason = str(error) if isinstance(error, ClientError) else type(error).__name__  # a fault may name a secret
            _log(user, plan, f"; failed, parts may be done: {reason}")
            raise
        _log(user, plan, f"; {len(result.failures)} parts failed: {result.failures[0]}" if result.failures else "")
        return _answer(result.answer())

    return await visitor.ask(apply)


def _log(user: str, plan: ChangePlan, failed: str) -> None:
    """A line for the change; a long summary leaves room for its failure."""
    summary, half = printable(f"{user}: {plan.summary}"), MOST_LOGGED // 2
    logger.info("%s%s", _shortened(summary, half), _shortened(printable(failed), half))


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
