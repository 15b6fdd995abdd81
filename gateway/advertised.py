"""Where clients are told to connect to: the brokers, at the addresses of the listener that was asked."""

from __future__ import annotations

from typing import NamedTuple

from gateway.context import Context


class Endpoint(NamedTuple):
    """One broker, as a client of a listener reaches it."""

    node_id: int
    host: str
    port: int
    rack: str | None


def own_endpoint(context: Context) -> Endpoint:
    """This broker, for the client that asks: what is configured, or else the address that it connected to."""
    config, client = context.broker.config, context.client
    host, port = config.advertised_address(client.listener, client.local_host, client.local_port)
    return Endpoint(config.node_id, host, port, config.broker_rack)


def endpoints(context: Context) -> list[Endpoint]:
    """Every broker that is alive: with an embedded store, this one."""
    return [own_endpoint(context)]
