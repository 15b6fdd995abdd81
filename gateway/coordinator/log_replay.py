"""The replay of a log into an empty shard.

A reader hands over the bytes in pieces. The loop's thread decodes and replays a few records at a time: `replay` is a
generator that yields often, and its caller resumes it at will. So a million offsets hold up no other work.

No content of a log prevents the load of its shard. A record that cannot be decoded, or has an unknown type, is counted
and skipped. The shard learns which records belong to a transaction, and how each transaction ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from headgate.gateway.coordinator.decision import ProducerIdAndEpoch
from headgate.gateway.coordinator.shard import CoordinatorShard
from headgate.protocol.errors import KafkaError
from headgate.protocol.records import batch, control
from headgate.protocol.records.batch import HEADER_SIZE, BatchHeader

S = TypeVar("S", bound=CoordinatorShard)

RECORDS_A_STEP = 32


class LogReplay(Generic[S]):
    """The load of one shard.

    end_offset  all batches before this offset are replayed
    replayed    the number of replayed records
    skipped     the number of records or whole batches that cannot be decoded; `problem` is the first, for the log
    unknown     the number of records of types that this program does not serve
    """

    __slots__ = ("_load", "_rest", "end_offset", "problem", "replayed", "shard", "skipped", "unknown")

    def __init__(self, shard: S, start_offset: int) -> None:
        self.shard = shard
        self.end_offset = start_offset
        self.replayed = self.skipped = self.unknown = 0
        self.problem = ""
        self._load = shard.record_loader()
        self._rest = b""

    def replay(self, data: bytes) -> Iterator[None]:
        """Replay the next bytes of the log, cut anywhere, and yield after every few records."""
        data, position = self._rest + data if self._rest else data, 0
        view = memoryview(data)
        while len(data) - position >= HEADER_SIZE:
            try:
                header = batch.read_header(view, position)
            except KafkaError as error:  # without a length the next batch is unknown: log recovery rules this out
                self._skip(f"behind offset {self.end_offset}: {error.message}")
                position = len(data)
                break
            if header.size > len(data) - position:
                break
            yield from self._batch(header, view[position : position + header.size])
            position += header.size
        self._rest = data[position:]

    def wanted(self) -> int:
        """The number of missing bytes of the next batch; 0 if its header is incomplete."""
        return batch.read_header(self._rest).size - len(self._rest) if len(self._rest) >= HEADER_SIZE else 0

    def forget_rest(self) -> None:
        """Drop an incomplete batch: the next bytes are of another segment."""
        self._rest = b""

    def _batch(self, header: BatchHeader, view: memoryview) -> Iterator[None]:
        if header.last_offset < self.end_offset:  # before the start of the log
            return
        try:
            if not batch.check_crc(view):
                self._skip(f"the batch at offset {header.base_offset} has a wrong checksum")
            elif header.is_control:
                self._marker(header, view)
            else:
                yield from self._records(header, view)
        except KafkaError as error:
            self._skip(f"in the batch at offset {header.base_offset}: {error.message}")
        self.end_offset = header.last_offset + 1
        yield

    def _marker(self, header: BatchHeader, view: memoryview) -> None:
        marker = control.read(view)
        if marker is None:  # Kafka's cleaner removes the record, and keeps the batch for the producer's state
            return
        try:
            self.shard.replay_marker(ProducerIdAndEpoch(header.producer_id, header.producer_epoch), marker.is_commit)
        except Exception as error:  # noqa: BLE001  a fault of the shard must not keep it from being loaded
            self._skip(f"the marker at offset {header.base_offset}: {error!r}")

    def _records(self, header: BatchHeader, view: memoryview) -> Iterator[None]:
        load, producer = self._load, None
        if header.is_transactional:
            producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
        for number, (offset, timestamp, key, value, _) in enumerate(batch.iterate(view), 1):
            try:
                if load(key or b"", value, timestamp, producer):
                    self.replayed += 1
                else:
                    self.unknown += 1
            except Exception as error:  # noqa: BLE001  a fault of the shard must not keep it from being loaded
                self._skip(f"the record at offset {offset}: {error!r}")
            if not number % RECORDS_A_STEP:
                yield

    def _skip(self, problem: str) -> None:
        self.skipped += 1
        self.problem = self.problem or problem
