"""The metadata of a single node: the image is the replay of `__headgate_metadata-0`.

A change is one batch of that log. After a failed write the log has neither the change nor any later change that
was planned with it. While a thread waits for the disk (`metadata_log.py`), the plan of a further change includes the
pending ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from headgate.gateway.metadata.image import Image, Node
from headgate.gateway.metadata.metadata_log import LOG_CONFIG, MetadataLog
from headgate.gateway.metadata.new_topics import METADATA_TOPIC, METADATA_TOPIC_ID
from headgate.gateway.metadata.store import Change, MetadataStore, Prepare, prepare_nothing
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.tasks import WaitList
from headgate.protocol.internal.metadata import RegisterBrokerRecord, RemoveTopicRecord
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.errors import StorageError

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig
    from headgate.gateway.runtime.scheduler import Scheduler


class MetadataLogStore(MetadataStore):
    """The metadata in a log of this broker's own."""

    def __init__(
        self,
        log_manager: LogManager,
        config: BrokerConfig,
        clock: Clock,
        random: Random,
        image: Image,
        scheduler: Scheduler,
        prepare: Prepare = prepare_nothing,
        touch: Callable[[WaitList], None] = lambda _: None,
    ) -> None:
        """`image` is the replay of the log. Raises StorageError without a log in a directory that is not new."""
        log = log_manager.logs.get((METADATA_TOPIC, 0))
        if log is None:
            check_fresh(log_manager)
            log = log_manager.create(METADATA_TOPIC, 0, METADATA_TOPIC_ID, LOG_CONFIG)
        log.configure(LOG_CONFIG)
        self.metadata_log = MetadataLog(log, scheduler)
        self._clock = clock
        brokers = {config.node_id: Node(config.node_id, config.broker_rack, {})}
        image = image._replace(cluster_id=log_manager.cluster_id, controller_id=config.node_id, brokers=brokers)
        super().__init__(image, config, random, prepare, touch)

    @property
    def end_offset(self) -> int:
        """The number of records in the metadata log."""
        return self.metadata_log.end_offset

    @property
    def directory(self) -> str:
        return self.metadata_log.directory

    @property
    def removed_unseen(self) -> set[bytes]:
        """The ids of topics whose deletion is in the log, but not in `image` yet."""
        written = (change for change in self._pending if change.is_written and change.error is None)
        records = (record for change in written for record in change.records)
        return {record.topic_id for record in records if isinstance(record, RemoveTopicRecord)}

    def register(self, record: RegisterBrokerRecord) -> None:
        """Write the registration of this start, and apply it, before the broker serves anything.

        Raises KafkaError(KAFKA_STORAGE_ERROR), and then nothing has changed.
        """
        self.metadata_log.append([record], self._clock.now_ms())
        self.image = self.image.apply(record)

    def _write(self, change: Change) -> None:
        self.metadata_log.submit(change.records, self._clock.now_ms(), partial(self._written, change))


def check_fresh(log_manager: LogManager) -> None:
    """Raises StorageError unless the directory is new: a new metadata log would disown the partitions beside it."""
    damaged = log_manager.failed.get((METADATA_TOPIC, 0))
    if damaged is not None:
        raise damaged
    if log_manager.refused:
        raise StorageError(
            f"no log {METADATA_TOPIC}-0 is in {log_manager.directory}; it may be in"
            f" {', '.join(log_manager.refused)}, which cannot be used: repair that directory, and start again"
        )
    known = len(log_manager)
    if known:
        raise StorageError(
            f"{log_manager.directory} holds {known} partitions but no log {METADATA_TOPIC}-0, which knows their topics:"
            " the directory is another program's, or the log was lost; restore the log, or choose another log.dirs"
        )
