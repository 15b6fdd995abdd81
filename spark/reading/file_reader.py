"""A topic's batches from the data directories of a broker: of one that runs, that was killed, or that is gone.

Beside a running broker, `broker` says which offsets there are, and the files have the batches. Without it, the bounds
are those that the next start would serve, found by the start's own recovery; a running Apache Kafka without `broker` is
read up to the high watermark of its last checkpoint. Directories of Headgate and of Apache Kafka since 0.8 are read.
Nothing is written, and no segment is loaded whole.

    data_directories.py       partitions in data directories
    cluster_metadata.py       topics in the broker's copy of the metadata log
    recovered_log.py          a log as the next start would open it: bounds, times
    segment_view.py           the segments of a partition at one moment
    partition_reader.py       one range, whatever the broker does beside it
    aborted_transactions.py   the aborted transactions in a range
    batch_cut.py              whole batches in bytes of a segment
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from headgate.protocol.errors import KafkaError
from headgate.protocol.steps import finish
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.aborted_transactions import IndexTrust
from headgate.spark.reading.data_directories import DataDirectories
from headgate.spark.reading.log_reader import (
    Bounds,
    FetchedBatches,
    IsolationLevel,
    LogUnavailable,
    OffsetRange,
    TopicDescription,
    TopicReader,
)
from headgate.spark.reading.partition_reader import PartitionReader, ReadDirectory
from headgate.spark.reading.recovered_log import OpenedLog, open_recovered, recovery_input
from headgate.storage.files import Files
from headgate.storage.log.log import Log
from headgate.storage.segment.timestamp_lookup import More
from headgate.tools.client.client import ClientError
from headgate.tools.log.data_directory import DataDirectory
from headgate.tools.log.overlay import ReadOnlyFiles

PIECE_BYTES = 4 << 20


class _Checkpoints(dict[str, DataDirectory]):
    """The checkpoints of each data directory, read once for all of its partitions."""

    def __init__(self, disk: Files) -> None:
        super().__init__()
        self._disk = disk

    def __missing__(self, path: str) -> DataDirectory:
        self[path] = found = DataDirectory.read(self._disk, path)
        return found


class FileReader:
    """The LogReader over the directories of one broker's log.dirs.

    `broker`: reads from the same broker over the network. `topic_ids`: topic name -> the id that a directory must have,
    if it has any.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        broker: TopicReader | None = None,
        topic_ids: Mapping[str, bytes] | None = None,
        piece_bytes: int = PIECE_BYTES,
        disk: Files | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._disk = ReadOnlyFiles() if disk is None else disk
        self._directories = DataDirectories(self._disk, paths)
        self._broker = broker
        self._topic_ids = dict(topic_ids or {})
        self._piece_bytes = piece_bytes
        self._sleep = sleep
        self._opened: dict[TopicPartition, OpenedLog] = {}

    def topics(self) -> Mapping[str, TopicDescription]:
        if self._broker is not None:
            try:
                return self._broker.topics()
            except (LogUnavailable, ClientError):
                if self.is_held():
                    raise
        return self._directories.topics()

    def bounds(
        self, partitions: Iterable[TopicPartition], isolation: IsolationLevel
    ) -> Mapping[TopicPartition, Bounds]:
        wanted = list(partitions)
        if self._broker is not None:
            try:
                return self._broker.bounds(wanted, isolation)
            except (LogUnavailable, ClientError):
                if self.is_held():
                    raise
        read = _Checkpoints(self._disk)
        return {partition: self._bounds(partition, isolation, read) for partition in wanted}

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | None]:
        if self._broker is not None:
            try:
                return self._broker.offsets_for_times(times)
            except (LogUnavailable, ClientError):
                if self.is_held():
                    raise
        read = _Checkpoints(self._disk)
        return {partition: self._offset_for_time(partition, time_ms, read) for partition, time_ms in times.items()}

    def read(self, wanted: OffsetRange, isolation: IsolationLevel) -> Iterator[FetchedBatches]:
        path = self._locate(wanted.partition)
        data = DataDirectory.read(self._disk, path)
        place = ReadDirectory(
            f"{path}/{wanted.partition}",
            data.start_offsets.get(wanted.partition, 0),
            self._trust(data, wanted.partition),
        )
        reader = PartitionReader(self._disk, place, wanted, isolation, self._piece_bytes, self._sleep)
        yield from reader.pieces()

    def close(self) -> None:
        """Close the broker's reader, and forget what was found; no file stays open."""
        self._opened.clear()
        if self._broker is not None:
            self._broker.close()

    def is_held(self) -> bool:
        """Whether a running broker has a lock on a directory: then the files alone do not show the served records."""
        return any(DataDirectory.read(self._disk, path).lock_holder is not None for path in self._directories.paths)

    def _locate(self, partition: TopicPartition) -> str:
        return self._directories.locate(partition, self._topic_ids.get(partition.topic))

    def _open(self, partition: TopicPartition, read: _Checkpoints) -> OpenedLog:
        data = read[self._locate(partition)]
        opened = open_recovered(self._disk, data, partition, self._opened.get(partition), self._sleep)
        self._opened[partition] = opened
        return opened

    def _bounds(self, partition: TopicPartition, isolation: IsolationLevel, read: _Checkpoints) -> Bounds:
        log, data, _ = self._open(partition, read)
        end_offset = self._end_offset(log, data, partition)
        if isolation is IsolationLevel.READ_COMMITTED and log.has_transactions:
            log.producers.replicated(end_offset)
            end_offset = max(log.start_offset, min(end_offset, log.stable_offset))
        return Bounds(log.start_offset, end_offset)

    def _end_offset(self, log: Log, data: DataDirectory, partition: TopicPartition) -> int:
        """The high watermark, as far as the files show it: for a running Apache Kafka, the last checkpointed one."""
        if data.lock_holder is None or self._directories.is_headgates:
            return log.end_offset
        return max(log.start_offset, min(data.high_watermarks.get(partition, 0), log.end_offset))

    def _offset_for_time(self, partition: TopicPartition, time_ms: int, read: _Checkpoints) -> int | None:
        log, data, _ = self._open(partition, read)
        end_offset = self._end_offset(log, data, partition)
        more: More | None = None
        try:
            while True:
                found = finish(log.offset_for_time(time_ms, end_offset, more))
                if not isinstance(found, More):
                    return None if found is None else found.offset
                more = found
        except (KafkaError, OSError) as error:
            raise LogUnavailable(f"{partition} cannot be searched for a time: {error}") from error
        finally:
            log.close_files()

    def _trust(self, data: DataDirectory, partition: TopicPartition) -> IndexTrust:
        """The complete `.txnindex` files: a running Headgate writes the last one at a roll.

        After a crash those are complete that were flushed.
        """
        may_lack_files = not self._directories.is_headgates
        if data.lock_holder is not None or data.is_clean:
            return IndexTrust(has_last=data.lock_holder is None, may_lack_files=may_lack_files)
        recovery = recovery_input(data, partition, f"{data.path}/{partition}")
        return IndexTrust(has_last=False, may_lack_files=may_lack_files, recovery_point=recovery.recovery_point)
