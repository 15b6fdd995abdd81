"""A port that stays a broker's own while the broker is down.

Without it, another process may get the port between a stop and the next start. Linux gives the port of a bound socket
to nobody who asks for any port; who asks for this port gets it, if both sockets have SO_REUSEADDR and none listens.
"""

from __future__ import annotations

import socket
import weakref

HOST = "127.0.0.1"


def reserve(owner: object, port: int = 0) -> int:
    """Reserve a port, by default any, for the life of `owner`. The port refuses connections until a broker listens."""
    reservation = socket.socket()
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.bind((HOST, port))
    weakref.finalize(owner, reservation.close)
    return int(reservation.getsockname()[1])
