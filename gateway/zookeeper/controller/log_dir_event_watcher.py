"""The notifications of brokers whose log directories have failed, or work again (`/log_dir_event_notification`).

The controller sends such a broker all its partitions once more, and then deletes the notifications. The answer names
the replicas that are offline (`order_sender.py`). A notification that is lost with its controller is no loss: the next
controller sends every broker all partitions. Source: Apache Kafka's `KafkaController.processLogDirEventNotification`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from headgate.gateway.runtime.tasks import Task, gather
from headgate.gateway.zookeeper.layout.log_dir_events import LOG_DIR_EVENTS_PATH, LogDirEvent
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.metadata.reading import StoreParts
from headgate.gateway.zookeeper.requests import children, delete, get_many

logger = logging.getLogger("headgate.zookeeper")


class LogDirEventWatcher:
    """Reads and deletes the notifications."""

    def __init__(self, parts: StoreParts, send_all: Callable[[int], None]) -> None:
        """`send_all(broker_id)`: send a broker all its partitions."""
        self._session = parts.session
        self._watches = parts.watches
        self._send_all = send_all

    def refresh(self) -> Task[None]:
        """Carry out the notifications that are there. Raises Failed."""
        names = yield from children(self._session, LOG_DIR_EVENTS_PATH, self._watches.note)
        found = yield from get_many(self._session, [f"{LOG_DIR_EVENTS_PATH}/{name}" for name in names])
        brokers = set[int]()
        for name, node in zip(names, found, strict=True):
            if node is not None:
                brokers |= _decoded(name, node.data)
        for broker_id in sorted(brokers):
            logger.info("broker %d has other offline replicas than before: it is asked which", broker_id)
            self._send_all(broker_id)
        yield from gather([delete(self._session, f"{LOG_DIR_EVENTS_PATH}/{name}") for name in names])


def _decoded(name: str, data: bytes | None) -> set[int]:
    try:
        return {LogDirEvent.decode(name, data).broker_id}
    except InvalidNode as error:
        logger.error("%s; the notification is deleted", error)
        return set()
