"""Retention of the logs in one directory: rolls what is old, deletes what is no longer kept.

Which segments may go is said in `storage/cleanup/retention.py`.

What is to be done is decided on the loop, from what is in memory, and done by threads: at one log after another, so
that a disk that hangs keeps no more than one of them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.protocol.errors import KafkaError
from headgate.storage.cleanup import retention
from headgate.storage.files import Place, WouldBlock
from headgate.storage.log.log import Log
from headgate.storage.log.segment_deletion import SegmentDeletion
from headgate.storage.segment.index import WrongIndex

logger = logging.getLogger("headgate.upkeep")

# Many partitions are looked at: for so long, then others have a turn.
SLICE_MS = 2.0
# So many segments of a log are deleted in its turn, each of which is looked at on the loop; then others have theirs.
SLICE_SEGMENTS = 8


class RetentionTask:
    """Rounds over some partitions, one round after another."""

    def __init__(
        self,
        is_there: Callable[[Log], bool],
        remake_index: Callable[[Log, int], None],
        failed: Callable[[object], None],
        clock: Clock,
        scheduler: Scheduler,
    ) -> None:
        """`is_there(log)`: it may be looked at now. `failed` hears of each error."""
        self._is_there = is_there
        self._remake_index = remake_index
        self._failed = failed
        self._clock = clock
        self._scheduler = scheduler
        self._left: deque[tuple[Replica, Place | None]] = deque()  # with what was just read from the disk for it
        self._is_busy = False

    def run(self, partitions: Iterable[Replica]) -> None:
        """Look at each of these, again as long as there is more to be deleted; not while others are left."""
        if not (self._is_busy or self._left):
            self._left.extend((partition, None) for partition in partitions)
            self._go_on()

    def _go_on(self) -> None:
        """Look at some: until a thread has something to do, or others are to have a turn."""
        self._is_busy = False
        until_ms = self._clock.monotonic_ms() + SLICE_MS
        while self._left and not (self._is_busy or self._scheduler.is_over):
            if self._clock.monotonic_ms() >= until_ms:
                self._is_busy = True
                self._scheduler.call_after(0.0, self._go_on)
                return
            self._look_at(*self._left.popleft())

    def _look_at(self, partition: Replica, brought: Place | None) -> None:
        log = partition.log
        if not self._is_there(log):
            return
        try:
            self._expire(partition)
        except WouldBlock as cold:
            if cold.place == brought:  # it has left the memory again: in the next round
                cold.release()
            else:
                cold.__traceback__ = None  # it holds the frames of what was given up
                self._in_thread(cold.warm, partial(self._warmed, partition, cold))
        except WrongIndex as error:
            self._remake_index(log, error.base_offset)
        except (OSError, KafkaError) as error:
            self._note(log, error)
        except Exception:  # whatever is wrong with one log, the others have their retention
            logger.exception("old segments of %r cannot be removed", log)

    def _expire(self, partition: Replica) -> None:
        """Begin what is due. Raises OSError, KafkaError, WouldBlock."""
        log, now_ms, up_to = partition.log, self._clock.now_ms(), partition.high_watermark
        expired = retention.begin_segment_deletion(log, now_ms, up_to, SLICE_SEGMENTS, blocking=False)
        if expired is not None:
            partition.advanced(partition)  # its log starts later: fetch sessions tell that
            self._in_thread(expired.run, partial(self._ended, partition, expired))
        elif retention.all_expired(log, now_ms, up_to, blocking=False):
            partition.roll_soon(partial(log.roll_for_retention, now_ms), partial(self._left_behind, partition))
        elif log.is_aged(now_ms):
            partition.roll_soon(partial(log.roll, now_ms), partial(self._note, log))

    def _in_thread(self, work: Callable[[], None], done: Callable[[object], None]) -> None:
        """Go on when that is done."""

        def ended(result: object) -> None:
            try:
                done(result)
            finally:
                self._go_on()

        self._is_busy = True
        self._scheduler.in_thread(work, ended)

    def _warmed(self, partition: Replica, cold: WouldBlock, result: object) -> None:
        cold.release()
        if isinstance(result, BaseException):
            self._note(partition.log, result)
        else:
            self._left.appendleft((partition, cold.place))

    def _ended(self, partition: Replica, expired: SegmentDeletion, result: object) -> None:
        partition.log.end_segment_deletion(expired)
        partition.disk.group_commit.given_back(partition)
        if isinstance(result, BaseException):
            self._note(partition.log, result)
        else:
            self._left.append((partition, None))

    def _left_behind(self, partition: Replica, error: OSError | None) -> None:
        """There is a new segment, so that the one that is not kept may go."""
        self._note(partition.log, error)
        if error is None:
            self._left.append((partition, None))
            if not self._is_busy:
                self._go_on()

    def _note(self, log: Log, error: BaseException | None) -> None:
        if error is not None and not log.is_retired:  # else it was deleted meanwhile
            self._failed(error)
            is_fault = not isinstance(error, (OSError, KafkaError))
            logger.error("old segments of %r cannot be removed: %s", log, error, exc_info=error if is_fault else None)
