"""A round: one compaction of one log, from its job to the new segments that are taken up.

The steps belong to the thread of the log; what takes long is asked for, and done by whoever drives the round.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from headgate.protocol.steps import finish
from headgate.storage.cleanup.compaction.job import Job, Rewritten, assess, plan, plan_merge
from headgate.storage.cleanup.compaction.planning import CleanableRatio
from headgate.storage.cleanup.compaction.work import WRITE_BYTES, Compaction
from headgate.storage.files import Files, Place, WouldBlock, planned
from headgate.storage.log import replacement
from headgate.storage.log.log import Log
from headgate.storage.log.log_lock import SWAP, SWAPPING
from headgate.storage.log.replacement import CLEANED_SUFFIX
from headgate.storage.segment.segment import Segment

J = TypeVar("J", Job, Job | None)


class Collect(NamedTuple):
    """Have a worker do `Compaction.collect`; the answer is a Collected."""

    job: Job


class Rewrite(NamedTuple):
    """Have it do `Compaction.rewrite`; the answer is a Rewritten."""

    bases: list[int]


class Sync(NamedTuple):
    """Have a thread do what waits for the disk."""

    work: Callable[[], None]


Request = Collect | Rewrite | Sync


class Gone(Exception):
    """The log, or what was to be replaced of it, is not there any more; nothing is wrong."""


def new_segment(log: Log, bases: Sequence[int], rewritten: Rewritten, now_ms: int) -> Segment:
    """The segment that `Compaction.rewrite` has left, to be handed to `Compacted.begin`."""
    return Segment(log.pool, log.directory, bases[0], rewritten.sizes, now_ms, CLEANED_SUFFIX)


class LogCompaction:
    """One compaction of one log. `table_bytes` and `read_bytes` are those of `Job`."""

    def __init__(
        self,
        log: Log,
        dirt: CleanableRatio,
        now_ms: int,
        *,
        table_bytes: int,
        read_bytes: int,
        is_current: Callable[[], bool] = lambda: True,
    ) -> None:
        self._log = log
        self._cleanable = dirt
        self._now_ms = now_ms
        self._table_bytes, self._read_bytes = table_bytes, read_bytes
        self._is_current = is_current
        self._cuts = log.compacted.cuts
        self.before_bytes = log.size
        self.records = self.kept_records = self.unreadable_batches = 0

    def steps(self) -> Generator[Request, Any, None]:
        """All of it; what takes long is asked for, and what is between is done at once, by the thread of the log.

        Raises OSError, KafkaError and BadFile for a damaged index, Gone, and what is thrown in as an answer.
        """
        log = self._log
        yield from self._finish_last()
        job = yield from self._planned(plan, self._cleanable, self._cleanable.first_uncleanable)
        collected = yield Collect(job)
        for bases in collected.groups:
            rewritten = yield from self._rewrite(bases)
            self.records += rewritten.records
            self.kept_records += rewritten.kept_records
            self.unreadable_batches += rewritten.unreadable_batches
        self._check()
        log.compacted.note_end(collected.end_offset)
        # Those that are small now become one.
        merge = yield from self._planned(plan_merge, collected.end_offset, collected.end_offset)
        if merge is not None:
            for bases in (yield Collect(merge)).groups:
                yield from self._rewrite(bases)
            self._check()

    def _planned(self, make: Callable[..., J], what: object, end_offset: int) -> Generator[Request, Any, J]:
        """The job up to an offset. What is not in memory a thread reads first; what is gone again is waited for."""
        sizes = {"table_bytes": self._table_bytes, "read_bytes": self._read_bytes}
        warmed = set[Place]()
        while True:
            try:
                return planned(lambda may: make(self._log, what, self._now_ms, **sizes, blocking=may), warmed)
            except WouldBlock as cold:
                cold.__traceback__ = None
                warmed.add(cold.place)
                try:
                    yield Sync(cold.warm)
                finally:
                    cold.release()
            self._check()
            if self._log.segments[0].base_offset >= end_offset:
                raise Gone("segments were deleted")

    @property
    def _is_sound(self) -> bool:
        """Whether the log is there, is to be compacted, and what is known of its keys was not cut off."""
        return not self._log.is_retired and self._is_current() and self._log.compacted.cuts == self._cuts

    def _check(self) -> None:
        if not self._is_sound:
            raise Gone("the log is gone, or was cut, or is not compacted any more")

    def _finish_last(self) -> Generator[Request, Any, None]:
        """What the last replacement has left."""
        log, last = self._log, self._log.compacted.unfinished
        if last is None:
            return
        if not log.may(SWAP):
            raise Gone("the log is being mended, and its names are swapped later")
        log.acquire(SWAPPING)
        try:
            yield Sync(last.settle)
        finally:
            log.release(SWAPPING)
        if log.is_retired:
            raise Gone("the log was deleted")
        log.compacted.finish()

    def _rewrite(self, bases: list[int]) -> Generator[Request, Any, Rewritten]:
        """Have a group written anew, and take it up, unless its segments are gone, or there is no room for it."""
        needed = sum(segment.size for segment in self._closed(bases))
        yield Sync(partial(_check_room, self._log.pool.files, self._log.directory, needed))
        self._closed(bases)
        rewritten: Rewritten = yield Rewrite(bases)
        if rewritten.is_changed:
            yield from self._replace(bases, rewritten)
        return rewritten

    def _closed(self, bases: list[int]) -> Sequence[Segment]:
        """The segments that are to be written anew. Raises Gone."""
        self._check()
        old = self._log.compacted.closed(bases)
        if old is None:
            raise Gone("segments were deleted")
        return old

    def _replace(self, bases: list[int], rewritten: Rewritten) -> Generator[Request, Any, None]:
        log = self._log
        old = log.compacted.closed(bases)
        if old is None or not self._is_sound:
            if not log.is_retired:  # else the directory may be another's by now
                yield Sync(partial(replacement.remove, log.pool.files, log.directory, bases[0]))
            raise Gone("segments were deleted, or the log was")
        replaced = log.compacted.begin(log.pool.files, old, new_segment(log, bases, rewritten, self._now_ms))
        error = None
        try:
            yield Sync(replaced.run)
        except Exception as failure:  # noqa: BLE001 - raised below
            error = failure
        if log.is_retired:
            raise Gone("the log was deleted")
        is_done = log.compacted.end(replaced, log.config.file_delete_delay_ms)
        yield from self._finish_last()
        if error is not None:
            raise error
        if not is_done:
            raise Gone("segments were deleted")


def _check_room(files: Files, directory: str, needed: int) -> None:
    """Raises OSError(ENOSPC) if that is more than is free. By a thread: a disk that hangs does not tell."""
    _, free = files.space(directory)
    if free < needed:
        raise OSError(errno.ENOSPC, f"a new segment may need {needed} bytes of space, and {free} are left")


def go_on(steps: Generator[Request, Any, None], answer: object) -> Request:
    """What a round asks for next, after an answer: None at first; an exception is thrown in. Raises StopIteration."""
    return steps.throw(answer) if isinstance(answer, BaseException) else steps.send(answer)


def compact(log: Log, now_ms: int, up_to: int | None = None, *, table_bytes: int = 1 << 27) -> bool:
    """Compact a log once, at once, however clean it is; whether there was anything to do. Raises OSError, Damaged."""
    dirt = assess(log, now_ms, log.end_offset if up_to is None else up_to)
    if not dirt.dirty_bytes:
        return False
    steps = LogCompaction(log, dirt, now_ms, table_bytes=table_bytes, read_bytes=WRITE_BYTES).steps()
    answer: object = None
    work: Compaction | None = None
    while True:
        try:
            request = go_on(steps, answer)
        except StopIteration:
            return True
        try:
            if isinstance(request, Collect):
                work = Compaction(log.pool, request.job)
                answer = finish(work.collect())
            elif isinstance(request, Rewrite):
                assert work is not None
                answer = finish(work.rewrite(request.bases))
            else:
                answer = request.work()
        except BaseException as error:  # noqa: BLE001 - for the round to raise
            answer = error
