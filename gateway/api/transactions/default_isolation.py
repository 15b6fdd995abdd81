"""The isolation level of clients that cannot ask for one: Fetch before version 4, ListOffsets before version 2.

`headgate.fetch.isolation.default` has the level: of the listener, if that has a value of its own, else of the topic,
else of the broker. With read_committed such a client sees a log that ends before the first open transaction, without
aborted records; offsets stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from headgate.gateway.api.context import HandlerContext
from headgate.gateway.replication.replica import READ_UNCOMMITTED, Replica
from headgate.storage.config import ISOLATION_LEVELS

IsolationOf: TypeAlias = Callable[[Replica], int]
"""Replica -> isolation level of the reader."""


def default_isolation(context: HandlerContext, replica_id: int) -> IsolationOf:
    """The isolation level for each partition; a follower (`replica_id` >= 0) reads everything."""
    if replica_id >= 0:
        return lambda _: READ_UNCOMMITTED
    of_listener = context.broker.config.listener_value(context.client.listener, "headgate.fetch.isolation.default")
    if of_listener is not None:
        level = ISOLATION_LEVELS.index(of_listener)
        return lambda _: level
    return lambda replica: replica.log.config.default_isolation_level
