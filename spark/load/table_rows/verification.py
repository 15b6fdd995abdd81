"""Verification of the rows of a table: each offset that its loads have published is there once, and nothing besides.

One query counts the rows by topic, partition and bucket of offsets, with sums that other offsets would change. Only a
bucket whose figures differ from the manifests is read offset by offset, to name lost and doubled rows. A
load beside the verification does no harm: its ranges are known before its first row, and are left out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.output.documents import Manifest
from headgate.spark.load.output.gap_finder import complement
from headgate.spark.load.output.intervals import Interval, Intervals, union
from headgate.spark.load.output.load_log import LoadLog

BUCKET = 1 << 16
MOST_NAMED = 10
"""At most so many ranges of a partition are named, of each kind."""
MOST_READ = 50
"""At most so many buckets are read offset by offset; of the others a finding names the whole bucket."""


class Tally(NamedTuple):
    """The offsets of a bucket: `total` and `squares` sum the distances from the bucket's first offset."""

    rows: int
    distinct: int
    total: int
    squares: int

    def __add__(self, other: Any) -> Tally:
        return Tally(*(count + more for count, more in zip(self, other, strict=True)))


Bucket: TypeAlias = tuple[TopicPartition, int]
Ranges: TypeAlias = Mapping[TopicPartition, Intervals]
_EMPTY = Tally(0, 0, 0, 0)


class TableRows(Protocol):
    """The offsets of one version of a table."""

    def tallies(self, without: Ranges) -> Iterator[tuple[Bucket, Tally]]:
        """Each bucket with a row, once; rows in the ranges `without` do not count."""

    def offsets(self, bucket: Bucket, without: Ranges) -> Mapping[int, int]:
        """The rows of each offset of a bucket."""


class Deviation(NamedTuple):
    """Offsets from `first` to `last`, of which `rows` are lost, doubled or not of any load."""

    first: int
    last: int
    rows: int


