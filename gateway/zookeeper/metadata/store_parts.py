"""What the parts of the metadata store share: the session, the watches, the known nodes, and the image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headgate.gateway.metadata.image import Image, Node
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.zookeeper.metadata.cluster_nodes import ClusterNodes
from headgate.gateway.zookeeper.metadata.reading import Watches
from headgate.gateway.zookeeper.session import Session
from headgate.protocol.internal.metadata import MetadataRecord

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig
    from headgate.gateway.metadata.store import Change


class ImageStore(Protocol):
    """The image and its changes, as the parts of the store see them."""

    @property
    def written_image(self) -> Image:
        """The image of everything that is known to be in ZooKeeper."""

    @property
    def planned(self) -> Image:
        """The image after all pending changes."""

    def apply_external(self, records: Sequence[MetadataRecord]) -> None:
        """Apply changes that other programs have written to ZooKeeper."""

    def apply_brokers(self, brokers: Mapping[int, Node]) -> None:
        """Publish the live brokers."""

    def delete_topic(self, name: str) -> Change:
        """Delete a topic. Raises KafkaError."""

    def submit(self, records: Sequence[MetadataRecord]) -> Change:
        """Submit a change. Raises KafkaError."""


class StoreParts(NamedTuple):
    """The parts; each part of the store has all of them."""

    session: Session
    watches: Watches
    nodes: ClusterNodes
    config: BrokerConfig
    random: Random
    clock: Clock
    store: ImageStore
    is_alone: bool
    """Whether this broker refuses every other one. Otherwise others write to ZooKeeper too, and one is elected."""
