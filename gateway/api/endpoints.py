"""The addresses that clients are told: those of all brokers, on the listener that the client uses."""

from __future__ import annotations

from typing import NamedTuple

from headgate.gateway.api.context import HandlerContext


class Endpoint(NamedTuple):
    """One broker, as a client of a listener reaches it."""

    node_id: int
    host: str
    port: int
    rack: str | None


def endpoints(context: HandlerContext) -> list[Endpoint]:
    """The live brokers that have the client's listener."""
    config, listener = context.broker.config, context.client.listener
    found = []
    for node in context.broker.metadata.image.brokers.values():
        if node.node_id == config.node_id:
            found.append(own_endpoint(context))
        elif listener in node.endpoints:
            found.append(Endpoint(node.node_id, *node.endpoints[listener], node.rack))
    return found


def own_endpoint(context: HandlerContext) -> Endpoint:
    """This broker at its advertised address, or else at the address that the client connected to."""
    config, client = context.broker.config, context.client
    host, port = config.advertised_address(client.listener, client.local_host, client.local_port)
    return Endpoint(config.node_id, host, port, config.broker_rack)


def leader_of(context: HandlerContext, topic: str, index: int) -> tuple[int, int, Endpoint | None]:
    """The leader of a partition, its epoch, and its endpoint for the client (KIP-951); -1, -1, None where unknown."""
    known = context.broker.metadata.image.topics.get(topic)
    if known is None or not 0 <= index < len(known.partitions) or (topic, index) in context.broker.partitions.opening:
        return -1, -1, None
    state = known.partitions[index]
    found = [endpoint for endpoint in endpoints(context) if endpoint.node_id == state.leader]
    return state.leader, state.leader_epoch, found[0] if found else None
