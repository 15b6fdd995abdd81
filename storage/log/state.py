"""The values of a log, and their changes. This module touches no file: `Log` does that, before or after each change.

Only `Log` changes these values; other modules read them, or ask the log.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.log.flush import NOT_BEGUN, Flush
from headgate.storage.log.log_lock import (
    ENDS_BY_ITSELF,
    EXCLUDED_BY,
    FAILED,
    FLUSHING,
    RETIRED,
    STAGED,
    WRITING,
)
from headgate.storage.log.pending_write import PendingWrite


class LogState:
    """The offsets of a log, its unsynced parts, and its lock."""

    __slots__ = (
        "being_written",
        "end_offset",
        "exclusive_operations",
        "flushing",
        "has_transactions",
        "indexes_unsynced",
        "is_ahead",
        "is_retired",
        "key",
        "last_decided_offset",
        "last_flush_ms",
        "names_unsynced",
        "recovery_point",
        "staged",
        "start_offset",
        "sync_error",
    )

    def __init__(self, key: tuple[str, int], offset: int, *, names_unsynced: bool = False) -> None:
        """The state of an empty log that begins at `offset`; `key`: topic and partition."""
        self.key = key
        """The key of all mappings by partition is this very tuple: one for each would take half a kilobyte."""
        self.start_offset = self.end_offset = self.recovery_point = offset
        """The first offset, the next one, and the offset below which a crash loses nothing."""
        self.has_transactions = False
        """Whether the log has, or had, a transaction."""
        self.last_decided_offset = 0
        """Every transaction below this offset has ended with a durable marker, as far as is known."""
        self.names_unsynced = names_unsynced
        """Whether names in the log's directory, or its own name, may not be on the disk."""
        self.indexes_unsynced: list[str] = []
        """Files to sync: indexes of segments rolled since the last flush, and truncated segments."""
        self.is_retired = False
        """Whether the log is deleted, or about to be."""
        self.is_ahead = False
        """Whether files are older than the log in memory, until a repair updates them."""
        self.exclusive_operations = 0
        """The operations of threads on the names of files: see `storage.log.log_lock`."""
        self.staged: PendingWrite | None = None
        self.being_written: PendingWrite | None = None
        """The write of a thread, from `begin_write` to `end_write`."""
        self.flushing: Flush | None = None
        """The flush, from `begin_flush` to `end_flush`."""
        self.last_flush_ms = 0
        self.sync_error: KafkaError | None = None
        """The error of a failed sync: the content of the disk is unknown since, and the log is not flushed."""

    @property
    def topic(self) -> str:
        """The name of the log's topic."""
        return self.key[0]

    @property
    def partition(self) -> int:
        """The number of the log's partition."""
        return self.key[1]

    @property
    def written_end(self) -> int:
        """The offset after the last batch in the file, without batches that are staged or being written."""
        unwritten = self.being_written or self.staged
        return self.end_offset if unwritten is None else unwritten.first_offset

    # The lock: see `storage.log.log_lock`

    @property
    def operations(self) -> int:
        """All operations under way."""
        return (
            self.exclusive_operations
            | (STAGED if self.staged is not None else 0)
            | (WRITING if self.being_written is not None else 0)
            | (FLUSHING if self.flushing is not None else 0)
            | (FAILED if self.sync_error is not None else 0)
            | (RETIRED if self.is_retired else 0)
        )

    def may(self, operation: int) -> bool:
        """Whether an operation may begin now: `FLUSH`, `ROLL`, `REPAIR`, `DELETE_SEGMENTS`, `SWAP`."""
        return not self.operations & operation

    def waits(self, operation: int) -> bool:
        """Whether an operation may begin once a thread has ended another one; else waiting is useless."""
        return bool(self.operations & operation & ENDS_BY_ITSELF)

    def acquire(self, operation: int) -> None:
        """Begin an exclusive operation of a thread: `ROLLING`, `REPAIRING`, `DELETING` or `SWAPPING`."""
        assert not self.exclusive_operations & EXCLUDED_BY[operation], f"a thread works with the files of {self!r}"
        self.exclusive_operations |= operation

    def release(self, operation: int) -> None:
        """End an exclusive operation."""
        self.exclusive_operations &= ~operation

    # Flushes

    def sync_with_next_flush(self, paths: Iterable[str]) -> None:
        """Have the next flush sync these files."""
        self.indexes_unsynced += [path for path in paths if path not in self.indexes_unsynced]

    def apply_flush(self, flush: Flush, now_ms: int | None) -> None:
        """Apply the result of a flush that was run."""
        self.flushing = None
        if not flush.is_done:
            self.names_unsynced = True
            self.indexes_unsynced[:0] = flush.indexes
            return
        self.recovery_point = max(self.recovery_point, min(flush.end_offset, self.end_offset))
        self.last_decided_offset = max(self.last_decided_offset, min(flush.stable_offset, self.recovery_point))
        if now_ms is not None:
            self.last_flush_ms = now_ms

    def limit_durable_end(self, offset: int) -> None:
        """Exclude `offset` and later ones from the recovery point and from a flush under way."""
        if self.flushing is not None:  # the flush does not cover later appends
            self.flushing.end_offset = min(self.flushing.end_offset, offset)
            self.flushing.stable_offset = 0
        self.recovery_point, self.last_decided_offset = min(self.recovery_point, offset), 0

    # Errors

    def refuse(self, error: KafkaError) -> None:
        """Accept no records, and make no flush, for this reason."""
        self.sync_error = error

    def refusal(self) -> KafkaError:
        """`sync_error` to be raised: a new exception each time, as an exception keeps its traceback."""
        assert self.sync_error is not None
        return KafkaError(self.sync_error.code, self.sync_error.message)

    def note_failed_sync(self, error: OSError) -> bool:
        """Refuse appends and flushes from now on; false if the log does so already, or if the sync never began."""
        if self.sync_error is not None or error.errno in NOT_BEGUN:
            return False
        message = (
            f"a sync of {self.topic}-{self.partition} failed ({error}): the log takes no records until everything"
            f" behind offset {self.recovery_point} was read, checked and written once more; the broker does that"
        )
        self.refuse(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message))
        return True

    def disk_error(self, error: OSError) -> KafkaError:
        """The error for clients where the disk refuses something."""
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk of {self.topic}-{self.partition} refuses: {error}")
