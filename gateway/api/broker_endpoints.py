"""The endpoints in responses: the addresses of all brokers on the client's listener."""

from __future__ import annotations

from typing import NamedTuple

from headgate.gateway.api.context import HandlerContext


class Endpoint(NamedTuple):
    """One broker's address for clients of a listener."""

    node_id: int
    host: str
    port: int
    rack: str | None


def endpoints(context: HandlerContext) -> list[Endpoint]:
    """The live brokers that have the client's listener."""
    config, listener = context.broker.config, context.client.listener
    live = []
    for node in context.broker.metadata.image.brokers.values():
        if node.node_id == config.node_id:
            live.append(own_endpoint(context))
        elif listener in node.endpoints:
            live.append(Endpoint(node.node_id, *node.endpoints[listener], node.rack))
    return live


def own_endpoint(context: HandlerContext) -> Endpoint:
    """This broker's advertised address, or else the address that the client connected to."""
    config, client = context.broker.config, context.client
    host, port = config.advertised_address(client.listener, client.local_host, client.local_port)
    return Endpoint(config.node_id, host, port, config.broker_rack)


def leader_of(context: HandlerContext, topic: str, index: int) -> tuple[int, int, Endpoint | None]:
    """A partition's leader, leader epoch, and leader endpoint for the client (KIP-951); -1, -1, None if unknown."""
    known = context.broker.metadata.image.topics.get(topic)
    if known is None or not 0 <= index < len(known.partitions) or (topic, index) in context.broker.partitions.opening:
        return -1, -1, None
    state = known.partitions[index]
    leaders = [endpoint for endpoint in endpoints(context) if endpoint.node_id == state.leader]
    return state.leader, state.leader_epoch, leaders[0] if leaders else None
