"""The timestamp of the oldest unread record, the first one at or after an offset, in batches that were read there.

ListOffsets finds the offset of a time, not the time of an offset. So the batch is read that the group will read next.
One request names many partitions, each with a small limit: a broker sends the first batch of the first partition whole,
whatever its size (KIP-74), and the batches of the others that fit. A partition without a whole batch is fetched again
alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final, Generic, NamedTuple, TypeVar

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.lag.measurement import UNKNOWN_TIMESTAMP
from headgate.protocol.records import batch
from headgate.protocol.steps import Steps, finish

K = TypeVar("K")

PARTITIONS_AT_ONCE: Final = 100
PARTITION_MAX_BYTES: Final = 16 * 1024
_RECORDS_AT_ONCE: Final = 64


class UnreadResult(NamedTuple):
    """The result of one read: a timestamp (None: no record before the end), or the offset of the next read."""

    timestamp: int | None
    next_offset: int = -1


def time_by_header(header: batch.BatchHeader, offset: int, end: int) -> UnreadResult | None:
    """The result of `first_record` for one batch, if the header is enough; otherwise None.

    A header has the time of the first record if no record was removed, and of all records with one time.
    """
    if header.last_offset < offset or header.is_control:
        next_offset = header.last_offset + 1
        return UnreadResult(None) if next_offset >= end else UnreadResult(None, max(offset, next_offset))
    if header.base_offset >= end:
        return UnreadResult(None)
    if header.records_count != header.last_offset_delta + 1 or header.delete_horizon_ms is not None:
        return None
    if header.is_log_append_time:
        return UnreadResult(header.max_timestamp)
    if offset <= header.base_offset:
        return UnreadResult(header.base_timestamp)
    return None


def first_record(records: bytes | bytearray | memoryview, offset: int, end: int) -> UnreadResult | None:
    """The timestamp of the first record in these batches from `offset` to before `end`, or the next offset to fetch.

    None: there is no whole batch. Compaction may have removed some or all records of a batch; control batches hold
    markers, which no consumer receives; the last batch may be incomplete.
    """
    return finish(search_records(records, offset, end))


def search_records(records: bytes | bytearray | memoryview, offset: int, end: int) -> Steps[UnreadResult | None]:
    """`first_record`, in steps."""
    view = memoryview(records)
    position, next_offset = 0, -1
    while len(view) - position >= batch.HEADER_SIZE:
        try:
            header = batch.read_header(view, position)
            if header.size > len(view) - position:
                break
            if not header.is_control:
                found = yield from _search_batch(view[position : position + header.size], offset, end)
                if found is not None:
                    return found
        except KafkaError:
            # An older format, or damage: consumers will meet the error, here the batch has no known time
            return UnreadResult(UNKNOWN_TIMESTAMP)
        position += header.size
        next_offset = header.last_offset + 1
    if next_offset <= offset:
        # Whole batches before the offset: the broker answered with records that the request did not ask for
        return None if next_offset < 0 else UnreadResult(UNKNOWN_TIMESTAMP)
    return UnreadResult(None) if next_offset >= end else UnreadResult(None, next_offset)


def _search_batch(view: memoryview, offset: int, end: int) -> Steps[UnreadResult | None]:
    for number, record in enumerate(batch.iterate(view), 1):
        if record.offset >= end:
            return UnreadResult(None)
        if record.offset >= offset:
            return UnreadResult(record.timestamp)
        if number % _RECORDS_AT_ONCE == 0:
            yield
    return None


class UnreadSearch(Generic[K]):
    """The search in partitions of one leader: `next_fetch`, then `examine` for each row of the answer.

    Every answer ends the search in a partition or moves its offset forward, so the search ends.
    """

    def __init__(self, bounds: Mapping[K, tuple[int, int]]) -> None:
        """`bounds`: partition -> its first offset and its end."""
        self._bounds = bounds
        self._shared = {partition: offset for partition, (offset, _) in bounds.items()}
        self._alone: dict[K, int] = {}
        self._asked: dict[K, int] = {}

    def next_fetch(self) -> dict[K, int]:
        """The partitions and offsets of the next request; none at the end."""
        if self._shared:
            self._asked = dict(islice(self._shared.items(), PARTITIONS_AT_ONCE))
            for partition in self._asked:
                del self._shared[partition]
        else:
            self._asked = dict([self._alone.popitem()]) if self._alone else {}
        return self._asked

    def examine(self, partition: K, code: int, records: object) -> UnreadResult | None:
        """The result in a partition, or None if the search goes on there. `code`: no error, or OFFSET_OUT_OF_RANGE."""
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:  # retention has deleted the record meanwhile
            return UnreadResult(UNKNOWN_TIMESTAMP)
        offset, (_, end), is_alone = self._asked[partition], self._bounds[partition], len(self._asked) == 1
        data = records if isinstance(records, bytes | bytearray | memoryview) else b""
        result = first_record(data, offset, end)
        if result is None:
            if is_alone:
                return UnreadResult(None)
            self._alone[partition] = offset
            return None
        if result.next_offset >= 0:
            self._shared[partition] = result.next_offset
            return None
        return result
