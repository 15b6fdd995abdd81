"""The listeners between brokers, as a client sees them: their names, and whether their ports accept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from headgate.tools.client.client import ClientError, parse_addresses
from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult
from headgate.tools.doctor.cluster.broker_configs import BrokerSettings
from headgate.tools.doctor.connecting.name import attempt, explain_attempt, resolve


def accepts(address: str, timeout_s: float) -> str | None:
    """Why an address accepts no connection; None if it does."""
    try:
        host, port = parse_addresses(address)[0]
    except ClientError as error:
        return str(error)
    resolved = resolve(host)
    if resolved.problem is not None:
        return resolved.problem
    attempts = attempt(resolved.addresses, port, timeout_s)
    return None if any(one.error is None for one in attempts) else explain_attempt(attempts[0])[0]


def check_links(brokers: Sequence[BrokerSettings], dial: Callable[[str], str | None]) -> Iterator[CheckResult]:
    """`dial`: why an address accepts no connection, None if it does. One broker alone has no links."""
    if len(brokers) < 2:
        return
    for broker in brokers:
        name = broker.inter_broker_listener
        for other in brokers:
            advertised = other.advertised
            if other.node != broker.node and name and advertised and name.upper() not in advertised:
                yield CheckResult(
                    "links",
                    WRONG,
                    f"broker {broker.node} reaches others by the listener {name}, and broker {other.node} has"
                    f" {', '.join(advertised)}",
                    "set the same inter.broker.listener.name and the same names in listeners of every broker",
                )
    yield from _check_ports(brokers, dial)


def _check_ports(brokers: Sequence[BrokerSettings], dial: Callable[[str], str | None]) -> Iterator[CheckResult]:
    for broker in brokers:
        address = broker.advertised.get((broker.inter_broker_listener or "").upper())
        if address is None:
            continue
        reason = dial(address)
        where = f"broker {broker.node} has its listener between brokers ({broker.inter_broker_listener}) at {address}"
        if reason is None:
            yield CheckResult("links", OK, f"{where}, which accepts")
        else:
            cure = "if other brokers do not reach it either, their replicas stay behind: run this on one of their hosts"
            yield CheckResult("links", NOTE, f"{where}; from here: {reason}", cure)
