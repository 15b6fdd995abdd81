"""The addresses of a host's name, and which of them accept connections."""

from __future__ import annotations

import errno
import ipaddress
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult

SLOW_NAME_S: Final = 1.0
SLOW_CONNECTION_S: Final = 0.5
HOSTS_FILE: Final = Path("/etc/hosts")
_MAX_HOSTS_BYTES: Final = 1 << 20


class ResolvedName(NamedTuple):
    """The addresses of a name in the order of the resolver; none with a `problem`. `in_hosts`: /etc/hosts has it."""

    addresses: Sequence[str]
    problem: str | None
    took_s: float
    in_hosts: bool


class AddressAttempt(NamedTuple):
    """An attempt to connect to one address. `error`: None if it accepts."""

    address: str
    error: OSError | None
    took_s: float


def resolve(host: str, hosts_file: Path = HOSTS_FILE) -> ResolvedName:
    """Ask the resolver of this machine."""
    began = time.monotonic()
    problem = None
    addresses: Sequence[str] = ()
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(row[4][0]) for row in found))
    except (OSError, UnicodeError) as error:
        problem = getattr(error, "strerror", None) or str(error)
    return ResolvedName(addresses, problem, time.monotonic() - began, _is_in_hosts(host, hosts_file))


def attempt(addresses: Sequence[str], port: int, timeout_s: float) -> list[AddressAttempt]:
    """Connect to each address, and close."""
    attempts = []
    for address in addresses:
        began, error = time.monotonic(), None
        try:
            socket.create_connection((address, port), timeout_s).close()
        except OSError as failed:
            error = failed
        attempts.append(AddressAttempt(address, error, time.monotonic() - began))
    return attempts


def check_name(host: str, resolved: ResolvedName) -> CheckResult:
    """Whether a host has an address that clients on other machines can use."""
    source = " in /etc/hosts" if resolved.in_hosts else ""
    if resolved.problem is not None:
        return CheckResult(
            "name",
            WRONG,
            f"{host} has no address here: {resolved.problem}",
            "add the name to DNS or to /etc/hosts of each client, or use a name that clients resolve",
        )
    listed = ", ".join(resolved.addresses)
    if resolved.took_s > SLOW_NAME_S:
        cure = "a DNS server of /etc/resolv.conf does not answer: every connection of a client waits for it"
        return CheckResult("name", NOTE, f"{host} is {listed}{source}, known after {resolved.took_s:.1f} s", cure)
    if not is_loopback(host) and all(map(is_loopback, resolved.addresses)):
        cure = f"other machines may get another address; on this one, correct the line of {host} in /etc/hosts"
        return CheckResult("name", NOTE, f"{host} is {listed}{source}, this machine itself", cure)
    return CheckResult("name", OK, listed if host in resolved.addresses else f"{host} is {listed}{source}")


def check_attempts(address: str, attempts: Sequence[AddressAttempt]) -> CheckResult:
    """Whether a port accepts connections, at each address of its host."""
    failed = [one for one in attempts if one.error is not None]
    if len(failed) == len(attempts):
        found, cure = explain_attempt(failed[0])
        others = f", and {len(failed) - 1} more addresses" if len(failed) > 1 else ""
        return CheckResult("connection", WRONG, f"{address}: {found}{others}", cure)
    if failed:
        said = ", ".join(f"{one.address} {explain_attempt(one)[0]}" for one in failed)
        first = next(one.address for one in attempts if one.error is None)
        return CheckResult(
            "connection",
            NOTE,
            f"{address}: {first} accepts, {said}",
            f"clients may try the other address first: listen there too, or name {first}",
        )
    slowest = max(one.took_s for one in attempts)
    if slowest > SLOW_CONNECTION_S:
        cure = "look for lost packets on the way, and for a full backlog of the broker (somaxconn)"
        return CheckResult("connection", NOTE, f"{address} accepts after {slowest:.1f} s", cure)
    return CheckResult("connection", OK, f"{address} accepts after {slowest * 1000:.0f} ms")


def explain_attempt(attempted: AddressAttempt) -> tuple[str, str]:
    """What an error says about the way to a port, and the cure."""
    error = attempted.error
    if isinstance(error, TimeoutError):
        cure = "a firewall drops the packets, or the host is down: open the port for this machine, or use another name"
        return f"no answer within {attempted.took_s:.0f} s", cure
    number = error.errno if error is not None else None
    if number == errno.ECONNREFUSED:
        return (
            "nothing listens there",
            "start the broker, or correct the port; `ss -ltn` on its host shows what listens",
        )
    if number in {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL}:
        return "no way there", "this machine has no route to the address: correct the name, the route or the VPN"
    reason = str(getattr(error, "strerror", None) or error)
    return reason, "correct the address"


def is_loopback(host: str) -> bool:
    """Whether an address, or `localhost`, always means the machine itself."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_in_hosts(host: str, hosts_file: Path) -> bool:
    try:
        with hosts_file.open("rb") as file:
            text = file.read(_MAX_HOSTS_BYTES).decode(errors="replace")
    except OSError:
        return False
    return host.lower() in _hosts_names(text)


def _hosts_names(text: str) -> Iterator[str]:
    """All names of a file in the form of /etc/hosts, in lower case."""
    for line in text.splitlines():
        yield from line.partition("#")[0].lower().split()[1:]
