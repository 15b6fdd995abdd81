"""`headgate log ls`: the partitions or segments of a data directory, from file names and the last batches alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from headgate.protocol.errors import KafkaError
from headgate.storage.disk.pool import SWAP_SUFFIX, Pool
from headgate.storage.files import Files
from headgate.storage.recovery.quarantine import TORN_SUFFIX
from headgate.storage.segment.batch_seek import seek
from headgate.storage.segment.replacement import CLEANED_SUFFIX
from headgate.storage.segment.segment import Segment
from headgate.storage.segment.segment_file import DELETED_SUFFIX
from headgate.tools.log import segment_reader
from headgate.tools.log.auxiliary_files import topic_id_of
from headgate.tools.log.data_directory import DataDirectory, PartitionDirectory, Selection
from headgate.tools.log.overlay import Overlay
from headgate.tools.output import Row

DAMAGED = "damaged"
_QUARANTINE_SUFFIXES = (TORN_SUFFIX, DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)


def partition_rows(selection: Selection) -> Iterator[Row]:
    """A row for each partition. Raises OSError."""
    pool = Pool(Overlay())
    for partition in selection.partitions:
        names = pool.files.list(partition.directory)
        segments = segment_reader.open_segments(pool, partition.directory, names)
        end = end_offset(segments)
        key, data = partition.key, selection.data
        recovery_point = data.recovery_points.get(key)
        yield {
            "topic": partition.topic,
            "partition": partition.partition,
            "topic_id": topic_id_of(pool, partition.directory),
            "segments": len(segments),
            "bytes": sum(segment.size for segment in segments),
            "start_offset": max(data.start_offsets.get(key, 0), segments[0].base_offset if segments else 0),
            "end_offset": end,
            "high_watermark": data.high_watermarks.get(key),
            "recovery_point": recovery_point,
            "state": state(data, partition, segments, end),
            "aside_bytes": sum(size for name, size in names.items() if name.endswith(_QUARANTINE_SUFFIXES)),
            "directory": partition.directory,
        }
        _close(segments)


def state(data: DataDirectory, partition: PartitionDirectory, segments: Sequence[Segment], end: int | None) -> str:
    """The state of a partition, which decides about the work of the next start.

    clean: none. flushed: everything is below the recovery point. unclean: a scan of the end. damaged: the start refuses
    the partition. in use: unknown, a broker has the partition open.
    """
    if partition.state:
        return partition.state
    recovery_point = data.recovery_points.get(partition.key, 0)
    if end is None and data.is_clean:  # after a clean shutdown the next start cuts nothing
        return DAMAGED
    if (_end_of_valid_batches(segments[-1]) if end is None else end) < recovery_point:
        return DAMAGED
    if data.lock_holder is not None:
        return "in use"
    if end is None:
        return "unclean"
    if data.is_clean:
        return "clean"
    return "unclean" if end > recovery_point or not segments else "flushed"


def _end_of_valid_batches(segment: Segment) -> int:
    """The offset after the last valid batch, where the next start truncates an unclean log."""
    iterator = segment.iterate()
    for _ in iterator:
        pass
    return iterator.next_offset


def segment_rows(selection: Selection) -> Iterator[Row]:
    """A row for each segment. Raises OSError."""
    pool, files = Pool(Overlay()), Files()
    for partition in selection.partitions:
        segments = segment_reader.open_segments(pool, partition.directory, pool.files.list(partition.directory))
        for segment, following in zip_longest(segments, segments[1:]):
            yield {
                "topic": partition.topic,
                "partition": partition.partition,
                "segment": segment.base_offset,
                "bytes": segment.size,
                "end_offset": end_offset([segment]) if following is None else following.base_offset,
                "first_timestamp": _first_timestamp(segment),
                "index_entries": segment.offsets.entries,
                "time_index_entries": segment.times.entries,
                "modified": files.modified_ms(segment.path),
                "path": segment.path,
            }
        _close(segments)


def end_offset(segments: Sequence[Segment]) -> int | None:
    """The offset after the last batch; None if the last segment does not end with a batch."""
    if not segments:
        return 0
    last = segments[-1]
    if not last.size:
        return last.base_offset
    indexed = last.offsets.last_position
    for position in (indexed, 0):  # the index may not fit the bytes; then seek from the first batch on
        try:
            hop = seek(last, position, last.size - 1) if 0 <= position < last.size else None
        except KafkaError:
            continue
        if hop is not None:
            return hop[3] + 1
    return None


def _first_timestamp(segment: Segment) -> int:
    try:
        return segment.first_timestamp
    except KafkaError:
        return -1


def _close(segments: Sequence[Segment]) -> None:
    for segment in segments:
        segment.close()
