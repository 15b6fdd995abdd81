"""Old segments that a log has given up: a thread renames their files.

    begin                         the log then starts after these segments; `storage.cleanup.retention` selects them
    SegmentDeletion.rename_files  renames the files with the suffix for deletion, in any thread
    end                           segments that could not be renamed return to the log, for a retry

The files are removed after file.delete.delay.ms (`storage.disk.pending_deletions`).
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.storage.log.log import Log
from headgate.storage.log.log_lock import DELETING
from headgate.storage.segment.replacement import Replacement
from headgate.storage.segment.segment import Segment


class SegmentDeletion:
    """Segments that the log has given up. A thread may call `rename_files`; `left` are then not renamed yet."""

    __slots__ = ("_delay_ms", "_replacement", "left")

    def __init__(self, segments: Sequence[Segment], delay_ms: float, replacement: Replacement | None) -> None:
        """`replacement`: the last compaction, if its renames are outstanding.

        These are finished first, or the replaced segments would reappear after a restart.
        """
        self._delay_ms = delay_ms
        self._replacement = replacement
        self.left = list(segments)

    def rename_files(self) -> None:
        """Rename the files of each segment, the oldest first. Raises OSError."""
        if self._replacement is not None:
            self._replacement.finish_renames()
        while self.left:
            self.left[0].delete(self._delay_ms)
            del self.left[0]


def begin(log: Log, count: int) -> SegmentDeletion | None:
    """Give up the oldest segments, at most `count`. A thread may run the result; then call `end`.

    None without such segments, or if a compaction is about to replace the first.
    """
    segments = log.segments
    count = segments.deletable(count)
    if not count:
        return None
    log.advance_start(segments[count].base_offset)
    log.names_unsynced = True
    log.lock.acquire(DELETING)
    replacement = segments.compacted.unfinished if segments.were_compacted else None
    return SegmentDeletion(segments.forget_first(count), log.config.file_delete_delay_ms, replacement)


def end(log: Log, deletion: SegmentDeletion) -> None:
    """End a deletion after its run: segments that could not be renamed return to the log, for the next deletion."""
    log.lock.release(DELETING)
    if not log.is_retired:  # without its `.log`, the next start removes the rest of a segment
        log.segments.put_back([segment for segment in deletion.left if not segment.is_deleted])
