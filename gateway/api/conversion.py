"""Conversions of records for a client's version or a topic's settings: off the event loop, unless they are small.

A conversion is a generator that yields after at most half a millisecond of work, and before a codec's work. The first
slice runs on the loop, within a limit for each turn, and may complete the conversion. Otherwise a thread continues, in
slices (`Scheduler.in_slices`): one conversion at a time, the others wait in the order of their arrival. So conversions
take half a millisecond of the loop at once, and at most half of its time, and the memory of one conversion beside the
input, whatever the number of clients or of partitions in one request.

A conversion that reads from a disk may wait for the disk: after a second the others continue without it. Producers'
conversions read from no disk, so that they keep their order.
"""

from __future__ import annotations

import itertools
import logging
import struct
from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from headgate.gateway.runtime.scheduler import Scheduler, StoppedError
from headgate.gateway.runtime.tasks import Caller, Task
from headgate.gateway.runtime.workers import MAX_THREADS_PER_EXECUTOR
from headgate.protocol.errors import ErrorCode, KafkaError, without_frames
from headgate.protocol.records import batch, compression
from headgate.protocol.steps import Steps
from headgate.storage.config import LogConfig
from headgate.storage.log import validation
from headgate.storage.log.validation import CLIENT, CONVERTED, Depth
from headgate.storage.segment.file_slice import FileSlice, MessagesSlice

T = TypeVar("T")

logger = logging.getLogger("headgate.conversion")

_HEAD = struct.Struct(">8xi9xh")  # length and attributes of a batch
_WINDOW_BYTES = 4096
_BATCHES_AT_ONCE = 500

# The limit on conversions in a turn of the loop: two or three ms of work. Each conversion counts as a kilobyte or more.
TURN_BYTES, _MIN_BYTES = 64 << 10, 1 << 10

# The limit on waiting conversions. Clients that await replies hold less, by the reservations of `Connection`; but
# clients that disconnect and retry would fill the memory.
MAX_WAITING_BYTES = 256 << 20
BYTES_PER_ROW = 1 << 10
"""The memory of a row that is read from a log, and not converted from a client's bytes."""

# How long to wait for a conversion that reads from a disk, and how many conversions may be left behind on their disks.
HUNG_MS, MAX_HUNG = 1_000.0, MAX_THREADS_PER_EXECUTOR

# How many slices run between two checks of `is_wanted`, and the queue length at which unwanted conversions are removed.
_SLICES_BETWEEN_CHECKS = 64
_FEW = 64


def prepare_message_set(records: memoryview, config: LogConfig, now_ms: int, depth: Depth) -> Steps[memoryview]:
    """Convert a client's message set to batches in the topic's form; empty for an empty set."""
    from headgate.protocol.records import legacy

    converted = yield from legacy.up_convert_steps(records, config.max_message_bytes)
    if not converted:
        return memoryview(b"")
    origin = CONVERTED if legacy.is_legacy(records) else CLIENT  # a client's batch is alone here too
    return (yield from validation.prepare_steps(memoryview(converted), config, now_ms, depth, origin))


def prepare_batches(records: memoryview, config: LogConfig, now_ms: int, depth: Depth) -> Steps[memoryview]:
    """Convert a client's batches to the topic's form. Raises KafkaError(INVALID_RECORD) without a batch."""
    if not records:
        raise KafkaError(ErrorCode.INVALID_RECORD, "there is no batch in the request")
    return (yield from validation.prepare_steps(records, config, now_ms, depth))


class ConvertedPiece(NamedTuple):
    """The result of a conversion for a fetch: new bytes, or None for the piece's own bytes up to `position`.

    With new bytes, `position` is the offset to read next.
    """

    position: int
    records: bytes | bytearray | None


def convert_to_message_set(
    piece: FileSlice,
    magic: int,
    first_offset: int,
    max_bytes: int,
    is_first: bool,
    aborted: Collection[tuple[int, int]] = (),
) -> Steps[ConvertedPiece]:
    """Convert a piece of a segment to a message set of this magic.

    If `is_first`, the first message is included even if it is larger than `max_bytes`; otherwise the set may be empty.
    `aborted`: producer id and first offset of the transactions to leave out.
    """
    from headgate.protocol.records import legacy

    if max_bytes <= 0 and not is_first:
        return ConvertedPiece(first_offset, b"")
    data = yield from piece.read_steps(0, len(piece))
    converted = yield from legacy.down_convert_steps(data, magic, first_offset, max_bytes, aborted)
    if len(converted.data) > max_bytes and not is_first:
        return ConvertedPiece(first_offset, b"")
    return ConvertedPiece(converted.next_offset, converted.data)


