"""Each address that a cluster advertises, as a client dials it: the most common fault of all.

A client connects to its bootstrap address, gets the advertised addresses of all brokers, and dials those from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from headgate.protocol.schema import Versions
from headgate.protocol.security.client_security import ClientSecurity
from headgate.tools.client.client import PLAINTEXT, Client, ClientError, parse_addresses
from headgate.tools.client.cluster import Cluster, RetryPolicy
from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult
from headgate.tools.doctor.cluster.broker_configs import BrokerRefusal, BrokerSettings, ask_settings, identify
from headgate.tools.doctor.connecting.name import is_loopback
from headgate.tools.doctor.connecting.protocol import PortProtocol, probe

NO_RETRIES = RetryPolicy(repeats=lambda _failure: False)
_UNSPECIFIED = ("0.0.0.0", "::", "[::]")  # noqa: S104 - addresses that nobody can dial


class AdvertisedAddress(NamedTuple):
    """A broker at its advertised address. `failure`: why a client cannot use it; None if it can.

    `listener`: its name, if a broker said it. `alternative`: the bootstrap's host with this port, if a broker answers
    there, or else the bootstrap address of this broker. `settings`: those of the broker that answers. `other_node`: the
    id of another broker that answers instead, -1 if it is none of this cluster. `served`: the versions of the broker by
    API.
    """

    node: int
    address: str
    failure: str | None = None
    listener: str | None = None
    alternative: str | None = None
    settings: BrokerSettings | BrokerRefusal | None = None
    other_node: int | None = None
    served: Mapping[int, Versions] = MappingProxyType({})


def dial_advertised(bootstrap: str, timeout_s: float, security: ClientSecurity = PLAINTEXT) -> list[AdvertisedAddress]:
    """Dial each address that a cluster advertises. Raises ClientError if no bootstrap address answers."""
    with Cluster(bootstrap, timeout_s=timeout_s, security=security, retries=NO_RETRIES) as cluster:
        cluster.refresh([])
        return dial_all(cluster.routing.addresses, bootstrap, timeout_s, security)


def dial_all(
    addresses: Mapping[int, str], bootstrap: str, timeout_s: float, security: ClientSecurity
) -> list[AdvertisedAddress]:
    """Dial each address by node id."""
    return [_dial(node, address, addresses, bootstrap, timeout_s, security) for node, address in addresses.items()]


def _dial(
    node: int, address: str, nodes: Iterable[int], bootstrap: str, timeout_s: float, security: ClientSecurity
) -> AdvertisedAddress:
    found = AdvertisedAddress(node, address)
    try:
        with Client(address, timeout_s=timeout_s, security=security) as client:
            found = found._replace(served=client.peer.served_versions)
            settings = ask_settings(client, node)
            if isinstance(settings, BrokerRefusal) and settings.is_other_node:
                settled = identify(client, [other for other in nodes if other != node])
                return found._replace(other_node=settled.node if isinstance(settled, BrokerSettings) else -1)
    except ClientError as error:
        other = _alternative(address, bootstrap, timeout_s) or _own_bootstrap(found, bootstrap, timeout_s, security)
        return found._replace(failure=str(error), alternative=other)
    return found._replace(settings=settings, listener=_listener(settings, address))


def _alternative(address: str, bootstrap: str, timeout_s: float) -> str | None:
    """The advertised port at the host of the bootstrap, if it speaks what a broker does."""
    host, port = parse_addresses(address)[0]
    for other, _ in parse_addresses(bootstrap):
        if other == host:
            continue
        try:
            spoken, _ = probe(other, port, timeout_s)
        except OSError:
            continue
        if spoken in {PortProtocol.KAFKA, PortProtocol.TLS}:
            return f"{other}:{port}"
    return None


def _own_bootstrap(one: AdvertisedAddress, bootstrap: str, timeout_s: float, security: ClientSecurity) -> str | None:
    """The bootstrap address where this very broker answers: then a wrong port is advertised."""
    for host, port in parse_addresses(bootstrap):
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if address == one.address:
            continue
        try:
            with Client(address, timeout_s=timeout_s, security=security) as client:
                if isinstance(ask_settings(client, one.node), BrokerSettings):
                    return address
        except ClientError:
            continue
    return None


def _listener(settings: BrokerSettings | BrokerRefusal, address: str) -> str | None:
    return listener_at(settings, address) if isinstance(settings, BrokerSettings) else None


def listener_at(settings: BrokerSettings, address: str) -> str | None:
    """The name of the listener with this advertised address; else of the one listener with its port."""
    for setting in ("advertised.listeners", "listeners"):
        endpoints = settings.endpoints(setting)
        port = address.rpartition(":")[2]
        same = [name for name, endpoint in endpoints.items() if endpoint == address]
        same = same or [name for name, endpoint in endpoints.items() if endpoint.rpartition(":")[2] == port]
        if len(same) == 1:
            return same[0]
    return None


def check_advertised(
    bootstrap: str, addresses: Iterable[AdvertisedAddress], dialler: str = "clients"
) -> Iterator[CheckResult]:
    """Whether clients can use each address. `dialler`: who dials them, for the cures."""
    all_addresses = list(addresses)
    hosts = [host for host, _ in parse_addresses(bootstrap)]
    for one in all_addresses:
        same = [other.node for other in all_addresses if other.address == one.address and other.node != one.node]
        yield _check_one(bootstrap, one, same, dialler, is_near=all(map(is_loopback, hosts)))
    if not all_addresses:
        cure = "the broker is still starting, or fenced: its log says what it waits for"
        yield CheckResult("advertised", WRONG, f"{bootstrap} advertises no broker", cure)


def _check_one(bootstrap: str, one: AdvertisedAddress, same: list[int], dialler: str, *, is_near: bool) -> CheckResult:
    host = parse_addresses(one.address)[0][0] if one.address.rpartition(":")[0] else ""
    who = f"broker {one.node}"
    if same:
        cure = f"give each broker its own address in advertised.listeners: {dialler} of one reach the other"
        return CheckResult("advertised", WRONG, f"{who} and broker {same[0]} advertise the same {one.address}", cure)
    if host in _UNSPECIFIED or not host:
        return CheckResult(
            "advertised", WRONG, f"{who} advertises {one.address}, which nobody can dial", _cure(one, dialler)
        )
    if one.failure is not None:
        found = f"{bootstrap} answers, and advertises {who} at {one.address}: {one.failure}"
        return CheckResult("advertised", WRONG, found.partition("; ")[0], _cure(one, dialler))
    if one.other_node is not None:
        other = f"broker {one.other_node}" if one.other_node >= 0 else "a broker of another cluster"
        found = f"{bootstrap} advertises {who} at {one.address}, where {other} answers"
        return CheckResult("advertised", WRONG, found, _cure(one, dialler))
    if is_loopback(host):
        cure = f"{dialler} on other machines need advertised.listeners with an address that they reach"
        state = NOTE if is_near else WRONG
        return CheckResult("advertised", state, f"{who} at {one.address} answers here, on the loopback address", cure)
    return CheckResult("advertised", OK, f"{who} at {one.address} answers, as advertised")


def _cure(one: AdvertisedAddress, dialler: str) -> str:
    """The setting that cures a wrong address."""
    port = one.address.rpartition(":")[2]
    listener = one.listener or "NAME"
    of = f"of broker {one.node}"
    if one.alternative is not None:
        return f"{one.alternative} answers: set advertised.listeners={listener}://{one.alternative} {of}"
    if one.failure is not None and "certificate" in one.failure and "other names" in one.failure:
        return (
            f"{dialler} check the advertised name: set advertised.listeners={listener}://<a name in the certificate>:"
            f"{port} {of}, or give its certificate this name"
        )
    name = f"{listener}://<a name that they reach>:{port}"
    return f"{dialler} dial the advertised address: set advertised.listeners={name} {of}"
