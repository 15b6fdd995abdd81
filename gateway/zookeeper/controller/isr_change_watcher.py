"""The notifications of leaders that have changed the in-sync replicas of partitions (`/isr_change_notification`).

The controller reads the states of these partitions, publishes the differences, and then deletes the notifications.
"""

from __future__ import annotations

import logging
from typing import Final

from headgate.gateway.metadata.records import partition_records
from headgate.gateway.runtime.tasks import Task, gather
from headgate.gateway.zookeeper.controller.leader_elections import LeaderElections
from headgate.gateway.zookeeper.controller.live_brokers import LiveBrokers
from headgate.gateway.zookeeper.layout.isr_changes import ISR_CHANGES_PATH, IsrChange
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.topics import LeaderAndIsr
from headgate.gateway.zookeeper.metadata.reading import StoreParts
from headgate.gateway.zookeeper.metadata.served_image import served_state
from headgate.gateway.zookeeper.requests import children, delete, get_many
from headgate.gateway.zookeeper.session import NodeData
from headgate.protocol.internal.metadata import MetadataRecord

logger = logging.getLogger("headgate.zookeeper")

READ_AT_ONCE: Final = 256
"""The most partitions in one published change."""


class IsrChangeWatcher:
    """Reads and deletes the notifications."""

    def __init__(self, parts: StoreParts, brokers: LiveBrokers, elections: LeaderElections) -> None:
        self._session = parts.session
        self._watches = parts.watches
        self._nodes = parts.nodes
        self._config = parts.config
        self._store = parts.store
        self._brokers = brokers
        self._elections = elections

    def refresh(self) -> Task[None]:
        """Carry out the notifications that are there. Raises Failed."""
        names = yield from children(self._session, ISR_CHANGES_PATH, self._watches.note)
        found = yield from get_many(self._session, [f"{ISR_CHANGES_PATH}/{name}" for name in names])
        partitions = dict[tuple[str, int], None]()
        for name, node in zip(names, found, strict=True):
            partitions |= {} if node is None else _decoded(name, node.data)
        known = [key for key in partitions if self._store.written_image.has_partition(*key)]
        for first in range(0, len(known), READ_AT_ONCE):
            yield from self._read(known[first : first + READ_AT_ONCE])
        yield from gather([delete(self._session, f"{ISR_CHANGES_PATH}/{name}") for name in names])

    def _read(self, partitions: list[tuple[str, int]]) -> Task[None]:
        found = yield from get_many(self._session, [LeaderAndIsr.path(*key) for key in partitions])
        records = list[MetadataRecord]()
        for (name, index), node in zip(partitions, found, strict=True):
            if node is not None:
                records += self._differences(name, index, node)
        if records:
            self._store.apply_external(records)
            self._elections.replay(records)

    def _differences(self, name: str, index: int, found: NodeData) -> list[MetadataRecord]:
        """The record of a state that the image does not have."""
        topic, nodes = self._store.written_image.topics.get(name), self._nodes.topic(name)
        if topic is None or nodes is None or index >= len(topic.partitions):
            return []
        try:
            state = LeaderAndIsr.decode(name, index, found.data)
        except InvalidNode as error:
            self._nodes.unreadable.note((), [error])
            return []
        nodes.states[index] = state
        known = topic.partitions[index]
        read = known._replace(
            leader=state.leader, leader_epoch=state.leader_epoch, isr=state.isr, partition_epoch=found.stat.version
        )
        served = served_state(read, found.stat.mzxid, known, self._config.node_id, self._brokers.epochs)
        return partition_records(topic.topic_id, index, (served,)) if served != known else []


def _decoded(name: str, data: bytes | None) -> dict[tuple[str, int], None]:
    try:
        return dict.fromkeys(IsrChange.decode(name, data).partitions)
    except InvalidNode as error:
        logger.error("%s; the notification is deleted", error)
        return {}
