"""Slow disks: appends by a thread, one after another for each partition, in the order they came.

A write goes to the page cache and takes microseconds, as long as the kernel has room. When it has none, a write waits
for the disk, and with it would the loop and all who have nothing to do with that disk. So a write is timed. One that
took long makes the disk suspect: the process may only have lost the processor to another. If then one takes long and
its thread went to sleep over it, the disk is slow: for a while every append is written by a thread, as many of a
partition together as have come in the meantime. A segment that is full, or old, is closed by a thread too, before what
belongs into the next one is written. Then the loop tries again.
"""

from __future__ import annotations

import errno
import itertools
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from headgate.gateway.replication.group_commit import GroupCommit
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.workers import BoundedExecutor
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import batch
from headgate.storage.files import Place, WouldBlock
from headgate.storage.log.log_lock import ROLLING
from headgate.storage.log.pending_write import AppendInfo, PendingWrite

if TYPE_CHECKING:
    from headgate.gateway.replication.replica import Replica

try:
    import resource
except ImportError:
    resource = None  # type: ignore[assignment]

logger = logging.getLogger("headgate.replication")

SLOW_MS = 5.0
CALM_MS = 10_000.0
# What may wait for one directory. Clients hold less, by what `Connection` reserves for them; those that gave up and
# came again would fill the memory.
MAX_WAITING_BYTES = 256 << 20
PAUSE_BYTES = 16 << 20
"""From so much on a client that wants no answer is not read from until its last append is written."""
_OF_THREAD: int | None = getattr(resource, "RUSAGE_THREAD", None)
_unknown = itertools.count()

Done = Callable[[AppendInfo | KafkaError], None]


class RollIsDue(Exception):
    """An append needs a new segment first, which is begun in a thread."""


class _Append(NamedTuple):
    records: memoryview
    required_acks: int
    now_ms: int
    done: Done
    validate: str | None


def voluntary_waits() -> int:
    """How often this thread gave up the processor by itself, as it does to wait for a disk; ever more where unknown."""
    if _OF_THREAD is None or resource is None:
        return next(_unknown)
    return resource.getrusage(_OF_THREAD).ru_nvcsw


class _Taken(NamedTuple):
    """An append that was staged. A new segment ends a write: not all that are taken together need be of one."""

    append: _Append
    info: AppendInfo
    staged: PendingWrite | None  # None if it had come before, and nothing was to be written


def _nobody(error: object) -> None:
    """Nobody wants to hear of errors."""


