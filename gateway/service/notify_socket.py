"""Notifications to the service manager, as datagrams to its socket: the protocol of sd_notify(3).

A datagram has lines `NAME=value`. The socket is a path, or a name in the abstract namespace of Linux after an `@`. A
service manager that takes nothing at the moment must not hold up the broker: such a datagram is not sent.
"""

from __future__ import annotations

import socket
from collections.abc import MutableMapping
from typing import Final

VARIABLE: Final = "NOTIFY_SOCKET"


class NotifySocket:
    """The socket of the service manager."""

    def __init__(self, address: str) -> None:
        """`address`: as the service manager names it. Raises OSError."""
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    @classmethod
    def take(cls, environment: MutableMapping[str, str]) -> NotifySocket | None:
        """The socket that the environment names; None without one, and for one of another kind.

        The name is removed from the environment, as children of the broker send no notifications.
        """
        address = environment.pop(VARIABLE, "")
        return cls(address) if address.startswith(("/", "@")) and hasattr(socket, "AF_UNIX") else None

    def send(self, *lines: str) -> bool:
        """Send one datagram. False if the service manager does not take it now."""
        try:
            self._socket.sendto("\n".join(lines).encode(), self._address)
        except OSError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()
