"""The login of one connection of a link (SASL), and each renewal of its session (KIP-368).

The exchange is that of every client (`protocol/security/sasl/login.py`). A thread does each of its steps: a step may
compute thousands of digests, or ask a KDC.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from headgate.gateway.runtime.scheduler import Scheduler
from headgate.protocol.client.connection import ClientConnection, Exchange
from headgate.protocol.schema import Message
from headgate.protocol.security.sasl.client_tokens import LoginFailed
from headgate.protocol.security.sasl.login import LoginSession

logger = logging.getLogger("headgate.links")

MakeLogin: TypeAlias = Callable[[ClientConnection, str], Exchange[LoginSession]]
"""(connection, host) -> a login with the present settings, which has not begun."""


class _NextRequest(NamedTuple):
    request: Message
    version: int | None


class LinkLogin:
    """One login. `send` gets its requests; `resume` gets the session, or the reason of the failure."""

    def __init__(
        self,
        exchange: Exchange[LoginSession],
        scheduler: Scheduler,
        send: Callable[[Message, int | None], None],
        resume: Callable[[LoginSession | str], None],
    ) -> None:
        self._exchange = exchange
        self._scheduler = scheduler
        self._send = send
        self._resume = resume
        self._is_over = False

    def advance(self, answer: Any) -> None:
        """Go on with the answer to the last request; None begins."""
        self._scheduler.in_thread(partial(_step, self._exchange, answer), self._stepped)

    def end(self) -> None:
        """The connection is lost: nothing is called from now on."""
        self._is_over = True

    def _stepped(self, result: _NextRequest | LoginSession | BaseException) -> None:
        if self._is_over:
            return
        if isinstance(result, _NextRequest):
            self._send(*result)
        elif isinstance(result, BaseException):
            if not isinstance(result, LoginFailed):
                logger.error("a login to another broker failed unexpectedly", exc_info=result)
            self._resume(str(result) if isinstance(result, LoginFailed) else "this broker cannot log in")
        else:
            self._resume(result)


def _step(exchange: Exchange[LoginSession], answer: Any) -> _NextRequest | LoginSession:
    try:
        return _NextRequest(*exchange.send(answer))
    except StopIteration as end:
        session: LoginSession = end.value
        return session
