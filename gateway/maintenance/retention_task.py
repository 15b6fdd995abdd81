"""The retention task of one log directory: rolls old segments, deletes expired ones.

`storage/cleanup/retention.py` decides which segments expire. The decision runs on the loop, from values in memory.
Unread records of the groups in `headgate.retention.hold.groups` stay, unless the disk is nearly full.
Threads do the work on files, on one log at a time, so that a hung disk occupies only one thread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from functools import partial

from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.tasks import Outcome, SingleTask, Task, sleep, value_of
from headgate.protocol.errors import KafkaError
from headgate.storage.cleanup import retention
from headgate.storage.disk.checkpoint import TopicPartition
from headgate.storage.files import WouldBlock
from headgate.storage.log import rolling, segment_deletion
from headgate.storage.log.log import Log
from headgate.storage.segment.index import WrongIndex

logger = logging.getLogger("headgate.maintenance")

# The time on the loop after which other work has its turn.
SLICE_MS = 2.0
# The number of segments of a log that are deleted before the next log has its turn; the loop looks at each of them.
SLICE_SEGMENTS = 8


FindUnread = Callable[[Collection[str], str, int], Outcome[int]]
"""(groups, topic, partition) -> the first offset that one of the groups has not read. A task waits for functions alone.
"""


class RetentionTask:
    """Runs retention over given partitions, one pass after another."""

    def __init__(
        self,
        is_available: Callable[[Log], bool],
        is_full: Callable[[], bool],
        find_unread: FindUnread,
        rebuild_index: Callable[[Log, int], None],
        failed: Callable[[object], None],
        clock: Clock,
        scheduler: Scheduler,
    ) -> None:
        """`is_available(log)`: the log exists and its disk is online. `is_full()`: the disk is nearly full.

        `failed(error)` is called with each error.
        """
        self._is_available = is_available
        self._is_full = is_full
        self._find_unread = find_unread
        self._rebuild_index = rebuild_index
        self._failed = failed
        self._clock = clock
        self._scheduler = scheduler
        self._left: deque[Replica] = deque()
        self._pass = SingleTask()
        self._holding: set[TopicPartition] = set()

    @property
    def holding_count(self) -> int:
        """The number of partitions whose expired segments stay for a group."""
        return len(self._holding)

    def run(self, partitions: Iterable[Replica]) -> None:
        """Run retention for each partition, until nothing more expires. Ignored while a pass is running."""
        if self._pass.is_running:
            return
        self._left.extend(partitions)
        if self._holding:
            logs = (replica.log for replica in self._left)
            self._holding &= {log.key for log in logs if log.config.headgate_retention_hold_groups}
        self._pass.start(self._expire_all)

    def _expire_all(self) -> Task[None]:
        """Run retention for the partitions that are left, one after another."""
        until_ms = self._clock.monotonic_ms() + SLICE_MS
        while self._left and not self._scheduler.is_over:
            if self._clock.monotonic_ms() >= until_ms:
                yield sleep(self._scheduler, 0)
                until_ms = self._clock.monotonic_ms() + SLICE_MS
            replica = self._left.popleft()
            try:
                yield from self._expire(replica)
            except WrongIndex as error:
                self._rebuild_index(replica.log, error.base_offset)
            except Exception as error:  # noqa: BLE001  an error of one log must not stop the retention of others
                self._note(replica.log, error)

    def _expire(self, replica: Replica) -> Task[None]:
        """Run retention for a partition; a thread first reads what is not in memory. Raises OSError, KafkaError."""
        log, warmed = replica.log, None
        groups = log.config.headgate_retention_hold_groups
        unread = (yield from value_of(self._find_unread(groups, log.topic, log.partition))) if groups else None
        while self._is_available(log):
            try:
                yield from self._delete_or_roll(replica, unread)
                return
            except WouldBlock as cold:
                if cold.place == warmed:  # evicted again: the next pass tries again
                    cold.release()
                    return
                warmed = cold.place
                yield partial(cold.warm_by, self._scheduler.in_thread)

    def _delete_or_roll(self, replica: Replica, unread: int | None) -> Task[None]:
        """Delete expired segments, or begin a due roll. Raises OSError, KafkaError, WouldBlock."""
        log, now_ms, up_to = replica.log, self._clock.now_ms(), replica.high_watermark
        groups = log.config.headgate_retention_hold_groups
        start, held, is_released = log.start_offset, unread, False
        expired = retention.begin_segment_deletion(
            log, now_ms, up_to, SLICE_SEGMENTS, blocking=False, first_unread=held
        )
        if expired is None and held is not None and self._is_full():
            # Only as much as the disk needs: it is looked at again before the next segment of this log goes
            expired = retention.begin_segment_deletion(log, now_ms, up_to, 1, blocking=False)
            held, is_released = None, expired is not None
        if expired is not None:
            if unread is not None:
                self._note_unread(log, max(start, unread))
            replica.notify()  # the start offset has changed, which fetch sessions report
            try:
                yield partial(self._scheduler.in_thread, expired.rename_files)
            finally:
                segment_deletion.end(log, expired)
                replica.disk.group_commit.given_back(replica)
            if not is_released:
                self._left.append(replica)
        elif retention.all_expired(log, now_ms, up_to, blocking=False, first_unread=held):
            replica.roll_soon(partial(rolling.roll_for_retention, log, now_ms), partial(self._rolled, replica))
        else:
            if groups:
                is_holding = held is not None and retention.is_holding(log, now_ms, up_to, held, blocking=False)
                self._note_holding(log, groups, held, is_holding=is_holding)
            if rolling.is_aged(log, now_ms):
                replica.roll_soon(partial(rolling.roll, log, now_ms), partial(self._note, log))

    def _note_holding(self, log: Log, groups: Collection[str], held: int | None, *, is_holding: bool) -> None:
        """Log once that expired records stay for a group."""
        if not is_holding:
            self._holding.discard(log.key)
        elif log.key not in self._holding:
            self._holding.add(log.key)
            sentence = "%s-%d: retention waits at offset %s for headgate.retention.hold.groups=%s"
            logger.info(sentence, log.topic, log.partition, held, ",".join(groups))

    def _note_unread(self, log: Log, first_unread: int) -> None:
        """Log that a limit of the hold has let unread records go."""
        if log.start_offset > first_unread:
            logger.warning(
                "%s-%d: the offsets %d to %d are deleted, though a group that holds them has not read them: %s",
                log.topic,
                log.partition,
                first_unread,
                log.start_offset - 1,
                "the disk is nearly full" if self._is_full() else "headgate.retention.hold.ms or .bytes is exceeded",
            )

    def _rolled(self, replica: Replica, error: OSError | None) -> None:
        """Look at a partition again after its roll: its previous segment may be deleted now."""
        self._note(replica.log, error)
        if error is None:
            self._left.append(replica)
            self._pass.start(self._expire_all)

    def _note(self, log: Log, error: BaseException | None) -> None:
        if error is not None and not log.is_retired:  # an error of a log that was deleted meanwhile does not matter
            self._failed(error)
            is_bug = not isinstance(error, (OSError, KafkaError))
            logger.error("cannot delete old segments of %r: %s", log, error, exc_info=error if is_bug else None)