class DiskMonitor:
    """What is known of the pace of a log directory, for all partitions in it."""

    def __init__(self, clock: Clock, scheduler: Scheduler, waits: Callable[[], int] = voluntary_waits) -> None:
        self.clock = clock
        self.scheduler = scheduler
        self.failed: Callable[[object], None] = _nobody
        """Called with each error of a write or a sync."""
        self.group_commit = GroupCommit(clock, scheduler, self._sync_failed)
        self.is_slow = False
        self.waiting_bytes = 0  # of appends that no thread has taken yet
        self._waits = waits
        self._is_suspect = False
        self._share = BoundedExecutor(scheduler)

    def in_thread(self, work: Callable[[], object], done: Callable[[object], None]) -> None:
        """Have a thread do what waits for this disk, after what came before where that is a lot; see `Scheduler`."""
        self._share.in_thread(work, done)

    def when_free(self, begin: Callable[[], None]) -> None:
        """Call `begin` on the loop, once a thread is free for what it has `in_thread`."""
        self._share.when_free(begin)

    def _sync_failed(self, error: object) -> None:
        self.failed(error)

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits that who sends without waiting for answers has to be held up."""
        return self.waiting_bytes > PAUSE_BYTES

    def write(self, write: Callable[[], None]) -> None:
        """Write inline, and see how long it takes."""
        began_ms = self.clock.monotonic_ms()
        waits = self._waits() if self._is_suspect else None
        try:
            write()
        except (KafkaError, OSError) as error:
            self.failed(error)
            raise
        finally:
            if self.clock.monotonic_ms() - began_ms > SLOW_MS:
                self._note_slow(waits)

    def _note_slow(self, waits: int | None) -> None:
        if waits is None:
            self._suspect()
        elif not self.is_slow and self._waits() > waits:
            self.is_slow = True
            logger.warning("a write waited for the disk: for %d s appends are made by threads", CALM_MS / 1000)
            self.scheduler.call_after(CALM_MS, self._try_again)

    def _suspect(self) -> None:
        if not self._is_suspect:
            self._is_suspect = True
            self.scheduler.call_after(CALM_MS, self._trust)

    def _trust(self) -> None:
        self._is_suspect = self.is_slow

    def _try_again(self) -> None:
        self.is_slow = False
        self._is_suspect = False
        self._suspect()


class Cold:
    """In the place of a writer: nothing was appended since the start, and the disk may have to be asked before."""

    rolls = False


COLD = Cold()


class AppendQueue:
    """Appends to one partition by a thread, one write at a time."""

    def __init__(self, partition: Replica, disk: DiskMonitor) -> None:
        self._partition = partition
        self._disk = disk
        self._queue: deque[_Append] = deque()
        self._is_writing = False
        self._warmed_place: Place | None = None  # the last that was not in memory
        self.rolls = False
        """Whether a roll is left to a thread, as what is staged now is to be written by one."""

    @property
    def is_idle(self) -> bool:
        """Whether everything that came is written."""
        return not (self._is_writing or self._queue)

    def append(
        self, records: memoryview, required_acks: int, now_ms: int, done: Done, validate: str | None = None
    ) -> None:
        """Append `records`, which are copied; `done` is called once, with where they are or why they were refused."""
        if self._disk.waiting_bytes > MAX_WAITING_BYTES and required_acks:  # who wants no answer is held up instead
            message = f"the disk is slow: {self._disk.waiting_bytes} bytes wait to be written"
            done(KafkaError(ErrorCode.REQUEST_TIMED_OUT, message))
            return
        self._disk.waiting_bytes += len(records)
        self._queue.append(_Append(memoryview(bytearray(records)), required_acks, now_ms, done, validate))
        if not self._is_writing:
            self._write()

    def _write(self) -> None:
        """Go on with what has come, once a thread is free: until then no file is open for it."""
        self._is_writing = bool(self._queue) and not self._disk.scheduler.is_over
        if self._is_writing:
            self._disk.when_free(self._write_next)

    def _write_next(self) -> None:
        while self._queue and not self._disk.scheduler.is_over:
            if self._warms_first():
                return
            try:
                staged, taken = self._stage()
            except RollIsDue:
                self._roll_for_append(self._queue[0].now_ms)
                return
            if staged is not None:
                self._write_by_thread(staged, taken)
                return
            self._tell(taken)
        self._is_writing = False

    def _warms_first(self) -> bool:
        """Whether a thread reads first what the first append since the start asks for.

        What is gone again when it was brought is waited for, and what is wrong is found, by the append itself.
        """
        try:
            self._partition.log.look_up()
        except WouldBlock as cold:
            if cold.place == self._warmed_place:
                cold.release()
                return False
            self._warmed_place = cold.place
            self._warm_by_thread(cold)
            return True
        except (OSError, KafkaError):
            return False
        return False

    def _warm_by_thread(self, cold: WouldBlock) -> None:
        cold.__traceback__ = None

        def brought(_: object) -> None:
            cold.release()
            self._write()

        self._disk.in_thread(cold.warm, brought)

    def _roll_for_append(self, now_ms: int) -> None:
        log = self._partition.log

        def rolled(error: OSError | None) -> None:
            if error is not None:
                self._drop_first(log.disk_error(error))

        self.roll(lambda: log.roll(now_ms), rolled)

    def roll(self, roll: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        """Have a thread begin a new segment, then call `done` with what went wrong, then write what has come."""
        log = self._partition.log

        def rolled(result: object) -> None:
            log.release(ROLLING)
            if isinstance(result, OSError):
                self._disk.failed(result)
            elif isinstance(result, BaseException):
                logger.error("a segment of %r cannot be begun", log, exc_info=result)
                result = OSError(errno.EIO, "an error of the broker, see its log")
            try:
                done(result if isinstance(result, OSError) else None)
            finally:
                self._partition.sync_soon()  # no flush could begin meanwhile, and one is due since
                self._write()
                self._partition.give_up_writer()

        self._is_writing = True
        log.acquire(ROLLING)
        self._disk.in_thread(roll, rolled)

    def _drop_first(self, error: KafkaError) -> None:
        append = self._queue.popleft()
        self._disk.waiting_bytes -= len(append.records)
        append.done(error)
        self._partition.advanced(self._partition)

    def _write_by_thread(self, staged: PendingWrite, taken: list[_Taken]) -> None:
        self._disk.in_thread(staged.write, lambda result: self._written(staged, taken, result))

    def _stage(self) -> tuple[PendingWrite | None, list[_Taken]]:
        """Stage what belongs into one write. None if there is nothing to be written, or it cannot be."""
        log, taken = self._partition.log, list[_Taken]()
        while self._queue and (log.staged is None or _fits(log.staged, self._queue[0].records)):
            append = self._queue[0]
            self.rolls = True
            try:
                info = self._partition.stage_owned(append.records, append.required_acks, append.now_ms, append.validate)
            except KafkaError as error:
                self._drop_first(error)
                continue
            except RollIsDue:
                if not taken:
                    raise
                break
            finally:
                self.rolls = False
            self._queue.popleft()
            self._disk.waiting_bytes -= len(append.records)
            taken.append(_Taken(append, info, log.staged))
        with suppress(KafkaError):  # it stands in `PendingWrite.error`
            return log.begin_write(), taken
        return None, taken

    def _written(self, staged: PendingWrite, taken: list[_Taken], result: object) -> None:
        if isinstance(result, BaseException):
            self._disk.failed(result)
        try:
            with suppress(KafkaError):  # it stands in `PendingWrite.error`
                self._partition.log.end_write(staged, result if isinstance(result, BaseException) else None)
            self._tell(taken)
            self._partition.advanced(self._partition)  # who waits may have been refused
        finally:  # a fault of ours must not keep the others waiting
            self._write()

    def _tell(self, taken: list[_Taken]) -> None:
        self._partition.advance()
        for append, info, staged in taken:
            append.done((staged and staged.error) or info)


def _fits(staged: PendingWrite, records: memoryview) -> bool:
    """Whether these can be staged too: else what is staged would be written first, by the loop."""
    try:
        header = batch.read_header(records[: batch.HEADER_SIZE])
    except KafkaError:
        return False
    is_one = header.size == len(records)
    return is_one and staged.has_bytes(len(records)) and header.max_timestamp <= staged.max_timestamp
