"""The latest transaction of a ZooKeeper server, by the command `srvr`, which servers answer by default.

A server closes a connection at once, without an error, if its client has seen a later transaction than the server.
In an ensemble such a server lags behind, and the client connects to another one. If all servers lag behind, ZooKeeper
came back empty or from an older copy, and refuses the client until that is repaired.
"""

from __future__ import annotations

import re
import socket
from typing import Final

ANSWER_WITHIN_S: Final = 2.0
MAX_ANSWER_BYTES: Final = 1 << 16
_ZXID: Final = re.compile(rb"^Zxid: 0x([0-9a-f]{1,16})\s*$", re.MULTILINE)


def latest_zxid(address: tuple[str, int]) -> int | None:
    """The number of the latest transaction of the server at an address; None without an answer. Blocks."""
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
    """Detects that every server lags behind a client. Used by the connecting thread only."""

    def __init__(self, servers: int) -> None:
        """`servers`: how many there are."""
        self._servers = servers
        self._refusals = self._lagging = 0

    def connected(self) -> None:
        """A server has accepted the session."""
        self._refusals = self._lagging = 0

    def opened(self, address: tuple[str, int], seen_zxid: int) -> bool:
        """Note an open connection to a server. Returns true once, when all servers in a row lag behind.

        Servers are queried only after each of them may have refused the session.
        """
        self._refusals += 1
        if not seen_zxid or self._refusals <= self._servers or self._lagging >= self._servers:
            return False
        zxid = latest_zxid(address)
        self._lagging = self._lagging + 1 if zxid is not None and zxid < seen_zxid else 0
        return self._lagging == self._servers
