"""A source of metadata without work of its own, for brokers of tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from headgate.gateway.app.metadata_sources import Foundation
from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.store import MetadataStore
from headgate.gateway.replication.leader_epoch_bumps import LeaderEpochBumps
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.runtime.tasks import Task, Tasks, as_task
from headgate.storage.errors import StorageError


class QuietSource:
    """All of `MetadataSource` but `open`."""

    broker_epoch = -1
    is_registered = True

    def __init__(self, image: Image, base: Foundation) -> None:
        self.image = image
        self._base = base

    def begin(self) -> None:
        self._base.log_manager.claim()

    def leader_lookup(self, _tasks: object, _links: object) -> None:
        """No other broker is there."""

    def controller_orders(self, _replicas: object, _tasks: object) -> None:
        pass

    def replicas_failed(self, metadata: MetadataStore, partitions: ReplicaManager, tasks: Tasks) -> Callable[[], None]:
        """Single brokers raise their epochs themselves."""
        return LeaderEpochBumps(metadata, partitions, tasks.scheduler).soon

    def start(self, _stall_watch: object) -> None:
        pass

    def announce(self, _ports: Mapping[str, int], resume: Callable[[StorageError | None], None]) -> None:
        resume(None)

    def leave(self, _replicas: object, _tasks: object, _links: object) -> Task[None]:
        return as_task(None)

    def stop(self) -> None:
        pass

    def follow(self, old: Image, new: Image, names: Collection[str]) -> None:
        pass

    def space_recovered(self, directory: str) -> None:
        pass
