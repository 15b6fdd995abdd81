"""The latest transaction of a ZooKeeper server, by the command `srvr`, which every server answers unless told not to.

A server closes a connection at once, and without a word, if its client has seen a later transaction than the server
has. In an ensemble such a server lags behind, and the client takes another one. If no server is further, ZooKeeper came
back empty or from an older copy, and the client is refused for as long as that takes.
"""

from __future__ import annotations

import re
import socket
from typing import Final

ANSWER_WITHIN_S: Final = 2.0
MAX_ANSWER_BYTES: Final = 1 << 16
_ZXID: Final = re.compile(rb"^Zxid: 0x([0-9a-f]{1,16})\s*$", re.MULTILINE)


def latest_zxid(address: tuple[str, int]) -> int | None:
    """The number of the latest transaction of the server at an address; None if it does not tell. Blocks."""
    try:
        with socket.create_connection(address, ANSWER_WITHIN_S) as connection:
            connection.settimeout(ANSWER_WITHIN_S)
            connection.sendall(b"srvr")
            answer = b""
            while len(answer) < MAX_ANSWER_BYTES and (data := connection.recv(4096)):
                answer += data
    except OSError:
        return None
    found = _ZXID.search(answer)
    return None if found is None else int(found[1], 16)


def is_resolved(host: str, port: int) -> bool:
    """Whether an address is known for a server. Blocks."""
    try:
        return bool(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except OSError:
        return False


class LaggingServers:
    """Decides whether every server lags behind what a client has seen. Belongs to the thread that connects."""

    def __init__(self, servers: int) -> None:
        """`servers`: how many there are."""
        self._servers = servers
        self._refusals = self._lagging = 0

    def connected(self) -> None:
        """A server has accepted the session."""
        self._refusals = self._lagging = 0

    def opened(self, address: tuple[str, int], seen_zxid: int) -> bool:
        """A connection to a server is open. True once, as soon as as many servers in a row as there are lag behind.

        Servers are asked only after each of them may have refused the session.
        """
        self._refusals += 1
        if not seen_zxid or self._refusals <= self._servers or self._lagging >= self._servers:
            return False
        zxid = latest_zxid(address)
        self._lagging = self._lagging + 1 if zxid is not None and zxid < seen_zxid else 0
        return self._lagging == self._servers
