"""The rows `idle-connections` and `idle-connections-tls`: the growth of the resident set for each idle connection."""

import resource
import socket
import ssl
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from headgate.tools.bench.measuring.brokers import Broker, Launcher
from headgate.tools.bench.measuring.machine import resident_bytes
from headgate.tools.bench.measuring.secure_listeners import client_context
from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.client import BenchError, exchange

CONNECTIONS: Final = 4000
"""Enough connections to make the allocator's reserve a small part."""
_FIRST: Final = 500
"""Connections opened before counting: they use up free memory of the process and load code."""
_OTHER_FILES: Final = 500


def idle_connection_bytes(
    launcher: Launcher, directory: Path, connections: int = CONNECTIONS, *, is_encrypted: bool = False
) -> float:
    """The resident bytes of each idle connection, in a fresh process: free memory of a used one would hide growth.

    `is_encrypted`: over TLS.
    """
    raise_file_limit(_FIRST + connections + _OTHER_FILES)
    broker = launcher.start(directory)
    try:
        with ExitStack() as stack:
            open_some = partial(_open_encrypted, client_context()) if is_encrypted else _open
            open_some(broker, _FIRST, stack)
            before = resident_bytes(broker.process.pid)
            open_some(broker, connections, stack)
            return (resident_bytes(broker.process.pid) - before) / connections
    finally:
        broker.stop()


def raise_file_limit(wanted: int) -> None:
    """Raise the limit of open files, for this process and the brokers that it starts. Raises BenchError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        if hard < wanted:
            raise BenchError(
                f"{wanted} open files are needed, {hard} are allowed: raise `ulimit -Hn`, or leave the row out"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _open(broker: Broker, count: int, stack: ExitStack) -> None:
    """Open connections; each sends ApiVersions, as any client does, and then nothing."""
    for _ in range(count):
        connection: socket.socket = stack.enter_context(broker.client.connect())
        exchange(connection, frames.api_versions())


def _open_encrypted(context: ssl.SSLContext, broker: Broker, count: int, stack: ExitStack) -> None:
    """The same over TLS."""
    assert broker.secure_ports is not None
    for _ in range(count):
        plain = socket.create_connection(("127.0.0.1", broker.secure_ports.tls))
        connection = stack.enter_context(context.wrap_socket(plain))
        exchange(connection, frames.api_versions())
