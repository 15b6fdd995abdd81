"""Higher leader epochs for partitions whose logs lost records while the broker ran, if its metadata are its own log.

`Leadership.await_epoch` stops serving such a partition. `LeaderEpochBumps` submits one change with higher epochs
for all such partitions of a turn. Once the change is stored, `ReplicaManager.follow` serves the partitions again. A
failed change is retried, at growing intervals: a partition is never served under an epoch in which records were lost.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from headgate.gateway.metadata.planning.leader_epochs import raise_leader_epochs
from headgate.gateway.runtime.backoff import Backoff
from headgate.protocol.errors import KafkaError
from headgate.storage.disk.checkpoint import TopicPartition

if TYPE_CHECKING:
    from headgate.gateway.metadata.store import Change, MetadataStore
    from headgate.gateway.replication.replica_manager import ReplicaManager
    from headgate.gateway.runtime.scheduler import Scheduler

logger = logging.getLogger("headgate.replication")

FIRST_WAIT_MS, LONGEST_WAIT_MS = 1_000.0, 16_000.0


class LeaderEpochBumps:
    """Requests higher leader epochs from the metadata until no partition waits for one."""

    def __init__(self, metadata: MetadataStore, partitions: ReplicaManager, scheduler: Scheduler) -> None:
        self._metadata = metadata
        self._partitions = partitions
        self._scheduler = scheduler
        self._pending: dict[TopicPartition, Change] = {}
        self._backoff = Backoff(FIRST_WAIT_MS, LONGEST_WAIT_MS)
        self._is_due = self._is_waiting = False
        if partitions.leadership.awaiting_epoch:
            self.soon()

    def soon(self) -> None:
        """Run soon: a partition needs a higher leader epoch."""
        if not self._is_due:
            self._is_due = True
            self._scheduler.call_soon(self._run)

    def _run(self) -> None:
        self._is_due = False
        for key in [key for key, change in self._pending.items() if change.is_settled]:
            error = self._pending.pop(key).error
            if error is not None:
                self._log_failure([key], error)
        wanted = {
            key: epoch for key, epoch in self._partitions.leadership.awaiting_epoch.items() if key not in self._pending
        }
        if wanted:
            self._metadata.renew_image()
            self._ask(wanted)
        if self._partitions.leadership.awaiting_epoch:
            self._check_again()
        else:
            self._backoff.reset()

    def _ask(self, wanted: dict[TopicPartition, int]) -> None:
        try:
            change = self._metadata.submit(raise_leader_epochs(self._metadata.planned, wanted))
        except KafkaError as error:
            self._log_failure(wanted, error)
            return
        if not change.is_settled:
            self._pending.update(dict.fromkeys(wanted, change))

    def _log_failure(self, keys: Iterable[TopicPartition], error: KafkaError) -> None:
        names = ", ".join(f"{topic}-{index}" for topic, index in keys)
        logger.error("%s: not served until a higher leader epoch can be written: %s", names, error.message)

    def _check_again(self) -> None:
        """Check again later: the change may fail, or take long."""
        if not self._is_waiting:
            self._is_waiting = True
            self._scheduler.call_after(self._backoff.next_wait_ms(), self._waited)

    def _waited(self) -> None:
        self._is_waiting = False
        self._run()
