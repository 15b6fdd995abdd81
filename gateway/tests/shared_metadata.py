"""Metadata in memory that other brokers change as well: it stands for ZooKeeper where a test is about any store.

The store is optimistic: it refuses a change of something that another broker has changed since the change was planned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from random import Random

from headgate.gateway.app.metadata_sources import Foundation
from headgate.gateway.config import BrokerConfig
from headgate.gateway.metadata.image import Image, Node
from headgate.gateway.metadata.store import Change, MetadataStore, Prepare, prepare_nothing
from headgate.gateway.runtime.broker_links import BrokerLinks
from headgate.gateway.runtime.tasks import Tasks, WaitList
from headgate.gateway.tests.quiet_source import QuietSource
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

OTHER_BROKER = "99"


class Cluster:
    """The store itself: what all brokers see, and the broker under test as its only other client."""

    def __init__(self) -> None:
        self.image = Image.empty()
        self.version = 0
        self.broker: SharedMetadata | None = None

    def store(self, records: Sequence[MetadataRecord]) -> None:
        self.image = self.image.apply_all(records)
        self.version += 1

    def change(self, *records: MetadataRecord) -> None:
        """Another broker changes this; the broker under test hears of it at once."""
        self.store(records)
        if self.broker is not None:
            self.broker.hear(records)

    def change_something(self) -> None:
        """Another broker changes what is nobody else's business."""
        if self.broker is not None:
            self.change(ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=OTHER_BROKER, name="x", value=None))


class SharedMetadata(MetadataStore):
    """The metadata of a broker in a cluster. While `is_held`, changes wait for `write`."""

    def __init__(
        self,
        cluster: Cluster,
        config: BrokerConfig,
        random: Random,
        prepare: Prepare = prepare_nothing,
        touch: Callable[[WaitList], None] = lambda _: None,
    ) -> None:
        brokers = {config.node_id: Node(config.node_id, config.broker_rack, {})}
        image = cluster.image._replace(cluster_id="shared", controller_id=config.node_id, brokers=brokers)
        super().__init__(image, config, random, prepare, touch)
        self._cluster = cluster
        cluster.image, cluster.broker = image, self
        self.is_held = False
        self.refuses: KafkaError | None = None
        """The error of all further changes, which the store refuses at once."""
        self._submitted: deque[tuple[Change, set[tuple[object, ...]]]] = deque()
        self._overtaken: set[Change] = set()

    @property
    def end_offset(self) -> int:
        return self._cluster.version

    def _write(self, change: Change) -> None:
        if self.refuses is not None:
            raise self.refuses
        images = (self.written_image, *(pending.image for pending in self._pending))
        self._submitted.append((change, _touched(change.records, *images)))
        if not self.is_held:
            self.write()

    def write(self) -> None:
        """Store all changes that wait, in order; somebody else is faster with something else before each."""
        while self._submitted:
            self._cluster.change_something()
            change, touched = self._submitted.popleft()
            if change in self._overtaken:
                self._overtake(touched)  # what was planned upon it falls with it
                self._written(change, self._refusal(change, touched))
            else:
                self._cluster.store(change.records)
                self._written(change, None)

    def hear(self, records: Sequence[MetadataRecord]) -> None:
        """Another broker has changed this."""
        self._overtake(_touched(records, self.written_image, self._cluster.image))
        self._written_by_others(records)

    def _overtake(self, touched: set[tuple[object, ...]]) -> None:
        self._overtaken.update(change for change, own in self._submitted if own & touched)

    def _refusal(self, change: Change, touched: set[tuple[object, ...]]) -> KafkaError:
        topics = self._cluster.image.topics
        if any(isinstance(record, TopicRecord) and record.name in topics for record in change.records):
            return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, "another broker has created the topic")
        if any(kind == "topic" and name not in topics for kind, name in touched):
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "another broker has deleted the topic")
        return KafkaError(ErrorCode.NOT_CONTROLLER, "another broker was faster; ask again")


class SharedSource(QuietSource):
    """The metadata of a broker in a cluster, as the wiring takes them."""

    def __init__(self, cluster: Cluster, base: Foundation) -> None:
        super().__init__(cluster.image, base)
        self._cluster = cluster

    def open(self, prepare: Prepare, tasks: Tasks, _links: BrokerLinks) -> tuple[MetadataStore, bool]:
        return SharedMetadata(self._cluster, self._base.config, self._base.random, prepare, tasks.touch), False


def _touched(records: Iterable[MetadataRecord], *images: Image) -> set[tuple[object, ...]]:
    """What records change, as kind and name."""
    touched = set[tuple[object, ...]]()
    for record in records:
        match record:
            case TopicRecord():
                touched.add(("topic", record.name))
            case PartitionRecord() | RemoveTopicRecord():
                names = (image.topic_names.get(record.topic_id) for image in images)
                touched.update(("topic", name) for name in names if name is not None)
            case ConfigRecord():
                kind = "topic" if record.resource_type == TOPIC_RESOURCE else record.resource_type
                touched.add((kind, record.resource_name))
            case FeatureLevelRecord():
                touched.add(("feature", record.name))
            case _:
                touched.add((type(record), ""))
    return touched
