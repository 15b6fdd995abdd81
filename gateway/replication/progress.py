"""The log ends of the followers of one partition, as their leader learns them from fetches.

A fetch from an offset proves that the follower has everything before that offset. Three decisions follow:

- the high watermark: the least log end of the leader and of the in-sync followers. Followers that are about to join the
  in-sync set count from the request to join on, those that are about to leave count until they have left. So the high
  watermark is right whether or not the change of the set is stored;
- who lags: an in-sync follower that was not at the end of the leader's log for `replica.lag.time.max.ms`. Without
  new records a follower's session does not name the partition: then the last fetch of its broker is the last time;
- who may join: a follower that has everything below the high watermark, and everything from before this leader epoch.

Pure: time is passed in, in milliseconds of a clock that never goes back. Sources: Apache Kafka's `Partition` and
`Replica`, KIP-16 (lag by time), KIP-497 (changes of the in-sync set), KIP-903 (broker epochs).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from headgate.gateway.runtime.tasks import NEVER, WaitList
from headgate.protocol.errors import ErrorCode, KafkaError

UNKNOWN: Final = -1
"""An offset or a broker epoch that no fetch has named yet."""


class FollowerFetch(NamedTuple):
    """The sender of a fetch: a broker, in one of its lives, and the arrival of the fetch."""

    node_id: int
    broker_epoch: int
    arrival_ms: float


class FollowerProgress:
    """One follower: its log as of its last fetch, and the last time at which the follower had everything."""

    __slots__ = ("broker_epoch", "caught_up_ms", "fetch_ms", "fetched_end", "log_end", "log_start", "node_id")

    def __init__(self, node_id: int, caught_up_ms: float) -> None:
        self.node_id = node_id
        self.log_end = UNKNOWN
        self.log_start = UNKNOWN
        self.broker_epoch = UNKNOWN
        self.caught_up_ms = caught_up_ms
        self.fetch_ms = caught_up_ms
        """The time of the last fetch."""
        self.fetched_end: int | None = None
        """The end of the leader's log at the last fetch; None before the first one."""

    def note_fetch(self, offset: int, log_start: int, leader_end: int, now_ms: float) -> None:
        """Note a fetch from `offset`, which arrived at `now_ms`."""
        if offset >= leader_end:
            self.caught_up_ms = now_ms
        elif self.fetched_end is not None and offset >= self.fetched_end:
            self.caught_up_ms = max(self.caught_up_ms, self.fetch_ms)
        self.log_end, self.log_start = offset, log_start
        self.fetched_end, self.fetch_ms = leader_end, now_ms


