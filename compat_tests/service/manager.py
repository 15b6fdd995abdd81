"""A small service manager: what systemd does for a unit with Type=notify, WatchdogSec and a socket unit.

It listens while the broker is down, passes its sockets as descriptors 3, 4 ..., and hears what the broker tells.
"""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from compat_tests.harness.broker import HTTP, HeadgateBroker
from compat_tests.harness.waiting import until

# Out of the way of the descriptors that the broker gets
FIRST_KEPT = 100
BACKLOG = 4096
# Descriptors in the order of the words before `--`; LISTEN_PID is the process that bash becomes
LAUNCHER = """
descriptor=3
while [ "$1" != -- ]; do eval "exec $descriptor<&$1 $1<&-"; descriptor=$((descriptor + 1)); shift; done
shift
LISTEN_PID=$$ exec "$@"
"""


class Told(NamedTuple):
    """A line that the broker told, and when."""

    name: str
    value: str
    at_s: float


class Notifications:
    """The socket that hears a broker, at a path or at an abstract name."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.told: list[Told] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._thread = threading.Thread(target=self._listen, name="notifications", daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while datagram := self._socket.recv(1 << 16):
            now_s = time.monotonic()
            for line in datagram.decode().split("\n"):
                name, _, value = line.partition("=")
                self.told.append(Told(name, value, now_s))

    def count(self, name: str, value: str | None = None) -> int:
        return sum(told.name == name and value in (None, told.value) for told in list(self.told))

    def wait_for(self, name: str, value: str | None = None, count: int = 1) -> None:
        until(lambda: self.count(name, value) >= count, f"{name}={value} to be told {count} times: {self.told[-20:]}")

    def close(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"", self._socket.getsockname())
        self._thread.join(60)
        self._socket.close()


class ServiceBroker(HeadgateBroker):
    """A broker that a service manager runs: it listens at `address` and, with `has_http`, at that of HTTP."""

    def __init__(
        self,
        directory: Path,
        notifications: Notifications | None = None,
        settings: Mapping[str, str] | None = None,
        *,
        has_sockets: bool = True,
        has_http: bool = False,
        watchdog_ms: int = 0,
    ) -> None:
        super().__init__(directory, settings)
        self.notifications = notifications
        self.watchdog_ms = watchdog_ms
        self.names: list[str] = []
        self.variables: dict[str, str] = {}
        if has_sockets:
            self.port, self.has_reserved = self.listen("headgate"), True
        if has_http:
            self.settings[HTTP] = f"http://127.0.0.1:{self.listen('http')}"

    def listen(self, name: str) -> int:
        """Listen at a free port, for the broker. Returns the port."""
        with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as bound:
            kept = fcntl.fcntl(bound.fileno(), fcntl.F_DUPFD_CLOEXEC, FIRST_KEPT)
            self.names.append(name)
            self.passed = (*self.passed, kept)
            return int(bound.getsockname()[1])

    def command(self) -> list[str]:
        if not self.passed:
            return super().command()
        return ["bash", "-c", LAUNCHER, "bash", *map(str, self.passed), "--", *super().command()]

    def environment(self) -> dict[str, str]:
        variables = dict(os.environ)
        if self.passed:
            variables |= {"LISTEN_FDS": str(len(self.names)), "LISTEN_FDNAMES": ":".join(self.names)}
        if self.notifications is not None:
            variables["NOTIFY_SOCKET"] = self.notifications.address
        if self.watchdog_ms:
            variables["WATCHDOG_USEC"] = str(self.watchdog_ms * 1000)
        return variables | self.variables

    def close(self) -> None:
        """End the broker, and listen no more."""
        self.kill()
        for descriptor in self.passed:
            os.close(descriptor)
        self.passed = ()
