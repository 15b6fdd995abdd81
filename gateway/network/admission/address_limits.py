"""`max.connections.per.ip.overrides` by address: names of hosts are resolved in a thread."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from headgate.gateway.config.addresses import canonical, parse_limits
from headgate.gateway.runtime.workers import BoundedExecutor, Scheduling

logger = logging.getLogger("headgate.server")


def addresses_of(host: str) -> Sequence[str]:
    """All addresses of a host. A thread calls. Raises OSError."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"{host!r} is not the name of a host: {error}") from error
    return [canonical(str(row[4][0])) or str(row[4][0]) for row in found]


class AddressLimits:
    """The present limits. A name has an effect once it is resolved; it is resolved once."""

    def __init__(self, scheduler: Scheduling, resolve: Callable[[str], Sequence[str]] = addresses_of) -> None:
        self._threads = BoundedExecutor(scheduler, 1)
        self._resolve = resolve
        self._text = ""
        self._limits: dict[str, int] = {}

    def of(self, text: str) -> Mapping[str, int]:
        """The limits of a checked text by address; those of names follow in this mapping."""
        if text == self._text:
            return self._limits
        self._text, self._limits = text, {}
        for host, limit in parse_limits(text).items():
            if canonical(host) is not None:
                self._limits[host] = limit
            else:
                self._threads.in_thread(partial(self._resolve, host), partial(self._take, self._limits, host, limit))
        return self._limits

    def _take(self, limits: dict[str, int], host: str, limit: int, found: Sequence[str] | BaseException) -> None:
        if isinstance(found, BaseException):
            if not isinstance(found, OSError):
                raise found
            logger.error("max.connections.per.ip.overrides: %s has no address, and no limit: %s", host[:300], found)
            return
        for address in found:
            limits.setdefault(address, limit)
