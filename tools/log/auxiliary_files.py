"""The files beside the segments as rows: indexes, producer snapshots, leader epochs, ids, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from headgate.storage.disk import checkpoint, layout
from headgate.storage.disk.checkpoint import CLEANED_OFFSETS, HIGH_WATERMARKS, RECOVERY_POINTS, START_OFFSETS
from headgate.storage.disk.pool import Pool
from headgate.storage.errors import BadFile
from headgate.storage.files import Files, parent
from headgate.storage.log import epochs as leader_epochs
from headgate.storage.log.producers import SNAPSHOT_SUFFIX, Producers
from headgate.storage.segment import transaction_index
from headgate.storage.segment.index import Index, OffsetIndex, TimeIndex
from headgate.storage.segment.transaction_index import TransactionIndex
from headgate.tools.log.data_directory import is_empty
from headgate.tools.output import Row

RowReader = Callable[[Files, str], Iterator[Row]]


class ParsedIndex(NamedTuple):
    """The entries of an index, relative as in the file. `unused`: zero entries at the end, preallocated by Kafka.

    `is_cut`: the file ends within an entry.
    """

    pairs: list[tuple[int, int]]
    unused: int
    is_cut: bool


def parse_index(kind: type[Index], data: bytes) -> ParsedIndex:
    """The entries in the bytes of an index. Only a first and only entry may be all zeros."""
    size = kind.ENTRY.size
    entries, cut = divmod(len(data), size)
    used = min(entries, -(-len(data.rstrip(b"\0")) // size))  # Kafka preallocates 10 MB, so do not unpack all of it
    return ParsedIndex(list(kind.ENTRY.iter_unpack(data[: used * size])), entries - used, bool(cut))


def reader_of(name: str) -> RowReader | None:
    """The reader for files of this name; None for files of batches and for unknown files."""
    if layout.base_of(name) is None:
        return _BY_NAME.get(name)
    return _BY_SUFFIX.get("." + name.split(".")[1])  # a second suffix marks a file under replacement or deletion


def _base_offset(path: str) -> int:
    base = layout.base_of(path.rpartition("/")[2])
    assert base is not None, path  # `reader_of` has checked the name
    return base


def _offset_index_rows(files: Files, path: str) -> Iterator[Row]:
    entries, base = _complete_entries(path, parse_index(OffsetIndex, files.read(path))), _base_offset(path)
    return ({"offset": base + relative, "position": position} for relative, position in entries)


def _time_index_rows(files: Files, path: str) -> Iterator[Row]:
    entries, base = _complete_entries(path, parse_index(TimeIndex, files.read(path))), _base_offset(path)
    return ({"timestamp": timestamp, "offset": base + relative} for timestamp, relative in entries)


def _complete_entries(path: str, entries: ParsedIndex) -> list[tuple[int, int]]:
    if entries.is_cut:
        raise BadFile(f"{path} is cut within an entry; a broker rebuilds the index when it opens the log")
    return entries.pairs


def _transaction_index_rows(files: Files, path: str) -> Iterator[Row]:
    try:
        entries = transaction_index.parse(files.read(path))
    except BadFile as error:
        raise BadFile(f"{path}: {error}; a broker rebuilds the index when it opens the log") from None
    return (entry._asdict() for entry in entries)


def _snapshot_rows(files: Files, path: str) -> Iterator[Row]:
    """The producers at the offset in the file's name; a snapshot holds the last batch of each producer."""
    try:
        producers = Producers.from_snapshot(files.read(path))
    except BadFile as error:
        raise BadFile(f"{path}: {error}") from None
    for producer_id, producer in producers.by_id.items():
        last = producer.batches[-1] if producer.batches else None
        yield {
            "producer_id": producer_id,
            "producer_epoch": producer.epoch,
            "first_sequence": last.first_sequence if last else -1,
            "last_sequence": last.last_sequence if last else -1,
            "first_offset": last.first_offset if last else -1,
            "last_offset": last.last_offset if last else -1,
            "timestamp": producer.last_timestamp,
            "coordinator_epoch": producer.coordinator_epoch,
            "transaction_start": producer.transaction_start,
        }


def _epochs(files: Files, path: str) -> Iterator[Row]:
    if is_empty(files, path):
        return
    for epoch, start_offset in leader_epochs.read_entries(files, parent(path)) or ():
        yield {"leader_epoch": epoch, "start_offset": start_offset}


def _partition_metadata(files: Files, path: str) -> Iterator[Row]:
    topic_id = layout.read_topic_id(files, parent(path))
    yield {"topic_id": None if topic_id is None else layout.format_id(topic_id)}


def _meta(files: Files, path: str) -> Iterator[Row]:
    meta = layout.read_meta(files, parent(path))
    if meta is not None:
        yield {"cluster_id": meta.cluster_id, "node_id": meta.node_id, "directory_id": meta.directory_id or None}


def _offsets(files: Files, path: str) -> Iterator[Row]:
    if is_empty(files, path):
        return
    for (topic, partition), offset in checkpoint.read_offsets(files, path).items():
        yield {"topic": topic, "partition": partition, "offset": offset}


_BY_SUFFIX: dict[str, RowReader] = {
    OffsetIndex.SUFFIX: _offset_index_rows,
    TimeIndex.SUFFIX: _time_index_rows,
    TransactionIndex.SUFFIX: _transaction_index_rows,
    SNAPSHOT_SUFFIX: _snapshot_rows,
}
_BY_NAME: dict[str, RowReader] = {
    leader_epochs.FILE_NAME: _epochs,
    layout.PARTITION_METADATA: _partition_metadata,
    layout.META_PROPERTIES: _meta,
    **dict.fromkeys((HIGH_WATERMARKS, RECOVERY_POINTS, START_OFFSETS, CLEANED_OFFSETS), _offsets),
}


def topic_id_of(pool: Pool, directory: str) -> str | None:
    """The topic id in a partition's directory; None without a readable one."""
    try:
        topic_id = layout.read_topic_id(pool.files, directory)
    except BadFile:
        return None
    return None if topic_id is None else layout.format_id(topic_id)
