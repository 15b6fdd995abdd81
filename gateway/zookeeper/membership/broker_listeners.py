"""The listeners by which the brokers of a cluster reach each other, by their registrations.

They differ while a cluster changes from one listener to another by rolling restarts: a broker then takes orders on the
listener of its own settings, and on those that other brokers use. A broker of Kafka does not say which one it uses, and
serves orders on every listener: so does each broker beside it.
"""

from __future__ import annotations

import logging
from typing import Final

from headgate.gateway.runtime.tasks import Lock, Task, Tasks
from headgate.gateway.zookeeper.layout.brokers import BROKER_IDS_PATH, BrokerRegistration, broker_id_of
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.requests import Failed, children, get_many
from headgate.gateway.zookeeper.session import Session

logger = logging.getLogger("headgate.zookeeper")

_UNREADABLE: Final = ""
READ_EVERY_MS: Final = 1_000.0
"""However many requests ask, the registrations are read once in this time."""


class BrokerListeners:
    """Reads the registrations when a request of a broker comes on another listener than this broker uses."""

    def __init__(self, session: Session, tasks: Tasks) -> None:
        self._session = session
        self._tasks = tasks
        self._reading = Lock(tasks.scheduler)
        self._known: frozenset[str | None] = frozenset()
        self._due_ms = 0.0

    def is_used(self, listener: str) -> Task[bool]:
        """Whether a registered broker reaches others by this listener. Without ZooKeeper, the last answer counts."""
        turn = self._reading.turn()
        try:
            yield turn.acquire
            if self._tasks.monotonic_ms() >= self._due_ms:
                yield from self._read()
        finally:
            turn.release()
        return None in self._known or listener in self._known

    def _read(self) -> Task[None]:
        try:
            names = yield from children(self._session, BROKER_IDS_PATH)
            nodes = yield from get_many(self._session, [f"{BROKER_IDS_PATH}/{name}" for name in names])
        except Failed as error:
            logger.warning("the listeners between brokers cannot be read: %s", error)
        else:
            found = [_listener(name, node.data) for name, node in zip(names, nodes, strict=True) if node is not None]
            self._known = frozenset(name for name in found if name != _UNREADABLE)
        self._due_ms = self._tasks.monotonic_ms() + READ_EVERY_MS


def _listener(name: str, data: bytes | None) -> str | None:
    try:
        return BrokerRegistration.decode(broker_id_of(name), data).inter_broker_listener
    except InvalidNode:
        return _UNREADABLE
