"""What an idle connection costs: growth of the resident set, a connection."""

import resource
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from headgate.tools.bench.measuring.brokers import Broker, Launcher
from headgate.tools.bench.measuring.machine import resident_bytes
from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.client import BenchError, exchange

CONNECTIONS: Final = 4000
"""So many that the pages which the allocator takes in advance are a small part."""
_FIRST: Final = 500
"""Opened before it is counted: they fill what the process has free already, and load what is loaded once."""
_OTHER_FILES: Final = 500


def idle_connection_bytes(launcher: Launcher, directory: Path, connections: int = CONNECTIONS) -> float:
    """Of a fresh process: one that has served before has memory to give, and its growth says nothing."""
    allow_files(_FIRST + connections + _OTHER_FILES)
    broker = launcher.start(directory)
    try:
        with ExitStack() as stack:
            _open(broker, _FIRST, stack)
            before = resident_bytes(broker.process.pid)
            _open(broker, connections, stack)
            return (resident_bytes(broker.process.pid) - before) / connections
    finally:
        broker.stop()


def allow_files(wanted: int) -> None:
    """For this process and the brokers that it starts from now on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        if hard < wanted:
            raise BenchError(
                f"{wanted} open files are needed, {hard} are allowed: raise `ulimit -Hn`, or leave the row out"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _open(broker: Broker, count: int, stack: ExitStack) -> None:
    """Every one has asked for the versions, as any client does, and then says nothing."""
    for _ in range(count):
        connection: socket.socket = stack.enter_context(broker.client.connect())
        exchange(connection, frames.api_versions())
