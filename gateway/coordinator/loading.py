"""Loading: a shard is made anew by replaying its log.

The bytes are read in pieces, by whoever has the time (a thread); records are decoded and replayed here, on the loop's
thread, a few at a time: `replay` is a generator that yields often, and its caller goes on when it likes. So a million
offsets cost as much time as they must, and nobody else waits for them.

Nothing in a log keeps a shard from being loaded. What cannot be decoded, or is of a kind that this program does not
know, is counted and skipped. Offsets that were committed inside of a transaction count once its marker has come
(KIP-447); those of an open one are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.gateway.coordinator.groups.shard import Shard
from headgate.protocol.errors import KafkaError
from headgate.protocol.internal.offsets import OffsetCommitKey, UnknownType, check_offset, decode
from headgate.protocol.records import batch, control
from headgate.protocol.records.batch import HEADER_SIZE, BatchHeader, Record

RECORDS_A_STEP = 32
MAX_NAMES = 10_000


class Loading:
    """A shard in the making: what was replayed, and what was not."""

    __slots__ = ("_names", "_open", "_rest", "end_offset", "problem", "replayed", "shard", "skipped", "unknown")

    def __init__(self, shard: Shard, start_offset: int) -> None:
        self.shard = shard
        self.end_offset = start_offset  # of what was replayed: all before it is done
        self.replayed = 0
        self.skipped = 0  # records, or whole batches, that cannot be decoded
        self.unknown = 0  # records of kinds of groups that are not served
        self.problem = ""  # the first one, for the log
        self._rest = b""
        # All but the partition of the keys of offsets -> group and topic. Most of a log are offsets of few groups, and
        # nothing else of such a record has to be read.
        self._names: dict[bytes, tuple[str, str]] = {}
        self._open: dict[int, list[Record]] = {}

    def replay(self, data: bytes) -> Iterator[None]:
        """Replay the next bytes of the log, from any position to any other, and yield after every few records."""
        data, position = self._rest + data if self._rest else data, 0
        view = memoryview(data)
        while len(data) - position >= HEADER_SIZE:
            try:
                header = batch.read_header(view, position)
            except KafkaError as error:  # without a length there is no next batch: the log's own recovery forbids it
                self._skip(f"behind offset {self.end_offset}: {error.message}")
                position = len(data)
                break
            if header.size > len(data) - position:
                break
            yield from self._batch(header, view[position : position + header.size])
            position += header.size
        self._rest = data[position:]

    def wanted(self) -> int:
        """How many bytes the next batch has, if it is known and was only begun."""
        return batch.read_header(self._rest).size - len(self._rest) if len(self._rest) >= HEADER_SIZE else 0

    def forget_rest(self) -> None:
        """The next bytes are of another segment."""
        self._rest = b""

    def _batch(self, header: BatchHeader, view: memoryview) -> Iterator[None]:
        if header.last_offset < self.end_offset:  # before the start of the log
            return
        try:
            if not batch.check_crc(view):
                self._skip(f"the batch at offset {header.base_offset} has a wrong checksum")
            elif header.is_control:
                self._end_transaction(header, view)
            elif header.is_transactional:
                self._open.setdefault(header.producer_id, []).extend(batch.iterate(view))
            else:
                yield from self._records(batch.iterate(view))
        except KafkaError as error:
            self._skip(f"in the batch at offset {header.base_offset}: {error.message}")
        self.end_offset = header.last_offset + 1
        yield

    def _end_transaction(self, header: BatchHeader, view: memoryview) -> None:
        marker = control.read(view)
        if marker is None:  # Kafka's cleaner took it, and keeps the batch for the producer's sake
            return
        records = self._open.pop(header.producer_id, [])
        if marker.is_commit:
            for _ in self._records(iter(records)):
                pass

    def _records(self, records: Iterator[Record]) -> Iterator[None]:
        names, groups, put = self._names, self.shard.groups, self.shard.offsets.put
        for number, (offset, timestamp, key, value, _) in enumerate(records, 1):
            try:
                whose = names.get(key[:-4]) if key and value else None
                if whose is not None and whose[0] in groups:
                    check_offset(value)  # type: ignore[arg-type]
                    put(*whose, int.from_bytes(key[-4:], "big"), value)  # type: ignore[index]
                    self.replayed += 1
                else:
                    self._record(key or b"", value, timestamp)
            except Exception as error:  # noqa: BLE001  whatever a machine thinks of it
                self._skip(f"the record at offset {offset}: {error!r}")
            if not number % RECORDS_A_STEP:
                yield

    def _record(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        decoded = decode(key, value)
        if isinstance(decoded, UnknownType):
            self.unknown += 1
            return
        self.shard.replay(*decoded, timestamp)
        self.replayed += 1
        if isinstance(decoded[0], OffsetCommitKey):
            if len(self._names) == MAX_NAMES:
                self._names.clear()
            self._names[key[:-4]] = decoded[0].group, decoded[0].topic

    def _skip(self, problem: str) -> None:
        self.skipped += 1
        self.problem = self.problem or problem