def convert_to_batches(piece: FileSlice, room: int, *, knows_zstd: bool = True) -> Steps[ConvertedPiece]:
    """Convert a piece that may hold messages of magic 0 and 1 to batches.

    `room`: how many bytes to convert; a first wrapper or batch may exceed it.
    """
    from headgate.storage.segment import legacy_messages

    if room <= 0:
        return ConvertedPiece(-1, b"")
    batches, _ = yield from legacy_messages.batches_steps(piece, 0, min(room, len(piece)))
    if not knows_zstd:
        from headgate.protocol.records import zstd_to_gzip

        batches = yield from zstd_to_gzip.zstd_to_gzip_steps(batches)
    return ConvertedPiece(-1, batches)


def replace_zstd(piece: FileSlice, room: int) -> Steps[ConvertedPiece | None]:
    """Replace zstd in a piece; None if it has no zstd. `room`: how many bytes to convert; one batch may exceed it."""
    from headgate.protocol.records import zstd_to_gzip

    if isinstance(piece, MessagesSlice):
        return (yield from convert_to_batches(piece, room, knows_zstd=False))
    position = yield from _find_zstd(piece)
    if position is None:
        return None
    if position:
        return ConvertedPiece(position, None)
    if room <= 0:
        return ConvertedPiece(-1, b"")
    head = batch.read_header((yield from piece.read_steps(0, batch.HEADER_SIZE)))
    data = yield from piece.read_steps(0, max(head.size, room))
    return ConvertedPiece(-1, (yield from zstd_to_gzip.zstd_to_gzip_steps(data)))


def _find_zstd(piece: FileSlice) -> Steps[int | None]:
    """The position of the first zstd batch, by batch headers and earlier findings alone; None if there is none."""
    window: bytes | bytearray = b""
    known_from, known_to = piece.passed
    position = known_to if known_from <= 0 < known_to else 0
    start, size, batches_read = position, len(piece), 0
    while position < size:
        at = position - start
        if at + _HEAD.size > len(window):
            window, start, at = (yield from piece.read_steps(position, _WINDOW_BYTES)), position, 0
            if len(window) < _HEAD.size:
                break
        length, attributes = _HEAD.unpack_from(window, at)
        if attributes & batch.CODEC_MASK == compression.ZSTD:
            piece.note_passed(position)
            return position
        if length < batch.HEADER_SIZE - batch.LOG_OVERHEAD:  # a damaged disk; the client will notice the damage too
            return None
        position += length + batch.LOG_OVERHEAD
        batches_read += 1
        if not batches_read % _BATCHES_AT_ONCE:
            yield
    piece.note_passed(min(position, size))
    return None


def errors_as_results(steps: Steps[T]) -> Steps[T | KafkaError | OSError]:
    """The result of `steps`, or the error of records or of the disk that they raise."""
    try:
        return (yield from steps)
    except (KafkaError, OSError) as error:
        return without_frames(error)


class _Job(NamedTuple):
    steps: Steps[Any]
    size: int
    resume: Callable[[Any], None]
    is_wanted: Callable[[], bool]
    is_reading: bool


