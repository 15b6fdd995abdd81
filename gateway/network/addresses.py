"""The addresses of a broker: sockets that are bound as soon as a start is certain to want them, and listen later.

A bound socket refuses connections, and no listening process can have the same address. So a start finds out that an
address is in use before it writes anything, and clients connect once the broker serves. Of two starts in the same
moment both may bind; the second one to listen fails.

An empty host, and `[::]`, mean every address of this machine, of IPv4 and IPv6, by one socket: so do they in Apache
Kafka, whose Java binds all sockets dual-stack. Without IPv6 in the kernel they mean every address of IPv4; of a name
with addresses of both kinds, those of IPv4 are bound then.

A socket that the service manager has opened at an address is taken in place of a new one (`passed_sockets.py`). It
listens already, with the backlog of the socket unit.
"""

from __future__ import annotations

import errno
import logging
import socket
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headgate.gateway.config.http.http_addresses import CONSOLE_SETTING, HttpAddress
from headgate.gateway.config.http.http_addresses import SETTING as HTTP_SETTING
from headgate.gateway.config.listeners import Listener, is_every_address
from headgate.gateway.config.loading import ConfigError
from headgate.gateway.network.passed_sockets import PassedSockets, is_listening

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig

logger = logging.getLogger("headgate.server")

_LOST: Final = {HTTP_SETTING: "no /metrics and no /readyz", CONSOLE_SETTING: "no console"}
_WITHOUT_IPV6: Final = {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT, errno.EPFNOSUPPORT}


class AddressError(OSError):
    """An address that a setting names cannot be listened on."""

    def __init__(self, error: OSError, address: str, setting: str) -> None:
        super().__init__(error.errno, error.strerror)
        self.address = address
        self.setting = setting


class Addresses:
    """The sockets of a broker's listeners, and of its HTTP listeners."""

    def __init__(
        self,
        listeners: Sequence[Listener],
        http: Sequence[HttpAddress] = (),
        *,
        needs_http: bool = True,
        passed: PassedSockets | None = None,
        setting: str = HTTP_SETTING,
    ) -> None:
        """Without `needs_http`, an HTTP address that is in use is logged, and not listened on.

        `passed`: sockets of the service manager. `setting`: of the HTTP addresses.
        """
        self.console: Addresses | None = None
        """The addresses of the console, which are bound and closed with these."""
        self.sockets: list[tuple[str, socket.socket]] = []
        """Each with the name of its listener; a name with several addresses has several."""
        self.http: list[tuple[HttpAddress, socket.socket]] = []
        """Each with its address; a host of both families has two."""
        self._listeners = listeners
        self._http = http
        self._needs_http = needs_http
        self._passed = passed or PassedSockets()
        self._setting = setting
        self._is_bound = False

    @classmethod
    def of(cls, config: BrokerConfig, passed: PassedSockets | None = None) -> Addresses:
        """The configured addresses, not bound yet."""
        passed = passed or PassedSockets()
        addresses = cls(config.listeners, config.headgate_http_listeners, needs_http=config.wants_http, passed=passed)
        pages, is_wanted = config.headgate_console_listeners, config.wants_console
        addresses.console = cls((), pages, needs_http=is_wanted, passed=passed, setting=CONSOLE_SETTING)
        return addresses

    def bind(self) -> None:
        """Bind all addresses, once. Raises AddressError, ConfigError, and then none is bound."""
        if self._is_bound:
            return
        try:
            for listener in self._listeners:
                address = f"{listener.host}:{listener.port}"
                bound = _bind_all(listener.host, listener.port, self._passed, address, "listeners")
                self.sockets += [(listener.name, each) for each in bound]
            for http_address in self._http:
                self._bind_http(http_address)
            if self.console is None:
                self._passed.check_all_taken()
            else:
                self.console.bind()
        except (OSError, ConfigError):
            self.close()
            raise
        self._is_bound = True

    def _bind_http(self, address: HttpAddress) -> None:
        """Raises AddressError if the address is needed."""
        try:
            bound = _bind_all(address.host, address.port, self._passed, str(address), self._setting)
        except AddressError as error:
            self._go_without_http(error)
            return
        self.http += [(address, each) for each in bound]

    def listen_http(self, backlog: int) -> list[tuple[HttpAddress, socket.socket]]:
        """Listen on the bound addresses of HTTP: those where no other start was faster, each with its socket.

        Raises AddressError if the address is needed.
        """
        listening = []
        for address, bound in self.http:
            try:
                listen(bound, backlog)
            except OSError as error:
                self._go_without_http(AddressError(error, str(address), self._setting))
                bound.close()
            else:
                listening.append((address, bound))
        self.http = listening
        return listening

    def _go_without_http(self, error: AddressError) -> None:
        """Raises the error if the address is needed."""
        if self._needs_http:
            raise error
        logger.warning(
            "cannot serve HTTP at %s (%s): there is %s of this broker; set %s to another address, or to nothing",
            error.address,
            error.strerror,
            _LOST[self._setting],
            self._setting,
        )

    def close(self) -> None:
        """Close the sockets, unless another object has taken their descriptors over."""
        for bound in (*(bound for _, bound in self.sockets), *(bound for _, bound in self.http)):
            bound.close()
        self.sockets, self.http = [], []
        if self.console is not None:
            self.console.close()
        self._passed.close()


def listen(bound: socket.socket, backlog: int) -> None:
    """Listen, unless a socket of the service manager does already: its unit has the backlog. Raises OSError."""
    if not is_listening(bound):
        bound.listen(backlog)


def _bind_all(host: str, port: int, passed: PassedSockets, address: str, setting: str) -> list[socket.socket]:
    try:
        return bind(host, port, passed)
    except OSError as error:
        raise AddressError(error, address, setting) from error


def bind(host: str, port: int, passed: PassedSockets | None = None) -> list[socket.socket]:
    """Sockets at each address of a host; port 0 is a free one for each of them. Raises OSError.

    `passed`: sockets of the service manager, which are bound already.
    """
    passed = passed or PassedSockets()
    if not host or (":" in host and is_every_address(host)):
        return [_bind_every_address(port, passed)]
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError as error:  # a label is empty or longer than 63 characters
        raise OSError(errno.EINVAL, f"{host!r} is not the name of a host: {error}") from error
    bound: list[socket.socket] = []
    without_ipv6: OSError | None = None
    for family, _, _, _, address in found:
        try:
            bound.append(passed.take(str(address[0]), port) or _bind(family, address))
        except OSError as error:
            if family != socket.AF_INET6 or error.errno not in _WITHOUT_IPV6:
                for opened in bound:
                    opened.close()
                raise
            without_ipv6 = error
    if without_ipv6 is not None:
        if not bound:
            raise without_ipv6
        logger.info("this machine has no IPv6 (%s): of %s the addresses of IPv4 are used", without_ipv6.strerror, host)
    return bound


def _bind_every_address(port: int, passed: PassedSockets) -> socket.socket:
    taken = passed.take("::", port)
    if taken is not None:
        return taken
    try:
        return _bind(socket.AF_INET6, ("::", port), is_dual_stack=True)
    except OSError as error:
        if error.errno not in _WITHOUT_IPV6:
            raise
        logger.info("this machine has no IPv6 (%s): the broker listens on every address of IPv4", error.strerror)
        return _bind(socket.AF_INET, ("0.0.0.0", port))  # noqa: S104 - what the user asks for


def _bind(family: int, address: tuple[object, ...], *, is_dual_stack: bool = False) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform not in {"win32", "cygwin"}:  # elsewhere it allows a second listener
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not is_dual_stack)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound
