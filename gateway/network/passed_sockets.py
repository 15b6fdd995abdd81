"""Sockets that the service manager has opened for this process: socket activation, sd_listen_fds(3).

The service manager listens before the broker starts, and while it restarts: clients wait in the queue of the socket,
and none is refused. A listener takes the passed socket that has its address; a passed socket that no listener takes
would let clients wait for ever, and so prevents the start.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, MutableMapping
from typing import Final, NamedTuple

from headgate.gateway.config.listeners import is_every_address
from headgate.gateway.config.loading import ConfigError

FIRST_DESCRIPTOR: Final = 3
MAX_DESCRIPTORS: Final = 1_000
_NAMES: Final = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


class PassedSocket(NamedTuple):
    """A listening socket, and its `FileDescriptorName` in the socket unit."""

    name: str
    socket: socket.socket

    @property
    def address(self) -> tuple[str, int]:
        """Its host and port."""
        host, port = self.socket.getsockname()[:2]
        return host, port

    def __str__(self) -> str:
        host, port = self.address
        return f"{f'[{host}]' if ':' in host else host}:{port} ({self.name or 'without a name'})"


class PassedSockets:
    """The passed sockets that no listener has taken yet."""

    def __init__(self, sockets: Iterable[PassedSocket] = ()) -> None:
        self.left = list(sockets)

    @classmethod
    def of_environment(cls, environment: MutableMapping[str, str], process_id: int) -> PassedSockets:
        """The sockets that are meant for this process; the variables go. Raises ConfigError."""
        if environment.get("LISTEN_PID") != str(process_id):
            return cls()
        _, count, names = (environment.pop(name, "") for name in _NAMES)
        if not (count.isascii() and count.isdecimal()) or int(count) > MAX_DESCRIPTORS:
            raise ConfigError([f"the service manager has set LISTEN_FDS={count[:20]!r}, which is no number of sockets"])
        named = names.split(":") if names else []
        return cls([_open(number, named) for number in range(int(count))])

    def take(self, host: str, port: int) -> socket.socket | None:
        """The passed socket at this address, which is now the caller's; None if there is none."""
        for passed in self.left:
            has_host, has_port = passed.address
            if has_port == port and (has_host == host or _covers(passed.socket, host)):
                self.left.remove(passed)
                return passed.socket
        return None

    def check_all_taken(self) -> None:
        """Raises ConfigError if a socket is left."""
        if self.left:
            left = ", ".join(map(str, self.left))
            advice = "add them to listeners or headgate.http.listeners, or remove them from the socket unit"
            raise ConfigError([f"the service manager has passed sockets that are no listener's: {left}; {advice}"])

    def close(self) -> None:
        """Close what is left. The service manager has descriptors of its own, and listens on."""
        for passed in self.left:
            passed.socket.close()
        self.left = []


def _covers(passed: socket.socket, host: str) -> bool:
    """Whether a socket of every address serves a listener of every address, at least for IPv4."""
    if not is_every_address(host) or not is_every_address(passed.getsockname()[0]):
        return False
    return passed.family == socket.AF_INET or not passed.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)


def _open(number: int, names: list[str]) -> PassedSocket:
    """Raises ConfigError for a descriptor that is no socket to accept clients at."""
    name = names[number] if number < len(names) else ""
    descriptor = FIRST_DESCRIPTOR + number
    try:
        passed = socket.socket(fileno=descriptor)
    except OSError as error:
        raise ConfigError([f"the descriptor {descriptor} of the service manager is no socket: {error}"]) from None
    passed.set_inheritable(False)
    if passed.family not in (socket.AF_INET, socket.AF_INET6) or not is_listening(passed):
        passed.detach()
        kind = f"the socket {name or descriptor} of the service manager"
        raise ConfigError([f"{kind} is none that listens for TCP; the socket unit needs ListenStream=host:port"])
    return PassedSocket(name, passed)


def is_listening(bound: socket.socket) -> bool:
    """Whether clients can connect to a socket already."""
    is_stream = bound.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
    return is_stream and bool(bound.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
