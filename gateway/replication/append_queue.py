"""Slow disks: appends by a thread, one after another for each partition, in the order they came.

A write goes to the page cache and takes microseconds, as long as the kernel has room. When the kernel has none, a write
waits for the disk, and the loop would wait with it, and all clients that have nothing to do with that disk. So writes
are timed. A write that took long makes the disk suspect: the process may only have lost the processor to another. If
then another one takes long, and its thread went to sleep meanwhile, the disk is slow: for a while a thread writes every
append, as many of a partition together as have come in the meantime. A thread also closes a segment that is full or
old, before it writes what belongs into the next one. Then the loop tries again.

What becomes of an append afterwards stands in `append.py`; what may be done with a log while a thread writes, in
`storage.log.log_lock`.
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
from headgate.storage.files import FilePosition, WouldBlock
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
# Maximum bytes that wait for one directory. Clients hold less, by what `Connection` reserves for them; but clients
# that time out and try again would fill the memory.
MAX_WAITING_BYTES = 256 << 20
PAUSE_BYTES = 16 << 20
"""If more bytes wait, a client that wants no reply is not read from until there are fewer."""
_OF_THREAD: int | None = getattr(resource, "RUSAGE_THREAD", None)
_unknown = itertools.count()

Done = Callable[[AppendInfo | KafkaError], None]


class RollIsDue(Exception):
    """An append needs a new segment first, and a thread is to begin that."""


class _Queued(NamedTuple):
    """An append that waits for its turn; `records` are its own."""

    records: memoryview
    required_acks: int
    now_ms: int
    done: Done
    validate: str | None


def voluntary_waits() -> int:
    """How often this thread gave up the processor by itself, as it does to wait for a disk.

    Where the system does not tell, the count rises with each call.
    """
    if _OF_THREAD is None or resource is None:
        return next(_unknown)
    return resource.getrusage(_OF_THREAD).ru_nvcsw


class _Taken(NamedTuple):
    """An append that was staged. A new segment ends a write, so appends that are taken together may be in several."""

    append: _Queued
    info: AppendInfo
    staged: PendingWrite | None  # None if it had come before, and nothing was to be written


class DiskMonitor:
    """The pace of one log directory's disk, for all partitions in it."""

    def __init__(
        self,
        clock: Clock,
        scheduler: Scheduler,
        failed: Callable[[object], None],
        waits: Callable[[], int] = voluntary_waits,
    ) -> None:
        """`failed` is called with each error of a write or a sync."""
        self.clock = clock
        self.scheduler = scheduler
        self.failed = failed
        self.group_commit = GroupCommit(clock, scheduler, failed)
        self.is_slow = False
        self.waiting_bytes = 0  # of appends that no thread has taken yet
        self._when_uncrowded: list[Callable[[], None]] = []
        self._waits = waits
        self._is_suspect = False
        self._share = BoundedExecutor(scheduler)

    def in_thread(self, work: Callable[[], object], done: Callable[[object], None]) -> None:
        """Have a thread do what waits for this disk; if much came before, that is done first. See `Scheduler`."""
        self._share.in_thread(work, done)

    def when_free(self, begin: Callable[[], None]) -> None:
        """Call `begin` on the loop, once a thread is free for what it has `in_thread`."""
        self._share.when_free(begin)

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits that clients without acks have to be held up."""
        return self.waiting_bytes > PAUSE_BYTES

    def when_uncrowded(self, callback: Callable[[], None]) -> None:
        """Call `callback()` once the disk is crowded no more."""
        self._when_uncrowded.append(callback)

    def taken(self, size: int) -> None:
        """So many bytes of appends wait no longer."""
        self.waiting_bytes -= size
        if self._when_uncrowded and not self.is_crowded:
            callbacks, self._when_uncrowded = self._when_uncrowded, []
            for callback in callbacks:
                callback()

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
    """Stands for no queue: nothing was appended since the start, and the first append may have to read first."""

    rolls = False


COLD = Cold()


class AppendQueue:
    """Appends to one partition by a thread, one write at a time."""

    def __init__(self, partition: Replica, disk: DiskMonitor) -> None:
        self._partition = partition
        self._disk = disk
        self._queue: deque[_Queued] = deque()
        self._is_writing = False
        self._warmed_place: FilePosition | None = None  # the last that was not in memory
        self.rolls = False
        """Whether a thread begins new segments, as it will write what is staged now."""

    @property
    def is_idle(self) -> bool:
        """Whether everything that came is written."""
        return not (self._is_writing or self._queue)

    def append(
        self, records: memoryview, required_acks: int, now_ms: int, done: Done, validate: str | None = None
    ) -> None:
        """Append `records`, which are copied; `done` is called once, with where they are or why they were refused."""
        if self._disk.waiting_bytes > MAX_WAITING_BYTES and required_acks:  # clients without acks are held up instead
            message = f"the disk is slow: {self._disk.waiting_bytes} bytes wait to be written"
            done(KafkaError(ErrorCode.REQUEST_TIMED_OUT, message))
            return
        self._disk.waiting_bytes += len(records)
        self._queue.append(_Queued(memoryview(bytearray(records)), required_acks, now_ms, done, validate))
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

        If that has left the memory again when the thread is done, the append itself waits for the disk. The append
        finds errors too.
        """
        try:
            self._partition.log.look_up()
        except WouldBlock as cold:
            if cold.place == self._warmed_place:
                cold.release()
                return False
            self._warmed_place = cold.place
            cold.warm_by(self._disk.in_thread, lambda _: self._write())
            return True
        except (OSError, KafkaError):
            return False
        return False

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
        self._disk.taken(len(append.records))
        append.done(error)

    def _write_by_thread(self, staged: PendingWrite, taken: list[_Taken]) -> None:
        self._disk.in_thread(staged.write, lambda result: self._written(staged, taken, result))

    def _stage(self) -> tuple[PendingWrite | None, list[_Taken]]:
        """Stage what belongs into one write. The write is None if there is nothing to write, or if it cannot begin."""
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
            self._disk.taken(len(append.records))
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
        finally:  # a fault of ours must not keep the others waiting
            self._write()

    def _tell(self, taken: list[_Taken]) -> None:
        self._partition.advance()
        for append, info, staged in taken:
            append.done((staged and staged.error) or info)


def _fits(staged: PendingWrite, records: memoryview) -> bool:
    """Whether these records can be staged too: else the loop would write first what is staged."""
    try:
        header = batch.read_header(records[: batch.HEADER_SIZE])
    except KafkaError:
        return False
    is_one = header.size == len(records)
    return is_one and staged.has_bytes(len(records)) and header.max_timestamp <= staged.max_timestamp
