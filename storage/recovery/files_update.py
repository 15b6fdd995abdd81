"""Brings the files of a log to the state of the log in memory, which was cut first: so no reader meets a changing file.

The repair after a failed sync and the truncation of a log in use share this. All of it may be done again after a
failure.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from headgate.protocol.errors import KafkaError, without_frames
from headgate.protocol.steps import Steps
from headgate.storage.disk.layout import base_of
from headgate.storage.disk.pool import Pool
from headgate.storage.files import NO_ROOM, Files
from headgate.storage.log.log import Log
from headgate.storage.log.producers import Producers
from headgate.storage.segment.index_finalization import INDEX_SUFFIXES, content_of, note_written
from headgate.storage.segment.segment import Segment
from headgate.storage.segment.segment_file import LOG_SUFFIX


class Facts(NamedTuple):
    """A segment as the log knows it; `size` in bytes."""

    base_offset: int
    size: int
    has_legacy_format: bool


class FilesUpdate:
    """The part of an operation on a log that threads run. If `error` is set afterwards, it must be tried again."""

    def __init__(self, log: Log) -> None:
        self.error: BaseException | None = None
        self.end_offset = log.end_offset
        self._log = log  # a thread reads only the values that do not change during the operation
        self._files: Files = log.pool.files
        self._directory = log.directory
        self._facts = facts_of(log)
        self._write_epochs = _epochs_of(log)
        self._replacement = log.segments.compacted.unfinished if log.segments.were_compacted else None
        self._is_last_in_memory = False
        self._unsealed: list[tuple[Segment, dict[str, bytes | None]]] = []
        self.sealed: list[Segment] = []
        """Set by `write_steps`: the segments whose indexes are in files again."""
        self.producers: Producers | None = None
        """Set by `write_steps`: the producer state at the end of a cut log, and the offset of its snapshot."""

    @property
    def is_valid(self) -> bool:
        """Whether there was no error, and the log is unchanged since `begin`."""
        log = self._log
        is_same = log.end_offset == self.end_offset and facts_of(log) == self._facts
        return self.error is None and is_same and not log.is_retired

    def _finish_renames(self) -> None:
        """Finish the renames of the last compaction: replaced files may still have names of the log. Raises OSError."""
        if self._replacement is not None:
            self._replacement.finish_renames()

    def _segment(self, pool: Pool, facts: Facts) -> Segment:
        segment = Segment(pool, self._directory, facts.base_offset, (facts.size, -1, -1, -1))
        segment.has_legacy_format = facts.has_legacy_format
        return segment

    def _copy(self) -> Log:
        """A copy of the log for this thread alone, without any index."""
        log, pool = self._log, Pool(self._files, max_open_segments=1)
        segments = [self._segment(pool, facts) for facts in self._facts]
        copy = Log(pool, self._directory, *log.key, log.topic_id, log.config, segments, Random(0))
        copy.recovered(self.end_offset, is_clean=True)
        if log.has_transactions:
            copy.note_transactions()
        return copy

    def note_differences(self, log: Log) -> bool:
        """Note how the files differ from the log in memory. Returns whether they differ."""
        self.end_offset, self._facts = log.end_offset, facts_of(log)
        in_memory = [segment for segment in log.segments[:-1] if _is_in_memory(segment)]
        self._is_last_in_memory = not any(index.written for index in log.segments.active.indexes)
        self._unsealed = [(segment, content_of(segment)) for segment in in_memory]
        self._write_epochs = _epochs_of(log)
        return log.is_ahead or bool(in_memory or self._write_epochs)

    def write_steps(self) -> Steps[None]:
        """Bring the files to the state of the log in memory, in slices."""
        files = self._files
        try:
            if self._log.is_ahead:
                self._cut()
                yield
                copy = self._copy()
                yield from copy.reload_producers_steps()
                copy.close_files()
                self.producers = copy.producers
            for segment, contents in self._unsealed:
                self._seal(segment, contents)
                yield
            self._sync_epochs()
            files.sync_directory(self._directory)
        except (OSError, KafkaError) as error:
            self.error = without_frames(error)

    def settle(self, log: Log) -> None:
        """Note in the log what `write_steps` has written."""
        for segment in self.sealed:
            note_written(segment)
        if self.producers is not None:
            log.take_producers(self.producers)

    def _sync_epochs(self) -> None:
        path = self._log.epochs.path
        if self._write_epochs is not None:
            self._write_epochs()
            if self._files.exists(path):
                self._files.sync(path)

    def _seal(self, segment: Segment, contents: dict[str, bytes | None]) -> None:
        """Write the index files. Without disk space there are none; the next start rebuilds them. Raises OSError."""
        self._remove_indexes(segment.base_offset)
        try:
            for suffix, content in contents.items():
                if content is not None:
                    self._files.write(f"{self._directory}/{segment.base_offset:020d}{suffix}", content, sync=True)
        except OSError as error:
            self._remove_indexes(segment.base_offset)
            if error.errno not in NO_ROOM:
                raise
        else:
            self.sealed.append(segment)

    def _cut(self) -> None:
        """Cut the last segment's file where the log ends, and remove all other files, the last one first."""
        files = self._files
        sizes = {facts.base_offset: facts.size for facts in self._facts}
        names = files.list(self._directory)
        last = self._facts[-1]
        last_path = f"{self._directory}/{last.base_offset:020d}{LOG_SUFFIX}"
        if not files.exists(last_path):  # first: after a crash a log without segments would seem to be lost
            files.open(last_path, create=True).release()
            files.sync_directory(self._directory)
        for name in sorted(names, reverse=True):
            base = base_of(name) if name.endswith(LOG_SUFFIX) else None
            if base is not None and base not in sizes:
                self._remove_segment(f"{self._directory}/{name}", is_behind=base > min(sizes) and names[name] > 0)
                self._remove_indexes(base)
        file = files.open(last_path)
        try:
            if file.size() > last.size:
                file.truncate(last.size)
            file.sync()
        finally:
            file.release()
        if self._is_last_in_memory:
            self._remove_indexes(last.base_offset)
        # Otherwise, after a crash, the removed files could reappear after later appends.
        files.sync_directory(self._directory)

    def _remove_segment(self, path: str, *, is_behind: bool) -> None:
        """Remove a `.log` that the log has no more; `is_behind`: with bytes behind the log's start."""
        self._files.remove(path)

    def _remove_indexes(self, base_offset: int) -> None:
        for suffix in INDEX_SUFFIXES:
            self._files.remove(f"{self._directory}/{base_offset:020d}{suffix}")


def facts_of(log: Log) -> list[Facts]:
    return [fact_of(segment) for segment in log.segments]


def _epochs_of(log: Log) -> Callable[[], None] | None:
    """A write of the leader epochs, if they may not be on the disk."""
    return None if log.epochs.is_synced else log.epochs.begin_write(needs_room=False)


def fact_of(segment: Segment) -> Facts:
    return Facts(segment.base_offset, segment.size, segment.has_legacy_format)


def _is_in_memory(segment: Segment) -> bool:
    """Whether the indexes of a segment were rebuilt and are not yet in files."""
    return segment.size > 0 and not segment.is_sealed and not any(index.written for index in segment.indexes)
