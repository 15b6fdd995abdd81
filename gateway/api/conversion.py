"""Conversions of records that a client's version or a topic asks for: off the loop, unless they are small.

A conversion is a generator that yields after half a millisecond of work at most, and before a codec's. What ends in its
first slice is done on the loop, as long as it is not too much of one turn. What does not goes on in a thread, in slices
(`Scheduler.in_slices`): one conversion at a time, others wait in the order in which they came. So they take from the
loop half a millisecond at once and half of its time at most, and the memory of one conversion beside what came in,
however many clients ask for it, or partitions are in one request.

One that reads from a disk may wait for that: after a second the others go on without it. Those of a producer read from
no disk, so that they are never out of their order.
"""

from __future__ import annotations

import itertools
import logging
import struct
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from headgate.gateway.runtime.scheduler import Scheduler, StoppedError
from headgate.gateway.runtime.workers import MOST_OF_DISK
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import batch, compression
from headgate.storage.config import LogConfig
from headgate.storage.log import validation
from headgate.storage.segment.file_slice import FileSlice, MessagesSlice

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
Done: TypeAlias = Callable[[Any], None]
"""Takes the result, or the exception that there is in its place."""

logger = logging.getLogger("headgate.conversion")

_HEAD = struct.Struct(">8xi9xh")  # length and attributes of a batch
_WINDOW_BYTES = 4096
_HOPS_AT_ONCE = 500

# What is converted at once in a turn of the loop: two or three milliseconds of work. Each counts as a kilobyte or more.
TURN_BYTES, _LEAST_BYTES = 64 << 10, 1 << 10

# What may wait for its turn. Clients who want an answer hold less, by what `Connection` reserves for them; those who
# hang up and come again would fill the memory.
MAX_WAITING_BYTES = 256 << 20
ROW_BYTES = 1 << 10
"""What is held of a row that is to be read, and not converted from what a client sent."""

# So long one that reads is waited for, as long as no more have been left alone with their disk.
HUNG_MS, MOST_HUNG = 1_000.0, MOST_OF_DISK

# How often one that runs is asked whether anybody waits for it, and from how many on those that wait are.
_SLICES_BETWEEN_LOOKS = 64
_FEW = 64


def set_steps(records: memoryview, config: LogConfig, now_ms: int, validate: str) -> Steps[memoryview]:
    """A client's message set as batches that the topic stores; nothing for an empty one."""
    from headgate.protocol.records import legacy

    made = yield from legacy.up_convert_steps(records, config.max_message_bytes)
    if not made:
        return memoryview(b"")
    is_set = legacy.is_legacy(records)  # else it came as a batch, which is alone here too
    return (yield from validation.prepare_steps(memoryview(made), config, now_ms, validate, may_be_many=is_set))


def batch_steps(records: memoryview, config: LogConfig, now_ms: int, validate: str) -> Steps[memoryview]:
    """A client's batches as the topic stores them."""
    if not records:
        raise KafkaError(ErrorCode.INVALID_RECORD, "there is no batch in the request")
    return (yield from validation.prepare_steps(records, config, now_ms, validate))


class Made(NamedTuple):
    """What is sent of a piece of a segment: other bytes, or if there are none, its bytes up to a position.

    With bytes, `position` is the offset from which on to read next.
    """

    position: int
    records: bytes | bytearray | None


def set_of(piece: FileSlice, magic: int, first_offset: int, max_bytes: int, is_first: bool) -> Steps[Made]:
    """A message set of this magic with what is in a piece.

    If `is_first`, the first message comes even if it is larger than `max_bytes`; else there may be room for nothing.
    """
    from headgate.protocol.records import legacy

    if max_bytes <= 0 and not is_first:
        return Made(first_offset, b"")
    data = yield from piece.read_steps(0, len(piece))
    made = yield from legacy.down_convert_steps(data, magic, first_offset, max_bytes)
    if len(made.data) > max_bytes and not is_first:
        return Made(first_offset, b"")
    return Made(made.next_offset, made.data)


def batches_of(piece: FileSlice, room: int, *, knows_zstd: bool = True) -> Steps[Made]:
    """Batches with what is in a piece that may hold messages of magic 0 and 1.

    `room`: how many bytes to convert, but for the first wrapper or batch.
    """
    from headgate.storage.segment import legacy_messages

    if room <= 0:
        return Made(-1, b"")
    made, _ = yield from legacy_messages.batches_steps(piece, 0, min(room, len(piece)))
    if not knows_zstd:
        from headgate.protocol.records import recompression

        made = yield from recompression.zstd_to_gzip_steps(made)
    return Made(-1, made)


def without_zstd(piece: FileSlice, room: int) -> Steps[Made | None]:
    """What to do about zstd in a piece; None if there is none. `room`: how many bytes to convert, but for one batch."""
    from headgate.protocol.records import recompression

    if isinstance(piece, MessagesSlice):
        return (yield from batches_of(piece, room, knows_zstd=False))
    position = yield from _find_zstd(piece)
    if position is None:
        return None
    if position:
        return Made(position, None)
    if room <= 0:
        return Made(-1, b"")
    head = batch.read_header((yield from piece.read_steps(0, batch.HEADER_SIZE)))
    data = yield from piece.read_steps(0, max(head.size, room))
    return Made(-1, (yield from recompression.zstd_to_gzip_steps(data)))


