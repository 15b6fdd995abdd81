"""The leader epochs that this broker raises as the controller, in changes of `RAISED_AT_ONCE` partitions.

A partition whose leader in ZooKeeper is this broker, or a broker that is gone, has no leader in the image until the
next leader epoch is written.
"""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING, Final

from headgate.gateway.metadata.image import Image, Topic
from headgate.gateway.metadata.records import partition_records
from headgate.gateway.zookeeper.metadata import plans
from headgate.gateway.zookeeper.metadata.reading import StoreParts
from headgate.protocol.errors import KafkaError
from headgate.protocol.internal.metadata import MetadataRecord

if TYPE_CHECKING:
    from headgate.gateway.metadata.store import Change

logger = logging.getLogger("headgate.zookeeper")

RAISED_AT_ONCE: Final = 32
"""The leader epochs in one change: the loop needs about two milliseconds for them."""


class LeaderEpochs:
    """The partitions that wait for their next leader epoch, and the change that raises some of them."""

    def __init__(self, parts: StoreParts) -> None:
        self.leaderless: dict[tuple[str, int], None] = {}
        """Partitions that this broker has to lead, but does not lead yet."""
        self._nodes = parts.nodes
        self._config = parts.config
        self._store = parts.store
        self._given_up: dict[tuple[str, int], int] = {}  # partitions without a leader -> their partition epochs
        self._raising: Change | None = None
        self._raised_at_once = RAISED_AT_ONCE

    def find_leaderless(self, topic: Topic) -> None:
        """Add the topic's partitions that this broker has to lead, but does not lead yet, to `leaderless`."""
        nodes, node_id = self._nodes.topic(topic.name), self._config.node_id
        if nodes is None or topic.name in self._nodes.deleting:
            return
        for index, state in enumerate(topic.partitions):
            if state.leader != node_id and self._given_up.get((topic.name, index)) != state.partition_epoch:
                found = nodes.states.get(index)
                kept = state._replace(leader=-1 if found is None else found.leader)
                if plans.may_lead(kept, node_id, self._store.written_image.brokers):
                    self.leaderless[topic.name, index] = None

    def _give_up(self, name: str, index: int) -> None:
        """Leave a partition without a leader until its node changes: its next leader epoch cannot be written."""
        del self.leaderless[name, index]
        topic = self._store.written_image.topics.get(name)
        if topic is not None:
            self._given_up[name, index] = topic.partitions[index].partition_epoch

    def log_foreign(self, image: Image) -> None:
        """Log the partitions that nothing here can lead."""
        names = [
            f"{topic.name}-{index}"
            for topic in image.topics.values()
            for index in range(len(topic.partitions))
            if (topic.name, index) not in self.leaderless
        ]
        if names:
            logger.warning(
                "%d partitions have no copy in sync on this broker, and have no leader (%s): their brokers are gone",
                len(names), ", ".join(names[:5]) + (", ..." if len(names) > 5 else ""),
            )  # fmt: skip

    def raise_some(self) -> bool:
        """Submit the next leader epochs of some partitions. Returns whether every partition has its leader."""
        if self._raising is not None:
            return False
        records = self._raised_states()
        if records:
            self._raising = self._store.submit(records)
        else:
            self._raised_at_once = RAISED_AT_ONCE
        return not records

    def change_ended(self, change: Change, error: KafkaError | None, *, is_final: bool) -> bool:
        """Handle the end of a change. Returns whether the change raised leader epochs.

        After a final failure each partition is tried alone. A partition that fails alone is given up.
        """
        if change is not self._raising:
            return False
        self._raising = None
        if error is None or not is_final:
            return True
        if self._raised_at_once == 1:
            name, index = next(iter(self.leaderless))
            self._give_up(name, index)
            logger.error("partition %s-%d has no leader: its leader epoch cannot be written: %s", name, index,
                         error.message)  # fmt: skip
        self._raised_at_once = 1
        return True

    def _raised_states(self) -> list[MetadataRecord]:
        node_id, leaderless, planned = self._config.node_id, self.leaderless, self._store.planned
        records: list[MetadataRecord] = []
        while leaderless and not records:
            for name, index in list(islice(leaderless, self._raised_at_once)):
                topic = planned.topics.get(name)
                # A topic whose node was removed must not block the other partitions
                if topic is None or self._nodes.topic(name) is None or _is_led(topic, index, node_id):
                    del leaderless[name, index]
                else:
                    state = plans.led_by(topic.partitions[index], node_id, planned.brokers)
                    records += partition_records(topic.topic_id, index, (state,))
        return records


def _is_led(topic: Topic, index: int, node_id: int) -> bool:
    """Whether a partition needs no leader: this broker leads it, or the partition is gone."""
    return index >= len(topic.partitions) or topic.partitions[index].leader == node_id