def verify_rows(log: LoadLog, manifests: Sequence[Manifest], table: TableRows) -> Iterator[str]:
    """A sentence for each range that is lost, doubled or of no load; `table` is opened after `manifests` are read.

    Raises DamagedDocument, UnexplainedGap.
    """
    runs, meanwhile = _runs(manifests), _ranges_meanwhile(log, manifests[-1].number)
    expected, found = _expected(runs), dict(table.tallies(meanwhile))
    wrong = sorted(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
    search = _Search(runs, table, meanwhile)
    for number, bucket in enumerate(wrong):
        search.compare(bucket, is_empty=bucket not in found, reads=number < MOST_READ)
    yield from search.sentences()


class _Search:
    """Collects the deviations of buckets, which come in order."""

    def __init__(self, runs: Ranges, table: TableRows, without: Ranges) -> None:
        self._runs, self._table, self._without = runs, table, without
        self._lost: dict[TopicPartition, list[Deviation]] = defaultdict(list)
        self._doubled: dict[TopicPartition, list[Deviation]] = defaultdict(list)
        self._foreign: dict[TopicPartition, list[Deviation]] = defaultdict(list)
        self._unread: dict[TopicPartition, list[Interval]] = defaultdict(list)

    def compare(self, bucket: Bucket, *, is_empty: bool, reads: bool) -> None:
        partition, number = bucket
        whole = Interval(number * BUCKET, (number + 1) * BUCKET)
        wanted = _arange(_clip(self._runs.get(partition, ()), whole))
        if is_empty:
            self._lost[partition] += _deviations(wanted, np.ones(len(wanted), bool))
        elif not reads:
            self._unread[partition].append(whole)
        else:
            counts = self._table.offsets(bucket, self._without)
            there = np.array(sorted(counts), np.int64)
            times = np.array([counts[offset] for offset in there.tolist()], np.int64)
            is_wanted = np.isin(there, wanted)
            self._lost[partition] += _deviations(wanted, ~np.isin(wanted, there))
            self._doubled[partition] += _deviations(there, is_wanted & (times > 1))
            self._foreign[partition] += _deviations(there, ~is_wanted)

    def sentences(self) -> Iterator[str]:
        for found, text in (
            (self._lost, "{rows} rows are lost; restore the table, or load it again into another one"),
            (self._doubled, "{rows} offsets have more than one row; remove all but one of each"),
            (self._foreign, "{rows} offsets have a row that no load has written; another program writes here too"),
        ):
            for partition, ranges in sorted(found.items()):
                merged = list(_merged(ranges, self._runs.get(partition, ())))
                for deviation in merged[:MOST_NAMED]:
                    first, last, rows = deviation
                    yield f"the table, {partition} from {first} to {last}: {text.format(rows=rows)}"
                if len(merged) > MOST_NAMED:
                    rows = sum(deviation.rows for deviation in merged[MOST_NAMED:])
                    yield f"the table, {partition}, {len(merged) - MOST_NAMED} further ranges: {text.format(rows=rows)}"
        for partition, intervals in sorted(self._unread.items()):
            for start, end in union(intervals):
                yield f"the table, {partition} from {start} to {end - 1}: the rows are not those of the loads"


# ------------------------------------------------------------------------------------------------------ from manifests


def _runs(manifests: Iterable[Manifest]) -> Ranges:
    """The offsets of all rows. Raises UnexplainedGap."""
    found: dict[TopicPartition, list[Interval]] = defaultdict(list)
    for manifest in manifests:
        for result in manifest.results:
            found[result.wanted.partition] += [
                Interval(first, last + 1) for first, last in complement(list(result.gaps), result.wanted)
            ]
    return {partition: union(runs) for partition, runs in found.items()}


def _expected(runs: Ranges) -> dict[Bucket, Tally]:
    found: dict[Bucket, Tally] = {}
    for partition, intervals in runs.items():
        for start, end in intervals:
            for number in range(start // BUCKET, (end - 1) // BUCKET + 1):
                base, bucket = number * BUCKET, (partition, number)
                part = _tally(max(start, base) - base, min(end, base + BUCKET) - base)
                found[bucket] = found.get(bucket, _EMPTY) + part
    return found


def _tally(start: int, end: int) -> Tally:
    """Of one row for each distance from `start` to before `end`."""
    count = end - start
    return Tally(count, count, (start + end - 1) * count // 2, _squares(end) - _squares(start))


def _squares(end: int) -> int:
    """The sum of the squares below `end`."""
    return (end - 1) * end * (2 * end - 1) // 6


def _ranges_meanwhile(log: LoadLog, number: int) -> Ranges:
    """The ranges of loads after this number, and of the unfinished load."""
    unfinished = log.unfinished(log.latest())  # before the manifests: it may end meanwhile
    ranges = list(unfinished.ranges) if unfinished else []
    latest = log.latest()
    for later in range(number + 1, latest.number + 1 if latest else 1):
        ranges += [result.wanted for result in log.manifest(later).results]
    found: dict[TopicPartition, list[Interval]] = defaultdict(list)
    for wanted in ranges:
        found[wanted.partition].append(Interval(wanted.start_offset, wanted.end_offset))
    return {partition: union(intervals) for partition, intervals in found.items()}


# -------------------------------------------------------------------------------------------------------------- ranges


def _clip(intervals: Sequence[Interval], whole: Interval) -> Iterator[Interval]:
    """The offsets of sorted intervals that lie in `whole`."""
    first = bisect_right(intervals, whole.start_offset, key=lambda interval: interval.end_offset)
    for place in range(first, len(intervals)):
        start, end = intervals[place]
        if start >= whole.end_offset:
            return
        yield Interval(max(start, whole.start_offset), min(end, whole.end_offset))


def _arange(intervals: Iterable[Interval]) -> Any:
    return np.concatenate([np.empty(0, np.int64), *(np.arange(start, end) for start, end in intervals)])


def _deviations(offsets: Any, is_one: Any) -> list[Deviation]:
    """The runs of marked neighbours among sorted offsets; a gap between two of them does not part them."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_one, [False]]).astype(np.int8)))
    return [
        Deviation(int(offsets[start]), int(offsets[end - 1]), int(end - start))
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    ]


def _merged(ranges: Iterable[Deviation], runs: Sequence[Interval]) -> Iterator[Deviation]:
    """Deviations in order; two of them become one if no offset of a row lies between them."""
    before: Deviation | None = None
    for deviation in ranges:
        if before is None:
            before = deviation
        elif deviation.first == before.last + 1 or not any(_clip(runs, Interval(before.last + 1, deviation.first))):
            before = Deviation(before.first, deviation.last, before.rows + deviation.rows)
        else:
            yield before
            before = deviation
    if before is not None:
        yield before
