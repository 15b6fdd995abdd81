"""Unit files for systemd: the service of a broker, and the sockets that stay open while it restarts. Pure.

The service is confined to what a broker needs: its data, the network, its settings to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

WATCHDOG_S: Final = 30
MAX_OPEN_FILES: Final = 1_000_000
STATE_ROOT: Final = PurePosixPath("/var/lib")
_HOMES: Final = (PurePosixPath("/home"), PurePosixPath("/root"), PurePosixPath("/run/user"))
LOWEST_FREE_PORT: Final = 1024

_CONFINEMENT: Final = """\
NoNewPrivileges=yes
CapabilityBoundingSet={capabilities}
AmbientCapabilities={capabilities}
ProtectSystem=strict
ProtectHome={homes}
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
LockPersonality=yes
RemoveIPC=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
UMask=0027"""

_SERVICE: Final = """\
# Printed by `headgate service unit`: put it into /etc/systemd/system/{name}.service
[Unit]
Description=Headgate, a Kafka-compatible broker
Wants=network-online.target
After=network-online.target{socket}

[Service]
Type=notify
ExecStart={command}
# Reads the stores of TLS again
ExecReload=/bin/kill -HUP $MAINPID
User={user}
Group={user}
Restart=on-failure
RestartSec=1s
# Wrong settings: a restart cures nothing
RestartPreventExitStatus=2
# The broker's loop answers: one that stands still is ended, and started again
WatchdogSec={watchdog_s}s
# A start or a stop that takes longer says so, while it goes on
TimeoutStartSec=90s
TimeoutStopSec=30s
# The broker ends its own children
KillMode=mixed
LimitNOFILE={open_files}
{directories}

# What a broker does not need
{confinement}

[Install]
WantedBy=multi-user.target
"""

_SOCKET: Final = """\
# Printed by `headgate service socket`: put it into /etc/systemd/system/{name}.socket
# systemd listens while the broker restarts: clients wait, and none is refused
[Unit]
Description=The addresses of Headgate

[Socket]
{streams}
FileDescriptorName={name}
Backlog=4096
NoDelay=yes
Service={name}.service

[Install]
WantedBy=sockets.target
"""


class Service(NamedTuple):
    """What a unit is made for. Paths are absolute."""

    name: str
    user: str
    command: Sequence[str]
    """The program and its arguments."""
    directories: Sequence[PurePosixPath]
    """The log directories, and others that the broker writes to."""
    addresses: Sequence[tuple[str, int]]
    """(host, port) of each listener; an empty host is every address."""
    reads: Sequence[PurePosixPath] = ()
    """Other paths that the broker reads: its program, its settings."""


def service_unit(service: Service, *, has_socket: bool) -> str:
    """The text of the service unit. `has_socket`: the socket unit belongs to it."""
    return _SERVICE.format(
        name=service.name,
        socket=f"\nRequires={service.name}.socket\nAfter={service.name}.socket" if has_socket else "",
        command=" ".join(map(quote, service.command)),
        user=service.user,
        watchdog_s=WATCHDOG_S,
        open_files=MAX_OPEN_FILES,
        directories="\n".join(_directories(service.directories)),
        confinement=_CONFINEMENT.format(
            capabilities="" if has_socket else _capabilities(service.addresses), homes=_homes(service)
        ),
    )


def socket_unit(service: Service) -> str:
    """The text of the socket unit. Raises ValueError for an address that no unit can have."""
    streams = "\n".join(f"ListenStream={_stream(host, port)}" for host, port in service.addresses)
    return _SOCKET.format(name=service.name, streams=streams)


def quote(word: str) -> str:
    """One word of a command line in a unit (systemd.service(5), systemd.syntax(7))."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if not word or any(each in word for each in " \t\"';") else escaped


def _directories(directories: Iterable[PurePosixPath]) -> Iterable[str]:
    """Those below /var/lib are made by systemd, and belong to the user; others exist already."""
    for directory in directories:
        if STATE_ROOT in directory.parents:
            yield f"StateDirectory={_specifiers(directory.relative_to(STATE_ROOT))}"
        else:
            yield f"ReadWritePaths={_specifiers(directory)}"


def _specifiers(path: PurePosixPath) -> str:
    text = str(path).replace("%", "%%")
    return f'"{text}"' if " " in text else text


def _homes(service: Service) -> str:
    """Whether the broker sees the directories of users: only where something of its own is there."""
    own = (*service.directories, *service.reads)
    is_home = any(home in path.parents for home in _HOMES for path in own)
    return "read-only" if is_home else "yes"


def _capabilities(addresses: Iterable[tuple[str, int]]) -> str:
    return "CAP_NET_BIND_SERVICE" if any(0 < port < LOWEST_FREE_PORT for _, port in addresses) else ""


def _stream(host: str, port: int) -> str:
    """Raises ValueError."""
    if not port:
        raise ValueError("port 0 is another one at each start: give the listener a port, for its socket unit")
    if not host or not host.strip("0:"):
        return str(port)  # of IPv4 and IPv6
    if any(each.isalpha() for each in host) and ":" not in host:
        raise ValueError(
            f"{host!r} is a name, and a socket unit needs an address: listen at an address, as in 192.0.2.1"
        )
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
