"""One compaction of one log, from its job to the new segments that are swapped in.

The steps run on the thread of the log. Whatever takes long is yielded as a request, which the caller has done.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from headgate.storage.cleanup.compaction.compaction_job import Job, Rewritten, plan, plan_merge
from headgate.storage.cleanup.compaction.planning import CleanableRatio
from headgate.storage.files import FilePosition, Files, WouldBlock, planned
from headgate.storage.log.log import Log
from headgate.storage.log.log_lock import SWAP, SWAPPING
from headgate.storage.segment import replacement
from headgate.storage.segment.replacement import CLEANED_SUFFIX
from headgate.storage.segment.segment import Segment

J = TypeVar("J", Job, Job | None)


class Collect(NamedTuple):
    """Ask a worker for `Computation.collect` of a new job; the answer is a Collected."""

    job: Job


class Rewrite(NamedTuple):
    """Ask the worker for `Computation.rewrite`; the answer is a Rewritten."""

    bases: list[int]


class Sync(NamedTuple):
    """Ask a thread to run work that waits for the disk."""

    work: Callable[[], None]


CompactionStep = Collect | Rewrite | Sync


class CompactionAborted(Exception):
    """The log or its segments were deleted or changed meanwhile. This is no failure."""


def new_segment(log: Log, bases: Sequence[int], rewritten: Rewritten, now_ms: int) -> Segment:
    """The new segment of a `Computation.rewrite`, for `CompactionState.begin`."""
    return Segment(log.pool, log.directory, bases[0], rewritten.sizes, now_ms, CLEANED_SUFFIX)


class LogCompaction:
    """One compaction of one log. `table_bytes` and `read_bytes` are for the `Job`.

    `is_current` says whether the log is still served and compacted.
    """

    def __init__(
        self,
        log: Log,
        cleanable: CleanableRatio,
        now_ms: int,
        *,
        table_bytes: int,
        read_bytes: int,
        is_current: Callable[[], bool] = lambda: True,
    ) -> None:
        self._log = log
        self._cleanable = cleanable
        self._now_ms = now_ms
        self._table_bytes, self._read_bytes = table_bytes, read_bytes
        self._is_current = is_current
        self._cuts = log.segments.compacted.cuts
        self.before_bytes = log.segments.size
        self.records = self.kept_records = self.unreadable_batches = 0

    def steps(self) -> Generator[CompactionStep, Any, None]:
        """The whole compaction. The caller sends the answer to each yielded request, or throws its exception.

        Raises OSError, KafkaError and BadFile for a damaged index, CompactionAborted, and every thrown exception.
        """
        log = self._log
        yield from self._finish_last()
        job = yield from self._planned(plan, self._cleanable, self._cleanable.first_uncleanable)
        collected = yield Collect(job)
        for bases in collected.groups:
            rewritten = yield from self._rewrite_group(bases)
            self.records += rewritten.records
            self.kept_records += rewritten.kept_records
            self.unreadable_batches += rewritten.unreadable_batches
        self._check()
        log.segments.compacted.note_end(collected.end_offset)
        # Segments that are small now become one.
        merge = yield from self._planned(plan_merge, collected.end_offset, collected.end_offset)
        if merge is not None:
            for bases in (yield Collect(merge)).groups:
                yield from self._rewrite_group(bases)
            self._check()

    def _planned(self, make: Callable[..., J], what: object, end_offset: int) -> Generator[CompactionStep, Any, J]:
        """The job up to an offset. A thread first reads what is not in memory; evicted again, it is read here."""
        sizes = {"table_bytes": self._table_bytes, "read_bytes": self._read_bytes}
        warmed = set[FilePosition]()
        while True:
            try:
                return planned(lambda may: make(self._log, what, self._now_ms, **sizes, blocking=may), warmed)
            except WouldBlock as cold:
                cold.forget_plan()
                warmed.add(cold.place)
                try:
                    yield Sync(cold.warm)
                finally:
                    cold.release()
            self._check()
            if self._log.segments[0].base_offset >= end_offset:
                raise CompactionAborted("segments were deleted")

    @property
    def _is_valid(self) -> bool:
        """Whether the log still exists, is still compacted, and was not cut below the collected keys."""
        return not self._log.is_retired and self._is_current() and self._log.segments.compacted.cuts == self._cuts

    def _check(self) -> None:
        if not self._is_valid:
            raise CompactionAborted("the log was deleted or cut, or is not compacted any more")

    def _finish_last(self) -> Generator[CompactionStep, Any, None]:
        """Finish the outstanding renames of the last replacement."""
        log, last = self._log, self._log.segments.compacted.unfinished
        if last is None:
            return
        if not log.lock.may(SWAP):
            raise CompactionAborted("the log is being repaired; a later compaction swaps the names")
        log.lock.acquire(SWAPPING)
        try:
            yield Sync(last.finish_renames)
        finally:
            log.lock.release(SWAPPING)
        if log.is_retired:
            raise CompactionAborted("the log was deleted")
        log.segments.compacted.finish()

    def _rewrite_group(self, bases: list[int]) -> Generator[CompactionStep, Any, Rewritten]:
        """Have a group of segments rewritten, and swap the new segment in.

        Raises CompactionAborted if the segments were deleted; OSError, also without disk space.
        """
        needed = sum(segment.size for segment in self._closed(bases))
        yield Sync(partial(_check_room, self._log.pool.files, self._log.directory, needed))
        self._closed(bases)
        rewritten: Rewritten = yield Rewrite(bases)
        if rewritten.is_changed:
            yield from self._replace(bases, rewritten)
        return rewritten

    def _closed(self, bases: list[int]) -> Sequence[Segment]:
        """The segments of a group. Raises CompactionAborted if one was deleted."""
        self._check()
        old = self._log.segments.compacted.closed(bases)
        if old is None:
            raise CompactionAborted("segments were deleted")
        return old

    def _replace(self, bases: list[int], rewritten: Rewritten) -> Generator[CompactionStep, Any, None]:
        log = self._log
        old = log.segments.compacted.closed(bases)
        if old is None or not self._is_valid:
            if not log.is_retired:  # otherwise the directory may belong to another partition by now
                yield Sync(partial(replacement.remove, log.pool.files, log.directory, bases[0]))
            raise CompactionAborted("segments were deleted, or the log was")
        replaced = log.segments.compacted.begin(log.pool.files, old, new_segment(log, bases, rewritten, self._now_ms))
        error = None
        try:
            yield Sync(replaced.run)
        except Exception as failure:  # noqa: BLE001 - raised below
            error = failure
        if log.is_retired:
            raise CompactionAborted("the log was deleted")
        is_done = log.segments.compacted.end(replaced, log.config.file_delete_delay_ms)
        yield from self._finish_last()
        if error is not None:
            raise error
        if not is_done:
            raise CompactionAborted("segments were deleted")


def _check_room(files: Files, directory: str, needed: int) -> None:
    """Raises OSError(ENOSPC) if fewer bytes than `needed` are free. Runs in a thread, as a disk may hang."""
    _, free = files.space(directory)
    if free < needed:
        raise OSError(errno.ENOSPC, f"a new segment may need {needed} bytes of space, but only {free} are free")


def advance(steps: Generator[CompactionStep, Any, None], answer: object) -> CompactionStep:
    """The next request of a compaction after an answer, None at first; an exception is thrown. Raises StopIteration."""
    return steps.throw(answer) if isinstance(answer, BaseException) else steps.send(answer)