class Progress:
    """The followers of a partition in one leader epoch, by node id. The leader itself is not among them."""

    __slots__ = (
        "_counted",
        "_followers",
        "_in_sync",
        "_joining",
        "change_began_ms",
        "epoch_start",
        "fixed_until_ms",
        "last_fetches_ms",
        "leader_end",
        "starts",
        "waiters",
    )

    def __init__(self) -> None:
        self._followers: dict[int, FollowerProgress] = {}
        self._in_sync: frozenset[int] = frozenset()
        self._joining: frozenset[int] = frozenset()
        self._counted: list[FollowerProgress] = []
        self.leader_end = 0
        """The end of the leader's log at the last `note_write`."""
        self.epoch_start = 0
        """The end of the leader's log when the leader epoch began."""
        self.fixed_until_ms = 0.0
        """No change of the in-sync set begins before: one is under way, or was refused."""
        self.change_began_ms = 0.0
        """The begin of the last change of the in-sync set."""
        self.last_fetches_ms: Mapping[int, float] = {}
        """The times of the last fetches of brokers, whatever their partitions."""
        self.waiters = WaitList()
        """Fetches of followers, which wait for the end of the log and not for the high watermark."""
        self.starts = WaitList()
        """The tasks that wait for followers to delete records."""

    def begin_epoch(self, leader_end: int) -> None:
        """Forget what followers had: in another leader epoch their logs may have been cut."""
        self._followers, self._counted = {}, []
        self.leader_end = self.epoch_start = leader_end
        self.fixed_until_ms = 0.0

    def assign(self, followers: Collection[int], in_sync: Collection[int], now_ms: float) -> None:
        """Take over the stored state. Followers that are new, or in sync again, have the whole lag time to catch up."""
        before = self._followers
        self._followers = {node_id: before.get(node_id) or FollowerProgress(node_id, now_ms) for node_id in followers}
        for node_id in frozenset(in_sync) - self._in_sync & frozenset(before):
            if node_id in self._followers:
                self._followers[node_id].caught_up_ms = now_ms
        self._in_sync = frozenset(in_sync) & frozenset(followers)
        self.join(())

    def join(self, joining: Collection[int]) -> None:
        """Count these followers for the high watermark too, until the next `assign` or `join`."""
        self._joining = frozenset(joining)
        self._counted = [self._followers[node_id] for node_id in self.counted]

    @property
    def counted(self) -> frozenset[int]:
        """The followers that the high watermark waits for."""
        return self._in_sync | self._joining

    @property
    def unheard(self) -> Iterable[int]:
        """The in-sync followers that have sent no fetch in this leader epoch."""
        return (node_id for node_id in self._in_sync if self._followers[node_id].fetched_end is None)

    @property
    def is_leader_alone(self) -> bool:
        """Whether the high watermark waits for no follower."""
        return not self._counted

    def check(self, node_id: int, broker_epoch: int) -> FollowerProgress:
        """The follower that sends a fetch.

        Raises KafkaError: UNKNOWN_LEADER_EPOCH for a broker that is no replica here: its order may be newer than the
        leader's. NOT_LEADER_OR_FOLLOWER for a fetch from before the last start of that broker.
        """
        follower = self._followers.get(node_id)
        if follower is None:
            message = f"the leader has no replica on node {node_id}; the node may have newer metadata"
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, message)
        if UNKNOWN < broker_epoch < follower.broker_epoch:
            message = f"node {node_id} has started again since broker epoch {broker_epoch}"
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)
        follower.broker_epoch = max(broker_epoch, follower.broker_epoch)
        return follower

    def note_write(self, leader_end: int, now_ms: float) -> bool:
        """Whether the leader's log has grown since the last call. Followers that had everything begin to lag."""
        before, self.leader_end = self.leader_end, leader_end
        if leader_end <= before:
            return False
        last_fetches_ms = self.last_fetches_ms
        for follower in self._counted:
            if follower.log_end >= before:
                last_ms = last_fetches_ms.get(follower.node_id, now_ms)
                follower.caught_up_ms = max(follower.caught_up_ms, last_ms)
        return True

    def committed_end(self, leader_end: int) -> int:
        """The offset that the leader and every counted follower have reached; below the log start if unknown."""
        end = leader_end
        for follower in self._counted:
            if follower.log_end < end:  # noqa: PLR1730  a call for each follower of each fetch
                end = follower.log_end
        return end

    def lagging(self, leader_end: int, now_ms: float, max_lag_ms: float) -> frozenset[int]:
        """The in-sync followers that were not at the end of the log for `max_lag_ms`."""
        return frozenset(
            node_id
            for node_id in self._in_sync
            if (follower := self._followers[node_id]).log_end < leader_end
            and now_ms - follower.caught_up_ms > max_lag_ms
        )

    @property
    def last_fetch_ms(self) -> float:
        """The time of the last fetch of any in-sync follower, whatever its partitions; NEVER without followers.

        A follower that sent none counts from its `assign` on.
        """
        last_ms = self.last_fetches_ms
        times = [max(self._followers[one].fetch_ms, last_ms.get(one, 0.0)) for one in self._in_sync]
        return max(times, default=NEVER)

    def may_join(self, node_id: int, high_watermark: int) -> bool:
        """Whether a follower outside of the in-sync set has all that the set has committed."""
        if node_id in self._in_sync or node_id in self._joining:
            return False
        return self._followers[node_id].log_end >= max(high_watermark, self.epoch_start)

    def lags(self, leader_start: int, leader_end: int) -> Iterable[tuple[int, int]]:
        """(node id, records of the leader that the follower lacks, as far as its fetches say)."""
        for node_id, follower in self._followers.items():
            yield node_id, max(0, leader_end - max(leader_start, follower.log_end))

    def low_watermark(self, leader_start: int, live: Collection[int]) -> int:
        """The least log start of the leader and its live followers: no record before it can be read."""
        starts = [follower.log_start for node_id, follower in self._followers.items() if node_id in live]
        return min([leader_start, *starts])
