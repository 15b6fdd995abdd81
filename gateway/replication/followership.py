"""Followership: the partitions that this broker follows, each from the leader that the image names.

A leader's address is the one of its listener for brokers. The image may lack it for a time, for instance while the
broker starts: then the partition is not followed. Another address, after another start of the leader, moves the
partition to another link, also in the same leader epoch.

A partition that shall be led here becomes online once its work as a follower has ended: a truncation that the last
leader has asked for must not come behind the first append of the new one. A newer state of the image wins meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headgate.gateway.config import BrokerConfig
from headgate.gateway.metadata.image import Node, Topic
from headgate.gateway.replication.directory_status import DirectoryStatus
from headgate.gateway.replication.fetching.replica_fetchers import Leader, ReplicaFetchers
from headgate.gateway.replication.follower import Follower, FollowerServices
from headgate.gateway.replication.partition_states import PartitionState, PartitionStates, Unavailable
from headgate.gateway.runtime.tasks import Task, Tasks
from headgate.protocol.client.fetch_session import FetchKey
from headgate.storage.config import LogConfig
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.disk.checkpoint import TopicPartition
from headgate.storage.files import parent
from headgate.storage.log.log import Log
from headgate.storage.recovery.log_truncation import BeginRecoveryPoints


class Followership:
    """The partitions that this broker follows."""

    def __init__(
        self,
        states: PartitionStates,
        directories: Mapping[str, DirectoryStatus],
        log_manager: LogManager,
        config: BrokerConfig,
        tasks: Tasks,
        fetchers: ReplicaFetchers,
    ) -> None:
        self._states = states
        self._directories = directories
        self._log_manager = log_manager
        self._config = config
        self._tasks = tasks
        self._fetchers = fetchers
        self._services = FollowerServices(tasks.touch, self._begin_recovery_points, fetchers.renew)
        self._brokers: Mapping[int, Node] = {}
        self._stopped: dict[TopicPartition, int] = {}
        """The partitions that are followed again only in a leader epoch above this one."""
        self._is_leaving = False

    def _begin_recovery_points(self, log: Log) -> BeginRecoveryPoints:
        directory = self._log_manager.directory_of(log.key)
        assert directory is not None, f"{log!r} is in no log directory"
        return directory.begin_recovery_points

    def serve(self, topic: Topic, index: int, log: Log, log_config: LogConfig) -> None:
        """Follow a partition whose log exists."""
        if log.topic_id == topic.topic_id:
            log.share_topic_id(topic.topic_id)
        state = topic.partitions[index]
        follower = Follower(
            FetchKey(topic.name, topic.topic_id, index),
            log,
            state.leader_epoch,
            self._directories[parent(log.directory)].disk,
            self._log_manager.high_watermark(log.key),
            self._services,
        )
        self._states.move(log.key, Unavailable(PartitionState.FOLLOWING, leader=state.leader, replica=follower))
        self.apply(follower, topic, log_config)

    def apply(self, follower: Follower, topic: Topic, log_config: LogConfig) -> None:
        """Apply the image's state of a partition, and the settings of its topic."""
        key, state = follower.log.key, topic.partitions[follower.index]
        following = Unavailable(PartitionState.FOLLOWING, leader=state.leader, replica=follower)
        if self._states.unavailable(key) != following:
            self._states.move(key, following)
        follower.leader_epoch, follower.partition_epoch = state.leader_epoch, state.partition_epoch
        follower.replicas, follower.isr = state.replicas, state.isr
        follower.resign(following.refusal(*key))  # first: a replica that has not resigned commits all its records
        if follower.log.config != log_config:
            follower.configure(log_config)
        if state.leader_epoch > self._stopped.get(key, state.leader_epoch - 1):
            self._stopped.pop(key, None)
        self._fetch(follower, state.leader)

    def _fetch(self, follower: Follower, leader: int) -> None:
        """Fetch from the leader, if its address is known, unless the partition was stopped or its disk has failed."""
        node = self._brokers.get(leader)
        address = None if node is None else node.endpoints.get(self._config.inter_broker_listener)
        has_failed = self._directories[parent(follower.log.directory)].is_failed
        has_left = self._is_leaving and self._config.node_id not in follower.isr
        if address is None or has_failed or has_left or follower.log.key in self._stopped:
            self._fetchers.unfollow(follower.key)
        else:
            self._fetchers.follow(follower.key, follower, Leader(leader, *address), follower.leader_epoch)

    def end(self, follower: Follower) -> None:
        """Stop the fetches of a partition, for any reason but the broker's lead."""
        self._fetchers.unfollow(follower.key)
        self._stopped.pop(follower.log.key, None)

    def stop(self, key: TopicPartition, leader_epoch: int) -> None:
        """Fetch a partition no more until its leader epoch is above this one, and above the present one."""
        replica = self._states.replica(key)
        if isinstance(replica, Follower):
            leader_epoch = max(leader_epoch, replica.leader_epoch)
            self._fetchers.unfollow(replica.key)
        self._stopped[key] = leader_epoch

    def leave(self) -> None:
        """Follow only partitions whose in-sync set has this broker, which will stop.

        A leader would take the broker back into the set, and acks=all would wait for the broker after its end.
        """
        self._is_leaving = True
        self._fetch_again(lambda _, _leader: True)

    def follow_brokers(self, brokers: Mapping[int, Node]) -> None:
        """Take the present brokers: leaders may have other addresses."""
        before, self._brokers = self._brokers, brokers
        changed = {
            node_id
            for node_id in before.keys() | brokers.keys()
            if node_id not in before
            or node_id not in brokers
            or before[node_id].endpoints != brokers[node_id].endpoints
        }
        if changed:
            self._fetch_again(lambda _, leader: leader in changed)

    def directory_changed(self, path: str) -> None:
        """Fetch nothing into a failed directory, and go on once the directory works again."""
        self._fetch_again(lambda follower, _: parent(follower.log.directory) == path)

    def _fetch_again(self, is_concerned: Callable[[Follower, int], bool]) -> None:
        """`_fetch` for the followers that are concerned; the function gets the ids of their leaders too."""
        for key in list(self._states.within(PartitionState.FOLLOWING)):
            found = self._states.unavailable(key)
            if found is not None and isinstance(found.replica, Follower) and is_concerned(found.replica, found.leader):
                self._fetch(found.replica, found.leader)

    def lead(self, follower: Follower, serve: Callable[[Log], None]) -> None:
        """Call `serve(log)` once the work of a follower has ended, which shall lead; unless the image changes."""
        key = follower.log.key
        if self._states.state(key) is PartitionState.FOLLOWING:
            self.end(follower)
            self._states.move(key, Unavailable(PartitionState.BECOMING_LEADER, replica=follower))
            self._tasks.start(self._lead(follower, serve))

    def _lead(self, follower: Follower, serve: Callable[[Log], None]) -> Task[None]:
        yield from self._fetchers.until_idle(follower.key)
        key = follower.log.key
        found = self._states.unavailable(key)
        if found is not None and found.replica is follower and found.state is PartitionState.BECOMING_LEADER:
            self._log_manager.keep_high_watermark(key, follower.high_watermark)
            serve(follower.log)
