"""The metadata log: one batch a change, so that a change is there as a whole or not at all."""

from __future__ import annotations

import errno
from collections.abc import Container, Iterator, Sequence

from protocol.errors import ErrorCode, KafkaError, MalformedRequest
from protocol.internal.metadata import MetadataRecord, decode, encode
from protocol.records import batch
from protocol.records.batch import Record
from storage.config import LogConfig
from storage.errors import StorageError
from storage.log import Log

_READ_BYTES = 1 << 20
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_LEADER_EPOCH = 0  # one node has this log to itself

# Nothing of it ever expires, and the largest change is one batch.
LOG_CONFIG = LogConfig(retention_ms=-1, retention_bytes=-1, max_message_bytes=64 << 20, segment_bytes=256 << 20)


class Journal:
    """Metadata records in a storage log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._failure: str | None = None

    @property
    def end_offset(self) -> int:
        """The offset behind the last record."""
        return self._log.end_offset

    def replay(self) -> Iterator[MetadataRecord]:
        """Every record from the first on. Raises StorageError for what cannot be understood: it is never guessed."""
        offset = self._log.start_offset
        while offset < self._log.end_offset:
            data = self._read(offset)
            for header, view in batch.split(data):
                if not batch.check_crc(view):
                    raise StorageError(self._where(header.base_offset, "its checksum is wrong"))
                yield from self._decode(view)
                offset = header.last_offset + 1

    def _read(self, offset: int) -> memoryview:
        piece = self._log.read(offset, _READ_BYTES, self._log.end_offset, at_least_one=True)
        if piece is None:
            raise StorageError(self._where(offset, "there is nothing to read"))
        try:
            return memoryview(piece.read())
        finally:
            piece.release()

    def _decode(self, view: memoryview) -> Iterator[MetadataRecord]:
        for record in batch.iterate(view):
            try:
                yield decode(record.value or b"")
            except MalformedRequest as error:
                raise StorageError(self._where(record.offset, str(error))) from None

    def _where(self, offset: int, what: str) -> str:
        return (
            f"the metadata log in {self._log.directory} cannot be read at offset {offset}: {what}; topics are known by"
            " it alone, so restore it from a copy, or start the newer version of Headgate that wrote it"
        )

    def append(self, records: Sequence[MetadataRecord], now_ms: int) -> None:
        """Write one change; it is on disk when this returns.

        Raises KafkaError(KAFKA_STORAGE_ERROR). After a failed sync nobody knows what is on
        disk, so nothing more is written.
        """
        if self._failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self._failure)
        if self._log.names_unsynced:  # this takes descriptors: where there are none, nothing is written yet
            self._sync(_NO_DESCRIPTORS)
        built = batch.build([Record(timestamp=now_ms, value=encode(record)) for record in records])
        self._log.append(memoryview(built), leader_epoch=_LEADER_EPOCH, now_ms=now_ms)
        self._sync()

    def _sync(self, harmless: Container[int] = ()) -> None:
        try:
            self._log.flush()
        except (OSError, KafkaError) as error:
            if getattr(error.__cause__, "errno", None) in harmless:
                raise
            self._failure = f"metadata cannot be changed since a sync to disk failed ({error}); restart the broker"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self._failure) from error
