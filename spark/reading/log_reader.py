"""The interface of both ways to the batches of a topic: `file_reader.py` and `wire_reader.py`.

A reader never decodes records. It hands out whole batches as they are stored, together with the aborted transactions
that reach into them, as a Fetch response does (KIP-98); `headgate.spark.records` makes columns of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from headgate.protocol.records import Buffer
from headgate.protocol.topic_partition import TopicPartition


class IsolationLevel(Enum):
    """The values of `kafka.isolation.level`."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class OffsetRange(NamedTuple):
    """The offsets of one partition from `start_offset` to before `end_offset`."""

    partition: TopicPartition
    start_offset: int
    end_offset: int


class Bounds(NamedTuple):
    """The offsets that a consumer can read of a partition.

    From the log start to before the high watermark, or before the last stable offset for READ_COMMITTED.
    """

    start_offset: int
    end_offset: int


class TopicDescription(NamedTuple):
    """A topic. `topic_id`: 16 bytes; None if neither the broker nor the files know one."""

    name: str
    topic_id: bytes | None
    partitions: Sequence[int]


class FetchedBatches(NamedTuple):
    """Whole batches, one after another in order of their offsets, of magic 2, or of magic 0 and 1 before them.

    The first batch may begin before the wanted range, the last may end behind it. `aborted`: (producer id, first
    offset) of each aborted transaction that reaches into the batches; empty for READ_UNCOMMITTED. `next_offset`:
    everything before this offset has been handed out, or does not exist.
    """

    batches: Buffer
    aborted: Sequence[tuple[int, int]]
    next_offset: int


class LogUnavailable(Exception):
    """A topic or partition cannot be read; the text names it, the reason and what to do."""


class OffsetOutOfRange(Exception):
    """Records of a wanted range are gone, as retention or DeleteRecords took them, or were never there."""

    def __init__(self, wanted: OffsetRange, bounds: Bounds) -> None:
        self.wanted, self.bounds = wanted, bounds
        super().__init__(
            f"{wanted.partition}: the offsets {wanted.start_offset} to {wanted.end_offset - 1} were asked for, "
            f"the partition has {bounds.start_offset} to {bounds.end_offset - 1}"
        )


class TopicReader(Protocol):
    """One way to the batches of topics. Used on the driver for planning, and by each task for its range."""

    def topics(self) -> Mapping[str, TopicDescription]:
        """All topics by name, internal ones included. Raises LogUnavailable."""

    def bounds(
        self, partitions: Iterable[TopicPartition], isolation: IsolationLevel
    ) -> Mapping[TopicPartition, Bounds]:
        """The bounds of each partition. Raises LogUnavailable for an unknown partition."""

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | None]:
        """The first offset with a timestamp (ms) at or after each time; None without such a record (ListOffsets)."""

    def read(self, wanted: OffsetRange, isolation: IsolationLevel) -> Iterator[FetchedBatches]:
        """The batches of a range in pieces of bounded size. Raises OffsetOutOfRange, LogUnavailable."""

    def close(self) -> None:
        """Close files and connections."""
