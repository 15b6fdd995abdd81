"""What a broker does by itself, time and again: flush, roll and expire logs, and write checkpoints.

Waiting for the disk is done in worker threads: flushes (`replication/syncs.py`), checkpoints, removing what was
deleted. Everything else is short, and runs on the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from gateway.clock import Clock
from gateway.config import BrokerConfig
from gateway.metadata.image import Image
from gateway.replication.partitions import Partitions
from gateway.scheduler import Scheduler
from protocol.errors import KafkaError
from storage.stores import Stores

logger = logging.getLogger("headgate.upkeep")

# How often logs are asked whether a flush is due; `log.flush.scheduler.interval.ms` makes it more often.
FLUSH_CHECK_MS = 1_000
# How often partitions that could not be opened are tried again.
RETRY_MS = 1_000
# How often the files of deleted topics are removed. Kafka leaves them there for a minute.
REMOVE_MS = 1_000


class Upkeep:
    """The recurring work on the logs of one store."""

    def __init__(
        self,
        store: Stores,
        partitions: Partitions,
        image: Callable[[], Image],
        config: BrokerConfig,
        clock: Clock,
        scheduler: Scheduler,
    ) -> None:
        self._store = store
        self._partitions = partitions
        self._clock = clock
        self._scheduler = scheduler
        self._is_checkpointing = self._is_removing = False
        self._config = config
        flush_check_ms = min(config.log_flush_scheduler_interval_ms, FLUSH_CHECK_MS)
        self._works: list[tuple[float, Callable[[], None]]] = [
            (config.replica_high_watermark_checkpoint_interval_ms, self.checkpoint),
            (config.log_retention_check_interval_ms, self.expire),
            (RETRY_MS, lambda: partitions.retry(image())),
            (config.producer_id_expiration_check_interval_ms, self.expire_producers),
            (flush_check_ms, self.flush_due),
            (REMOVE_MS, self.remove_deleted),
        ]

    def start(self) -> None:
        """Do each work once its interval has passed, and again after each further one."""
        for interval_ms, work in self._works:
            self._again(interval_ms, work)

    def _again(self, interval_ms: float, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            finally:
                self._again(interval_ms, work)

        self._scheduler.call_after(interval_ms, run)

    def checkpoint(self) -> None:
        """Write down high watermarks, recovery points and log starts, in a thread."""
        if self._is_checkpointing:
            return
        self._is_checkpointing = True
        write = self._store.begin_checkpoint({(p.topic, p.index): p.high_watermark for p in self._partitions})
        self._scheduler.in_thread(write, self._checkpointed)

    def _checkpointed(self, result: object) -> None:
        self._is_checkpointing = False
        if isinstance(result, BaseException):
            logger.error("the checkpoints of %s cannot be written: %s", self._store.directory, result)

    def remove_deleted(self) -> None:
        """Remove the files of deleted partitions, in a thread."""
        if self._store.has_deleted and not self._is_removing:
            self._is_removing = True
            self._scheduler.in_thread(self._store.remove_deleted, self._removed)

    def _removed(self, result: object) -> None:
        self._is_removing = False
        if isinstance(result, BaseException):
            logger.error("deleted partitions in %s cannot be removed: %s", self._store.directory, result)

    def expire(self) -> None:
        """Roll what is old enough, and delete what retention no longer keeps."""
        now_ms = self._clock.now_ms()
        for partition in self._partitions:
            try:
                partition.log.roll_if_due(now_ms)
                partition.log.delete_old_segments(now_ms, partition.high_watermark)
            except (OSError, KafkaError) as error:
                logger.error("old segments of %r cannot be removed: %s", partition.log, error)

    def expire_producers(self) -> None:
        """Forget producers that have not written for `producer.id.expiration.ms`."""
        now_ms = self._clock.now_ms()
        for partition in self._partitions:
            partition.log.producers.expire(now_ms, self._config.producer_id_expiration_ms)

    def flush_due(self) -> None:
        """Flush the logs that ask for it: those with flush.ms, and those that have begun a new segment."""
        now_ms = self._clock.now_ms()
        for partition in self._partitions:
            if partition.log.needs_flush(now_ms):
                partition.sync_soon()