class Conversions:
    """The queue of conversions, and the running one."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._queue: deque[_Job] = deque()
        self._running: _Job | None = None
        self._hung = 0  # conversions that wait for a disk, beside the running one
        self._purge_at = _FEW  # the queue length at which unwanted conversions are removed
        self._turn_bytes = 0  # bytes converted on the loop in the present turn
        self.waiting_bytes = 0

    def run(
        self, steps: Steps[T], size: int, resume: Callable[[Any], None], is_wanted: Callable[[], bool] | None = None
    ) -> T | None:
        """The result, if the first slice completes it; otherwise None, and `resume` gets it, as with `submit`."""
        made = self.at_once(steps, size)
        if made is None:
            self.submit(steps, size, resume, is_wanted)
        return made

    def at_once(self, steps: Steps[T], first_bytes: int) -> T | None:
        """The result, if the first slice completes it, which may convert `first_bytes`; otherwise None."""
        if self._turn_bytes < TURN_BYTES:
            if not self._turn_bytes:
                self._scheduler.call_soon(self._end_turn)
            self._turn_bytes += max(first_bytes, _MIN_BYTES)
            try:
                next(steps)
            except StopIteration as end:
                made: T = end.value
                return made
        return None

    def awaited(self, steps: Steps[T], size: int) -> Task[T]:
        """The result of steps that may wait for a disk. A cancelled conversion is dropped, or broken off."""
        caller = Caller()

        def begin(resume: Callable[[Any], None]) -> None:
            self.submit(steps, size, resume, lambda: not caller.is_gone, is_reading=True)

        try:
            return cast("T", (yield begin))
        finally:
            caller.is_gone = True

    def share(self, most: int, least: int) -> int:
        """How many bytes one conversion should cover now, so that waiting ones run soon: from `least` to `most`."""
        return max(least, most // (1 + len(self._queue)))

    def _end_turn(self) -> None:
        self._turn_bytes = 0

    def submit(
        self,
        steps: Steps[Any],
        size: int,
        resume: Callable[[Any], None],
        is_wanted: Callable[[], bool] | None = None,
        *,
        is_reading: bool = False,
    ) -> None:
        """Run `steps` in their turn, then call `resume` with their result, or with the exception that they raised.

        `size`: the bytes held until then. An unwanted conversion is dropped, at the latest in its turn, or broken off.
        `is_wanted` is also called from a thread. `is_reading`: the steps may wait for a disk. Raises
        KafkaError(REQUEST_TIMED_OUT) if too many bytes wait already.
        """
        if len(self._queue) >= self._purge_at:
            self._forget_unwanted()
        if self.waiting_bytes > MAX_WAITING_BYTES:
            message = f"{self.waiting_bytes} bytes of records wait to be converted"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, message)
        self.waiting_bytes += size
        self._queue.append(_Job(steps, size, resume, is_wanted or _always, is_reading))
        if self._running is None:
            self._start(self._queue.popleft())

    def _forget_unwanted(self) -> None:
        """Drop conversions of disconnected clients; otherwise clients that retry would fill the memory."""
        wanted = deque(job for job in self._queue if job.is_wanted())
        self.waiting_bytes -= sum(job.size for job in self._queue) - sum(job.size for job in wanted)
        self._queue = wanted
        self._purge_at = max(_FEW, 2 * len(wanted))

    def _next(self) -> None:
        self._running = None
        if self._scheduler.is_over:
            self._drop_all()
        while self._queue:
            job = self._queue.popleft()
            if job.is_wanted():
                self._start(job)
                return
            self.waiting_bytes -= job.size

    def _start(self, job: _Job) -> None:
        self._running = job
        self._scheduler.in_slices(_while_wanted(job), partial(self._finish, job))
        if job.is_reading and self._running is job:
            self._scheduler.call_after(HUNG_MS, partial(self._skip_hung, job))

    def _skip_hung(self, job: _Job) -> None:
        """Continue with the next conversion if `job` still waits for its disk."""
        if self._running is not job:
            return
        if self._hung < MAX_HUNG:
            self._hung += 1
            self._next()
        else:
            self._scheduler.call_after(HUNG_MS, partial(self._skip_hung, job))

    def _drop_all(self) -> None:
        """The broker has stopped. Clients that await replies got errors; for other conversions, log a warning."""
        left = [job.size for job in self._queue if job.is_wanted()]
        if left:
            logger.warning("the broker stopped before %d conversions of %d bytes", len(left), sum(left))
        self._queue.clear()
        self.waiting_bytes = 0

    def _finish(self, job: _Job, result: Any) -> None:
        is_running = self._running is job
        self._hung -= not is_running
        if isinstance(result, StoppedError):
            self._queue.appendleft(job)
            self._next()
            return
        self.waiting_bytes -= job.size
        try:
            if result is not _UNWANTED:
                job.resume(result)
        finally:
            if is_running:
                self._next()


def _while_wanted(job: _Job) -> Steps[Any]:
    """Run the steps while they are wanted."""
    steps, is_wanted = job.steps, job.is_wanted
    for number in itertools.count(1):
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        if not number % _SLICES_BETWEEN_CHECKS and not is_wanted():
            break
        yield
    steps.close()
    return _UNWANTED


_UNWANTED = object()


def _always() -> bool:
    return True
