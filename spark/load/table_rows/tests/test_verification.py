"""The rows of a table against the manifests of its loads; the table is a list of offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

import pytest

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.output.documents import LoadPlan, Manifest, RangeResult, manifest_of
from headgate.spark.load.output.folder import OutputFolder
from headgate.spark.load.output.intervals import Interval
from headgate.spark.load.output.load_log import LoadLog
from headgate.spark.load.table_rows import verification
from headgate.spark.load.table_rows.verification import BUCKET, Bucket, Ranges, Tally, verify_rows
from headgate.spark.reading.log_reader import OffsetRange
from headgate.tools.log.offset_gaps import ABORTED, MARKER, Gap

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)
GAPS = {ONE: [Gap(10, 19, ABORTED), Gap(20, 20, MARKER)], TWO: [Gap(3, 3, MARKER)]}
END = 100


class ListedRows:
    """A table as its offsets, each with its number of rows."""

    def __init__(self, rows: Counter[tuple[TopicPartition, int]]) -> None:
        self.rows = rows
        self.read: list[Bucket] = []

    def tallies(self, without: Ranges) -> Iterator[tuple[Bucket, Tally]]:
        found: dict[Bucket, Tally] = {}
        size = verification.BUCKET
        for (partition, offset), times in self._without(without).items():
            at = offset % size
            bucket = partition, offset // size
            found[bucket] = found.get(bucket, Tally(0, 0, 0, 0)) + Tally(times, 1, times * at, times * at * at)
        yield from found.items()

    def offsets(self, bucket: Bucket, without: Ranges) -> Mapping[int, int]:
        self.read.append(bucket)
        size = verification.BUCKET
        rows = self._without(without).items()
        return {at: times for (partition, at), times in rows if (partition, at // size) == bucket}

    def _without(self, ranges: Ranges) -> Counter[tuple[TopicPartition, int]]:
        left = Counter[tuple[TopicPartition, int]]()
        for (partition, at), times in self.rows.items():
            if times > 0 and not any(start <= at < end for start, end in ranges.get(partition, ())):
                left[partition, at] = times
        return left


@pytest.fixture
def log(tmp_path: Path) -> LoadLog:
    return LoadLog(OutputFolder(tmp_path))


def published(number: int, wanted: Mapping[TopicPartition, Interval], before: Manifest | None = None) -> Manifest:
    ranges = [OffsetRange(partition, *one) for partition, one in wanted.items()]
    results = []
    for one in ranges:
        gaps = [gap for gap in GAPS[one.partition] if one.start_offset <= gap.first < one.end_offset]
        rows = one.end_offset - one.start_offset - sum(gap.last - gap.first + 1 for gap in gaps)
        results.append(RangeResult(one, rows, (), gaps))
    return manifest_of(
        LoadPlan(number, {"orders": None}, ranges, (), {"into": "delta", "table": "t"}), results, before, 0
    )


@pytest.fixture
def manifest() -> Manifest:
    return published(1, {ONE: Interval(0, END), TWO: Interval(0, END)})


@pytest.fixture
def rows() -> Counter[tuple[TopicPartition, int]]:
    gone = {
        (partition, at) for partition, gaps in GAPS.items() for gap in gaps for at in range(gap.first, gap.last + 1)
    }
    return Counter({(one, at) for one in (ONE, TWO) for at in range(END)} - gone)


@pytest.fixture(params=[BUCKET, 16])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(verification, "BUCKET", request.param)
    found: int = request.param
    return found


def sentences(log: LoadLog, manifest: Manifest, rows: Counter[tuple[TopicPartition, int]]) -> list[str]:
    return list(verify_rows(log, [manifest], ListedRows(rows)))


@pytest.mark.usefixtures("size")
def test_a_whole_table_is_not_read_by_offset(
    log: LoadLog, manifest: Manifest, rows: Counter[tuple[TopicPartition, int]]
) -> None:
    table = ListedRows(rows)
    assert list(verify_rows(log, [manifest], table)) == []
    assert table.read == []


@pytest.mark.usefixtures("size")
def test_a_lost_range_is_named_once_over_gaps(
    log: LoadLog, manifest: Manifest, rows: Counter[tuple[TopicPartition, int]]
) -> None:
    for at in range(5, 70):
        del rows[ONE, at]
    (found,) = sentences(log, manifest, rows)
    assert "orders-0 from 5 to 69: 54 rows are lost" in found


@pytest.mark.usefixtures("size")
def test_doubled_rows_and_rows_of_nobody_are_named(
    log: LoadLog, manifest: Manifest, rows: Counter[tuple[TopicPartition, int]]
) -> None:
    rows.update((TWO, at) for at in range(30, 40))
    rows[ONE, 12] = 1
    rows[TopicPartition("other", 0), 7] = 1
    found = sentences(log, manifest, rows)
    assert len(found) == 3
    assert "orders-1 from 30 to 39: 10 offsets have more than one row" in found[0]
    assert "orders-0 from 12 to 12: 1 offsets have a row that no load has written" in found[1]
    assert "other-0 from 7 to 7" in found[2]


@pytest.mark.usefixtures("size")
def test_a_row_in_the_place_of_another_is_found(
    log: LoadLog, manifest: Manifest, rows: Counter[tuple[TopicPartition, int]]
) -> None:
    """Number, sum and distinct number of offsets may be as they ought to be."""
    for lost, foreign in ((9, 10), (22, 21)):
        del rows[ONE, lost]
        rows[ONE, foreign] += 1
    assert len(sentences(log, manifest, rows)) >= 3


@pytest.mark.parametrize("is_published", [True, False])
def test_a_load_beside_the_verification_is_left_out(
    log: LoadLog, manifest: Manifest, rows: Counter[tuple[TopicPartition, int]], *, is_published: bool
) -> None:
    later = published(2, {ONE: Interval(END, 2 * END)}, manifest)
    plan = LoadPlan(2, {"orders": None}, [one.wanted for one in later.results], (), later.options)
    with log.lock():
        first = LoadPlan(1, {"orders": None}, [one.wanted for one in manifest.results], (), manifest.options)
        log.publish(first, manifest.results, None)
        log.begin(plan)
        if is_published:
            log.publish(plan, later.results, manifest)
    rows.update((ONE, at) for at in range(END, END + 50))
    assert sentences(log, manifest, rows) == []


def test_many_wrong_buckets_are_named_without_a_read(
    log: LoadLog, manifest: Manifest, rows: Counter[tuple[TopicPartition, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "BUCKET", 8)
    monkeypatch.setattr(verification, "MOST_READ", 1)
    monkeypatch.setattr(verification, "MOST_NAMED", 1)
    for at in range(25, END, 16):
        del rows[ONE, at], rows[TWO, at]
    for at in (0, 2):
        rows[ONE, at] += 1
    found = sentences(log, manifest, rows)
    assert "orders-0 from 0 to 0: 1 offsets have more" in found[0]
    assert "orders-0, 1 further ranges: 1 offsets have more" in found[1]
    assert "orders-0 from 24 to 31: the rows are not those of the loads" in found[2]
    assert len(found) == 2 + 5 + 5


@pytest.mark.parametrize("seed", range(30))
def test_any_change_is_found(
    log: LoadLog,
    manifest: Manifest,
    rows: Counter[tuple[TopicPartition, int]],
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    monkeypatch.setattr(verification, "BUCKET", 32)
    random = Random(seed)
    whole = Counter(rows)
    for _ in range(random.randint(1, 6)):
        rows[random.choice((ONE, TWO)), random.randrange(END + 20)] += random.choice((-1, 1, 2))
    rows = +rows
    assert bool(sentences(log, manifest, rows)) == (rows != whole)
