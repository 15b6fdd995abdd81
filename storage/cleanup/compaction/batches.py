"""The batches of the segments under compaction, each complete and with its CRC checked."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import Buffer, batch, compression, control
from headgate.protocol.records.batch import HEADER_SIZE, BatchHeader
from headgate.protocol.records.control import UNKNOWN, Marker
from headgate.storage.cleanup.compaction.compaction_job import Damaged, Job
from headgate.storage.cleanup.compaction.planning import SegmentFacts
from headgate.storage.disk.pool import Pool
from headgate.storage.segment.segment_file import LOG_SUFFIX


class Batches:
    """The batches of a job's segments, read through a window of `Job.read_bytes`. `read_bytes`: bytes read so far."""

    def __init__(self, pool: Pool, job: Job) -> None:
        self._pool = pool
        self._job = job
        self.read_bytes = 0

    def path(self, base_offset: int) -> str:
        """The path of a segment's `.log` file."""
        return f"{self._job.directory}/{base_offset:020d}{LOG_SUFFIX}"

    def of(self, facts: SegmentFacts) -> Iterator[tuple[BatchHeader, memoryview, int]]:
        """Each batch of a segment: its header, its bytes, the byte position of its end. Raises Damaged, OSError."""
        path, size = self.path(facts.base_offset), facts.size
        file = self._pool.files.open(path)
        try:
            position = start = 0
            window = memoryview(b"")
            while position < size:
                try:
                    header = batch.read_header(window, position - start) if position - start < len(window) else None
                except KafkaError:
                    header = None
                if header is None or position - start + header.size > len(window):
                    window = memoryview(file.read_at(min(self._job.read_bytes, size - position), position))
                    start, header = position, _header(window, path, position)
                    if header.size > len(window):
                        window = memoryview(file.read_at(min(header.size, size - position), position))
                view = window[position - start : position - start + header.size]
                if len(view) < header.size or not batch.check_crc(view):
                    raise Damaged(
                        f"{path}, byte {position}, offset {header.base_offset}: the CRC of the batch is wrong"
                    )
                position += header.size
                self.read_bytes += header.size
                yield header, view, position
        finally:
            file.release()


def _header(window: memoryview, path: str, position: int) -> BatchHeader:
    try:
        return batch.read_header(window)
    except KafkaError as error:
        raise Damaged(f"{path}, byte {position}: {error.message}") from None


def records(header: BatchHeader, view: memoryview) -> bytes:
    """The records of a batch, decompressed. Raises KafkaError for undecodable bytes."""
    return bytes(compression.decompress(header.compression, view[HEADER_SIZE:]))


def marker(header: BatchHeader, view: Buffer) -> Marker | None:
    """The transaction marker in a control batch; None if the record was removed or is of an unknown kind."""
    return control.read(view) if header.records_count else None


def kind(header: BatchHeader, view: Buffer) -> int | None:
    """The kind of a control batch: ABORT, COMMIT, UNKNOWN for any other, None if its record was removed."""
    if not header.records_count:
        return None
    known = marker(header, view)
    if known is None:
        return UNKNOWN
    return control.COMMIT if known.is_commit else control.ABORT
