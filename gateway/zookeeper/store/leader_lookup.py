"""Look-ups of leaders: a broker that cannot reach ZooKeeper asks the other brokers who leads its partitions.

ZooKeeper ends the session of a broker that sends no heartbeats, and the controller gives its leads to other brokers.
Orders go to registered brokers only. So a broker that lost nothing but ZooKeeper would go on as leader and coordinator,
and would name itself to clients; a client with a connection to no other broker would never find the next leader.

The followers fetch from the next leader by then. Of partitions without a follower's fetch the broker asks the others
for the leaders. It takes over the states with a higher leader epoch than its own: it follows these leaders, and names
them to clients. While all of ZooKeeper is lost, followers go on to fetch, and no broker is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Final

from headgate.gateway.metadata.records import partition_records
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.broker_links import BrokerLinks, LinkLost
from headgate.gateway.runtime.tasks import SingleTask, Task, Tasks, at_most
from headgate.gateway.zookeeper.session import Session
from headgate.gateway.zookeeper.store.metadata_store import ZooKeeperMetadataStore
from headgate.protocol.errors import KafkaError
from headgate.protocol.internal.metadata import MetadataRecord
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headgate.protocol.wire import ZERO_UUID

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig

logger = logging.getLogger("headgate.zookeeper")

ANSWER_WITHIN_MS: Final = 2_000.0
"""The longest wait for one broker: it may stand still."""


class LeaderLookup:
    """Asks one broker after the other, until one of them knows newer leaders."""

    def __init__(
        self, store: ZooKeeperMetadataStore, session: Session, config: BrokerConfig, tasks: Tasks, links: BrokerLinks
    ) -> None:
        self._store = store
        self._session = session
        self._config = config
        self._tasks = tasks
        self._links = links
        self._asking = SingleTask()

    @property
    def is_needed(self) -> bool:
        """Whether other leaders may have been elected without an order to this broker."""
        return not self._session.is_connected

    def begin(self, replicas: Collection[Replica]) -> None:
        """Look up the leaders of partitions that this broker leads in its image."""
        names = sorted({replica.topic for replica in replicas})
        self._asking.start(partial(self._ask_all, names))

    def _ask_all(self, names: Collection[str]) -> Task[None]:
        topics = [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        for broker in list(self._store.image.brokers.values()):
            address = broker.endpoints.get(self._config.inter_broker_listener)
            if broker.node_id == self._config.node_id or address is None:
                continue
            client_id = f"broker-{self._config.node_id}-leaders"
            link = self._links.open(broker.node_id, *address, client_id, timeout_ms=ANSWER_WITHIN_MS)
            try:
                answer = yield at_most(self._tasks.scheduler, ANSWER_WITHIN_MS, link.ask(request))
            except (LinkLost, KafkaError):
                continue
            finally:
                link.close()
            if isinstance(answer, MetadataResponse) and self.is_needed and self._take_over(answer):
                return

    def _take_over(self, answer: MetadataResponse) -> bool:
        """Apply the states with a higher leader epoch. Returns whether there are any."""
        image, records = self._store.image, list[MetadataRecord]()
        for topic in answer.topics:
            known = image.topics.get(topic.name or "")
            if known is None or topic.topic_id not in (ZERO_UUID, known.topic_id):
                continue
            for row in topic.partitions:
                index, states = row.partition_index, known.partitions
                if 0 <= index < len(states) and row.leader_epoch > states[index].leader_epoch:
                    newer = states[index]._replace(
                        leader=row.leader_id, leader_epoch=row.leader_epoch, isr=tuple(row.isr_nodes)
                    )
                    records += partition_records(known.topic_id, index, [newer])
        if records:
            message = "%d partitions have newer leaders, of which this broker was not told: ZooKeeper cannot be reached"
            logger.warning(message, len(records))
            self._store.apply_states(records)
        return bool(records)
