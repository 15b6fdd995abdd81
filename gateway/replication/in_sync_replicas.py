"""The in-sync sets of the partitions that this broker leads: who joins, who leaves, and the changes under way.

A follower joins once it has what the set has committed; its fetches say so. A follower leaves after
`replica.lag.time.max.ms` without having caught up; a check at every half of that time finds it, as in Kafka.

A change of the set is a conditional write to the stored state of the partition, behind `IsrChanges`. A partition has
one change under way. Until the outcome is known, the high watermark counts the followers of both sets. A refused change
leaves the old set; the next one is tried after a pause, as a newer state is on its way then.

A change may have no outcome for long: this broker cannot reach the store of the sets. A follower that is gone may then
follow another leader. Appends that wait for such a follower fail, and clients ask for the leader. If no in-sync
follower sends fetches, this broker asks the others for the leader too.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from collections.abc import Set as AbstractSet
from typing import Protocol

from headgate.gateway.config import BrokerConfig
from headgate.gateway.replication.fetching.first_fetches import FirstFetches
from headgate.gateway.replication.progress import FollowerFetch, Progress
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.tasks import NEVER, Ask, SingleTask, Task, Tasks, sleep
from headgate.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger("headgate.replication")

RETRY_MS = 1_000.0
"""The pause after a refused change."""
LINE_MS = 100.0
"""The time for which changes share log lines: a broker that is back joins the sets of hundreds of partitions."""
MOST_LINES = 8
AT_ONCE = 64
"""The partitions whose followers are checked in one turn: one costs about 2 us."""


class IsrChanges(Protocol):
    """Stores the in-sync sets of partitions that this broker leads."""

    def alter(self, replica: Replica, isr: tuple[int, ...], partition_epoch: int) -> Ask:
        """Store another in-sync set, if `partition_epoch` is still the stored one. Changes may be gathered.

        The answer is the new partition epoch, or a KafkaError: the set is the old one. While the outcome is unknown,
        there is no answer.
        """


class FixedSets:
    """`IsrChanges` for a broker that is the only one of its cluster."""

    def alter(self, replica: Replica, isr: tuple[int, ...], partition_epoch: int) -> Ask:
        """Refuse every change."""
        error = KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, "a single broker changes no in-sync set")
        return lambda resume: resume(error)


class LeaderFinder(Protocol):
    """Finds leaders that were elected without an order to this broker."""

    @property
    def is_needed(self) -> bool:
        """Whether there may be such leaders."""

    def begin(self, replicas: Collection[Replica]) -> None:
        """Look up the leaders of partitions whose followers send no fetches. The metadata change, if any are found."""


class InSyncReplicas:
    """Changes the in-sync sets of led partitions. `live` has the ids of the live brokers, `changes` stores the sets.

    `shrinks`, `expands`, `refusals`: the numbers of changes since the start.
    """

    def __init__(self, config: BrokerConfig, tasks: Tasks) -> None:
        self._config = config
        self._tasks = tasks
        self._watched: dict[Replica, None] = {}
        self._lag_check = SingleTask()
        self.changes: IsrChanges = FixedSets()
        self.first_fetches = FirstFetches(tasks)
        self.leader_lookup: LeaderFinder | None = None
        self._live: AbstractSet[int] = frozenset()
        self._wished: dict[Replica, None] = {}
        """Replicas that a follower could have joined, had it been alive."""
        self._last_fetches_ms: dict[int, float] = {}
        self._lines: list[str] = []
        self.shrinks = self.expands = self.refusals = 0

    def watch(self, replica: Replica) -> None:
        """Watch the followers of a replica as long as this broker leads it."""
        assert replica.progress is not None, f"{replica!r} has no followers"
        replica.progress.last_fetches_ms = self._last_fetches_ms
        self._watched[replica] = None
        self.first_fetches.expect(replica)
        self._lag_check.start(self._check_lag)

    def note_request(self, follower: FollowerFetch) -> None:
        """Note a request of a follower, whatever its partitions."""
        self._last_fetches_ms[follower.node_id] = follower.arrival_ms

    def note_fetch(self, replica: Replica, follower: FollowerFetch, offset: int, log_start: int) -> None:
        """Note the fetch of a follower. Raises KafkaError as `Replica.note_fetch` does."""
        replica.note_fetch(follower, offset, log_start)
        progress, node_id = replica.progress, follower.node_id
        if self.first_fetches.is_expecting:
            self.first_fetches.came(replica, node_id)
        if progress is None or not progress.may_join(node_id, replica.high_watermark):
            return
        if node_id in self._live:
            self._change(replica, progress, (*replica.isr, node_id))
        else:
            self._wished[replica] = None

    def set_live(self, live: AbstractSet[int]) -> None:
        """Take over the ids of the live brokers. A follower that is back may join what it could not join before."""
        has_more = not self._live >= live
        self._live = frozenset(live)
        if has_more:
            wished, self._wished = self._wished, {}
            for replica in wished:
                self._read_again(replica)

    def _read_again(self, replica: Replica) -> None:
        """Have the sessions of followers read the partition again: their offsets are the proof, not what is noted here.

        Without new records a session has nothing of the partition in its next fetch.
        """
        if replica.progress is not None and not replica.has_resigned:
            self._tasks.touch(replica.progress.waiters)

    def _check_lag(self) -> Task[None]:
        """Find the followers that lag, until no partition has followers."""
        while self._watched and not self._tasks.scheduler.is_over:
            max_lag_ms = self._config.replica_lag_time_max_ms
            yield sleep(self._tasks.scheduler, max_lag_ms / 2)
            lookup, silent = self.leader_lookup, list[Replica]()
            may_be_deposed = lookup is not None and lookup.is_needed
            for number, replica in enumerate(list(self._watched)):
                if number % AT_ONCE == AT_ONCE - 1:
                    yield sleep(self._tasks.scheduler, 0.0)  # other work has its turn
                now_ms, progress = self._tasks.monotonic_ms(), replica.progress
                if progress is None or replica.has_resigned or replica.log.is_retired:
                    del self._watched[replica]
                    self._wished.pop(replica, None)
                    continue
                if may_be_deposed and progress.last_fetch_ms < now_ms - max_lag_ms / 2:
                    silent.append(replica)
                lagging = progress.lagging(replica.log.written_end, now_ms, max_lag_ms)
                if lagging:
                    isr = [node_id for node_id in replica.isr if node_id not in lagging]
                    if not self._change(replica, progress, tuple(isr)):
                        _fail_stuck_appends(replica, progress, now_ms - max_lag_ms / 2)
            if lookup is not None and silent:
                lookup.begin(silent)

    def _change(self, replica: Replica, progress: Progress, isr: tuple[int, ...]) -> bool:
        """Begin a change of the stored in-sync set, unless one is under way, or was refused a moment ago."""
        now_ms = self._tasks.monotonic_ms()
        is_free = progress.fixed_until_ms <= now_ms
        if is_free:
            progress.fixed_until_ms, progress.change_began_ms = NEVER, now_ms
            self._tasks.start(self._alter_once(replica, progress, isr))
        return is_free

    def _alter_once(self, replica: Replica, progress: Progress, isr: tuple[int, ...]) -> Task[None]:
        """Change the stored in-sync set; then the followers outside of it are read again.

        A follower may have caught up meanwhile, and have no other reason to name the partition in a fetch.
        """
        is_refused = yield from self._alter(replica, progress, isr)
        if is_refused:
            yield sleep(self._tasks.scheduler, RETRY_MS)
        if len(replica.isr) < len(replica.replicas):
            self._read_again(replica)

    def _alter(self, replica: Replica, progress: Progress, isr: tuple[int, ...]) -> Task[bool]:
        """Change the stored in-sync set. Returns whether the change was refused.

        After an order of a newer leader epoch the answer is of no use.
        """
        name, before, leader_epoch = f"{replica.topic}-{replica.index}", replica.isr, replica.leader_epoch
        replica.count_joining([node_id for node_id in isr if node_id not in before])
        try:
            partition_epoch = yield self.changes.alter(replica, isr, replica.partition_epoch)
        except KafkaError as error:
            logger.warning("%s: in sync stay %s; %s were refused: %s", name, before, isr, error.message)
            self.refusals += 1
            partition_epoch = None
        if replica.leader_epoch != leader_epoch:
            return partition_epoch is None
        now_ms = self._tasks.monotonic_ms()
        if partition_epoch is None:
            progress.fixed_until_ms = now_ms + RETRY_MS
            replica.count_joining(())
        else:
            progress.fixed_until_ms = now_ms
            self.shrinks += len(isr) < len(before)
            self.expands += len(isr) > len(before)
            self._log_soon(f"{name}: in sync are {isr}, after {before}")
            replica.assign(self._config.node_id, leader_epoch, replica.replicas, isr, partition_epoch, now_ms)
        return partition_epoch is None

    def _log_soon(self, line: str) -> None:
        if not self._lines:
            self._tasks.scheduler.call_after(LINE_MS, self._log)
        self._lines.append(line)

    def _log(self) -> None:
        """Log the last changes: each, or many in one line."""
        lines, self._lines = self._lines, []
        for line in lines if len(lines) <= MOST_LINES else ():
            logger.info("%s", line)
        if len(lines) > MOST_LINES:
            logger.info("%d in-sync sets have changed, such as %s", len(lines), lines[0])


def _fail_stuck_appends(replica: Replica, progress: Progress, since_ms: float) -> None:
    """Fail the appends that wait, if a change of the in-sync set has had no outcome since then."""
    if progress.fixed_until_ms == NEVER and progress.change_began_ms <= since_ms:
        message = "the in-sync set cannot be changed at present; another broker may lead the partition"
        replica.fail_waiting_appends(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, message))
