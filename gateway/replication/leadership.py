"""Leadership: the partitions that this broker serves in a leader epoch, and those that wait for a higher epoch.

A log may have lost records that consumers have read, or have records of another history in the present leader epoch.
Such a partition is not served until the metadata has a higher leader epoch for it. Without ZooKeeper this broker raises
the epoch (`leader_epoch_bumps.py`), in a cluster the controller (`gateway/zookeeper/membership/failed_replicas.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from headgate.gateway.config import BrokerConfig
from headgate.gateway.metadata.image import Topic
from headgate.gateway.replication.directory_status import DirectoryStatus
from headgate.gateway.replication.events import ReplicationEvents
from headgate.gateway.replication.in_sync_replicas import InSyncReplicas
from headgate.gateway.replication.partition_states import PartitionState, PartitionStates, Unavailable
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.tasks import Tasks
from headgate.storage.config import LogConfig
from headgate.storage.disk.checkpoint import TopicPartition
from headgate.storage.files import parent
from headgate.storage.log.log import Log
from headgate.storage.log.validation import BROKER, CLIENT, Depth

logger = logging.getLogger("headgate.replication")


class Leadership:
    """The service of the partitions that this broker leads."""

    def __init__(
        self,
        states: PartitionStates,
        directories: Mapping[str, DirectoryStatus],
        config: BrokerConfig,
        tasks: Tasks,
        events: ReplicationEvents,
        high_watermark: Callable[[TopicPartition], int],
    ) -> None:
        """`high_watermark`: of a partition, as of the last checkpoint."""
        self.in_sync_replicas = InSyncReplicas(config, tasks)
        self._high_watermark = high_watermark
        self._states = states
        self._directories = directories
        self._config = config
        self._tasks = tasks
        self._events = events
        self._touch = tasks.touch  # one bound method for all replicas
        self.epochs_are_raised = True
        """Whether this start has raised all leader epochs, so that the epochs in logs are of the past."""
        self.has_legacy_format = False
        """Whether any log opened so far may hold messages of magic 0 and 1, which have to be converted."""
        self.elections = 0
        """How often a partition began to be led here in a leader epoch."""

    def apply(self, replica: Replica, topic: Topic, log_config: LogConfig) -> None:
        """Apply the image's state of a partition, and the settings of its topic."""
        state = topic.partitions[replica.index]
        is_raised = state.leader_epoch > replica.latest_epoch
        self.elections += state.leader_epoch > replica.leader_epoch
        # First: a replica without followers commits all its records
        replica.assign(*state[:5], self._tasks.monotonic_ms())
        replica.configure(log_config)
        if replica.progress is not None:
            self.in_sync_replicas.watch(replica)
        if is_raised and self._states.state(replica.log.key) is PartitionState.AWAITING_EPOCH:
            self._serve_again(replica)

    def serve(self, topic: Topic, index: int, log: Log, log_config: LogConfig) -> None:
        """Serve a partition whose log exists."""
        if log.topic_id == topic.topic_id:
            log.share_topic_id(topic.topic_id)
        self.has_legacy_format = self.has_legacy_format or log.segments.has_legacy_format
        status = self._directories[parent(log.directory)]
        depth, origin = Depth(self._config.headgate_validate_records), BROKER if topic.is_internal else CLIENT
        state = topic.partitions[index]
        self.elections += 1
        checkpointed = self._high_watermark(log.key) if len(state.replicas) > 1 else None
        replica = Replica(
            topic.name, index, log, state.leader_epoch, self._touch, status.disk, depth, origin, checkpointed
        )
        if self._has_later_epoch(replica):
            self._await_epoch(replica)
        else:
            self._states.move(log.key, replica)
            if status.is_avoided:
                self.check_writable(replica)
        self.apply(replica, topic, log_config)

    def _has_later_epoch(self, replica: Replica) -> bool:
        """Whether the log has the metadata's leader epoch or a later one: another history wrote it."""
        log = replica.log
        return log.epochs.latest >= replica.leader_epoch + (not self.epochs_are_raised)

    def log_was_truncated(self, log: Log) -> None:
        """Handle the truncation of a log. If others may have the lost records, a higher leader epoch is needed."""
        replica = self._states.replica(log.key)
        if replica is not None and replica.log is log:
            may_be_elsewhere = replica.apply_truncation()
            if may_be_elsewhere:
                self.await_epoch(replica)
            for listener in self._events.truncated:
                listener(replica)

    def await_epoch(self, replica: Replica) -> None:
        """Stop serving a partition until its leader epoch is higher: its log lost records that clients may know."""
        key = replica.log.key
        if self._states.state(key) is PartitionState.ONLINE:
            self._await_epoch(replica)
            replica.notify()

    def _await_epoch(self, replica: Replica) -> None:
        key = replica.log.key
        self._states.move(key, Unavailable(PartitionState.AWAITING_EPOCH, replica=replica))
        self.check_writable(replica)
        logger.warning("%s-%d is not served until it has a leader epoch above %d", *key, replica.latest_epoch)
        for listener in self._events.replicas_failed:
            listener()

    @property
    def awaiting_epoch(self) -> dict[tuple[str, int], int]:
        """(topic, index) -> the epoch to exceed, for partitions that need a higher leader epoch."""
        return {replica.log.key: replica.latest_epoch for replica in self._states.awaiting_epoch()}

    def _serve_again(self, replica: Replica) -> None:
        """Serve a partition under its present leader epoch."""
        key = replica.log.key
        self._states.move(key, replica)
        self.check_writable(replica)
        logger.warning("%s-%d is served again, in leader epoch %d", *key, replica.leader_epoch)
        replica.notify()

    def check_writable(self, replica: Replica) -> None:
        """Have a replica refuse clients if its directory accepts no writes, or if it waits for a leader epoch."""
        found = self._states.unavailable(replica.log.key)
        if found is not None and found.replica is replica:
            replica.read_only = found.refusal(*replica.log.key)
        else:
            replica.read_only = self._directories[parent(replica.log.directory)].refusal(replica.topic)