def _find_zstd(piece: FileSlice) -> Steps[int | None]:
    """Where the first batch in zstd begins, told by the heads of batches alone, and by what was looked at before."""
    window: bytes | bytearray = b""
    known_from, known_to = piece.passed
    position = known_to if known_from <= 0 < known_to else 0
    start, size, hops = position, len(piece), 0
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
        if length < batch.HEADER_SIZE - batch.LOG_OVERHEAD:  # a damaged disk: the client will find that too
            return None
        position += length + batch.LOG_OVERHEAD
        hops += 1
        if not hops % _HOPS_AT_ONCE:
            yield
    piece.note_passed(min(position, size))
    return None


def caught(steps: Steps[T]) -> Steps[T | KafkaError | OSError]:
    """What the steps return, or the error of records or of the disk that they raise."""
    try:
        return (yield from steps)
    except (KafkaError, OSError) as error:
        return error


class _Job(NamedTuple):
    steps: Steps[Any]
    size: int
    done: Done
    is_wanted: Callable[[], bool]
    is_reading: bool


class Conversions:
    """Those that wait, and the one that runs."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._queue: deque[_Job] = deque()
        self._running: _Job | None = None
        self._hung = 0  # that wait for a disk, beside the one that runs
        self._look_at = _FEW  # the length of the queue at which it is looked through
        self._turn_bytes = 0  # converted at once since the present turn began
        self.waiting_bytes = 0

    def run(
        self,
        steps: Steps[Any],
        size: int,
        done: Done,
        is_wanted: Callable[[], bool] | None = None,
        first_bytes: int = 0,
        *,
        is_reading: bool = False,
    ) -> Any:
        """The result, if the first slice brings it; else None, and it comes by `done`, as of `submit`.

        `first_bytes`: what the first slice may convert, if that is more than `size`.
        """
        if self._turn_bytes < TURN_BYTES:
            if not self._turn_bytes:
                self._scheduler.call_soon(self._end_turn)
            self._turn_bytes += max(size, first_bytes, _LEAST_BYTES)
            try:
                next(steps)
            except StopIteration as end:
                return end.value
        self.submit(steps, size, done, is_wanted, is_reading=is_reading)
        return None

    def share(self, most: int, least: int) -> int:
        """How many bytes somebody should have converted now, so that those who wait have their turn soon."""
        return max(least, most // (1 + len(self._queue)))

    def _end_turn(self) -> None:
        self._turn_bytes = 0

    def submit(
        self,
        steps: Steps[Any],
        size: int,
        done: Done,
        is_wanted: Callable[[], bool] | None = None,
        *,
        is_reading: bool = False,
    ) -> None:
        """Run `steps` when it is their turn, then `done` with their result, or with the exception that they raised.

        `size`: the bytes that are held until then. What is no longer wanted is forgotten, at the latest when its turn
        comes, and broken off. `is_wanted` is called from a thread too. `is_reading`: the steps may wait for a disk.
        Raises KafkaError(REQUEST_TIMED_OUT) if too much waits already.
        """
        if len(self._queue) >= self._look_at:
            self._forget_unwanted()
        if self.waiting_bytes > MAX_WAITING_BYTES:
            message = f"{self.waiting_bytes} bytes of records wait to be converted"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, message)
        self.waiting_bytes += size
        self._queue.append(_Job(steps, size, done, is_wanted or _always, is_reading))
        if self._running is None:
            self._start(self._queue.popleft())

    def _forget_unwanted(self) -> None:
        """Let go of what those who hung up left: else who comes again and again would fill the memory."""
        wanted = deque(job for job in self._queue if job.is_wanted())
        self.waiting_bytes -= sum(job.size for job in self._queue) - sum(job.size for job in wanted)
        self._queue = wanted
        self._look_at = max(_FEW, 2 * len(wanted))

    def _next(self) -> None:
        self._running = None
        if self._scheduler.is_over:
            self._give_up()
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
            self._scheduler.call_after(HUNG_MS, partial(self._leave_alone, job))

    def _leave_alone(self, job: _Job) -> None:
        """Go on without one that waits for a disk, if it does."""
        if self._running is not job:
            return
        if self._hung < MOST_HUNG:
            self._hung += 1
            self._next()
        else:
            self._scheduler.call_after(HUNG_MS, partial(self._leave_alone, job))

    def _give_up(self) -> None:
        """The broker has stopped. Who wants an answer has been refused; who wants none has only the log."""
        left = [job.size for job in self._queue if job.is_wanted()]
        if left:
            logger.warning("the broker stopped before %d conversions, of %d bytes, were made", len(left), sum(left))
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
                job.done(result)
        finally:
            if is_running:
                self._next()


def _while_wanted(job: _Job) -> Steps[Any]:
    """The steps, or as many of them as somebody waits for."""
    steps, is_wanted = job.steps, job.is_wanted
    for number in itertools.count(1):
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        if not number % _SLICES_BETWEEN_LOOKS and not is_wanted():
            break
        yield
    steps.close()
    return _UNWANTED


_UNWANTED = object()


def _always() -> bool:
    return True
