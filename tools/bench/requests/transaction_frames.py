"""Request frames of transactions, written by hand as in `frames.py`, and their file for the C generator.

The versions are those of the Java client: 3.9 for the old protocol, 4.1 for the new one, in which the first Produce and
TxnOffsetCommit add partitions by themselves and each EndTxn raises the epoch (KIP-890).

The file has for each request, little-endian but for the frame:

length of the frame, number of patches      uint32 each
kind and position of each patch             uint32 each
frame
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.frames import RequestWriter
from headgate.tools.bench.requests.group_frames import TopicPartitions

TIMEOUT_MS: Final = 60_000
_INIT_PRODUCER_ID_VERSION, _ADD_PARTITIONS_VERSION, _ADD_OFFSETS_VERSION = 4, 3, 4
_TRANSACTIONAL = 0x10
_ATTRIBUTES_POSITION = 22
_PRODUCER, _BATCH, _OFFSET = "producer", "batch", "committed_offset"
_KINDS: Final[Mapping[str, int]] = {_PRODUCER: 1, _BATCH: 2, _OFFSET: 3}


@dataclass(frozen=True, slots=True)
class Protocol:
    """The versions of the requests of one transaction. `adds`: the client adds the partitions itself."""

    produce: int
    txn_offset_commit: int
    end_txn: int
    adds: bool


OLD, NEW = Protocol(11, 4, 4, adds=True), Protocol(13, 5, 5, adds=False)


def transactional_batch(values: list[bytes]) -> bytes:
    """A batch of a transaction. The generator sets producer, sequence and CRC."""
    batch = bytearray(frames.batch(values))
    batch[_ATTRIBUTES_POSITION] |= _TRANSACTIONAL
    return bytes(batch)


@dataclass(frozen=True, slots=True)
class Producer:
    """A transactional producer of one batch to each partition, and of an offset of the first one if it has a group."""

    transactional_id: str
    topic_partitions: TopicPartitions
    batch: bytes
    group_id: str | None = None
    is_commit: bool = True

    def requests(self, protocol: Protocol) -> list[RequestWriter]:
        """InitProducerId, then the requests of a transaction."""
        writers = [init_producer_id(self.transactional_id)]
        if protocol.adds:
            writers.append(self._add_partitions())
        writers.append(self._produce(protocol.produce))
        if self.group_id is not None:
            if protocol.adds:
                writers.append(self._add_offsets(self.group_id))
            writers.append(self._txn_offset_commit(protocol.txn_offset_commit, self.group_id))
        return [*writers, self._end_txn(protocol.end_txn)]

    def _add_partitions(self) -> RequestWriter:
        writer = RequestWriter(frames.ADD_PARTITIONS_TO_TXN, _ADD_PARTITIONS_VERSION)
        writer.string(self.transactional_id)
        _write_producer(writer)
        writer.length(1, "i")
        writer.string(self.topic_partitions.topic)
        writer.array(self.topic_partitions.partitions, writer.int32)
        writer.tags()
        writer.tags()
        return writer

    def _produce(self, version: int) -> RequestWriter:
        writer = RequestWriter(frames.PRODUCE, version)
        writer.string(self.transactional_id)
        writer.int16(-1)  # acks
        writer.int32(30_000)
        writer.length(1, "i")
        if version >= 13:
            writer.raw(self.topic_partitions.topic_id)
        else:
            writer.string(self.topic_partitions.topic)

        def write_partition(partition: int) -> None:
            writer.int32(partition)
            writer.length(len(self.batch), "i")
            writer.mark(f"{_BATCH} {partition}")
            writer.raw(self.batch)
            writer.tags()

        writer.array(self.topic_partitions.partitions, write_partition)
        writer.tags()
        writer.tags()
        return writer

    def _add_offsets(self, group_id: str) -> RequestWriter:
        writer = RequestWriter(frames.ADD_OFFSETS_TO_TXN, _ADD_OFFSETS_VERSION)
        writer.string(self.transactional_id)
        _write_producer(writer)
        writer.string(group_id)
        writer.tags()
        return writer

    def _txn_offset_commit(self, version: int, group_id: str) -> RequestWriter:
        writer = RequestWriter(frames.TXN_OFFSET_COMMIT, version)
        writer.string(self.transactional_id)
        writer.string(group_id)
        _write_producer(writer)
        writer.int32(-1)  # no member of the group
        writer.string("")
        writer.string(None)
        writer.length(1, "i")
        writer.string(self.topic_partitions.topic)
        writer.length(1, "i")
        writer.int32(self.topic_partitions.partitions[0])
        writer.mark(_OFFSET)
        writer.int64(0)
        writer.int32(-1)  # leader epoch
        writer.string("")
        for _ in ("partition", "topic", "request"):
            writer.tags()
        return writer

    def _end_txn(self, version: int) -> RequestWriter:
        writer = RequestWriter(frames.END_TXN, version)
        writer.string(self.transactional_id)
        _write_producer(writer)
        writer.int8(self.is_commit)
        writer.tags()
        return writer


def _write_producer(writer: RequestWriter) -> None:
    writer.mark(_PRODUCER)
    writer.int64(-1)
    writer.int16(-1)


def init_producer_id(transactional_id: str) -> RequestWriter:
    """InitProducerId v4 of a producer without an id."""
    writer = RequestWriter(frames.INIT_PRODUCER_ID, _INIT_PRODUCER_ID_VERSION)
    writer.string(transactional_id)
    writer.int32(TIMEOUT_MS)
    writer.int64(-1)
    writer.int16(-1)
    writer.tags()
    return writer


def describe_transactions(transactional_ids: Sequence[str]) -> RequestWriter:
    """DescribeTransactions v0."""
    writer = RequestWriter(frames.DESCRIBE_TRANSACTIONS, 0)
    writer.array(transactional_ids, writer.string)
    writer.tags()
    return writer


def write_requests(path: Path, writers: Iterable[RequestWriter]) -> None:
    """Write the file of the generator: the requests of all producers, one producer after the other."""
    with path.open("wb") as file:
        for writer in writers:
            frame, marks = writer.frame(), writer.marks.items()
            file.write(struct.pack("<II", len(frame), len(marks)))
            for name, position in marks:
                file.write(struct.pack("<II", _KINDS[name.split()[0]], position))
            file.write(frame)
