"""`/brokers/ids/<id>`: the addresses of this broker, for clients of the 0.8 age and for Kafka's tools."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headgate.gateway.config.listeners import Listener
from headgate.gateway.runtime.tasks import Task
from headgate.gateway.zookeeper.layout.brokers import AdvertisedEndpoint, BrokerRegistration
from headgate.gateway.zookeeper.layout.owner import SessionOwner
from headgate.gateway.zookeeper.membership.joining import JoiningBroker, Overtaken, commit
from headgate.gateway.zookeeper.requests import get
from headgate.gateway.zookeeper.session import Check, Create, Operation, Session, Watch

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig

logger = logging.getLogger("headgate.zookeeper")


def registration(config: BrokerConfig, ports: Mapping[str, int], now_ms: int) -> BrokerRegistration:
    """The registration of this broker. `ports`: open ports by listener; the others have their configured port."""
    endpoints = [_endpoint(config, listener, ports.get(listener.name, listener.port)) for listener in config.listeners]
    return BrokerRegistration(
        tuple(endpoints), now_ms, config.broker_rack, inter_broker_listener=config.inter_broker_listener
    )


def _endpoint(config: BrokerConfig, listener: Listener, port: int) -> AdvertisedEndpoint:
    host, port = config.advertised_address(listener.name, listener.host, port)
    return AdvertisedEndpoint(listener.name, host, port, config.listener_security_protocol_map[listener.name])


def register(session: Session, member: JoiningBroker, wanted: BrokerRegistration, watch: Watch) -> Task[int]:
    """Create the registration, unless this session has it. Returns its transaction: the broker epoch, as in Kafka.

    `watch` fires when the registration is gone. Raises Overtaken, ZooKeeperRefusal, Lost.
    """
    path = BrokerRegistration.path(member.node_id)
    found = yield from get(session, path, watch)
    if found is None:
        operations: list[Operation] = [
            Check(SessionOwner.path(member.node_id)),
            Create(path, wanted.encode(), is_ephemeral=True),
        ]
        yield from commit(session, member, operations, "the registration")
        addresses = ", ".join(map(str, wanted.endpoints))
        logger.info("broker %d is registered in ZooKeeper at %s with %s", member.node_id, member.connect, addresses)
        found = yield from get(session, path, watch)
    if found is None or found.stat.ephemeral_owner != session.session_id:
        raise Overtaken(f"{path} is another session's")
    return found.stat.czxid
