from __future__ import annotations

import pytest

from headgate.spark.reading.log_reader import Bounds, IsolationLevel, OffsetRange
from headgate.spark.source.planning import DataLost, RangeTask
from headgate.spark.source.pushed_filters import NumberRange
from headgate.spark.source.range_reading import read_range
from headgate.spark.source.tests.fake_log import T0, FakeLog

UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED


def read(
    log: FakeLog, first: int, end: int, lost: list[str] | None = None, *, is_from_start: bool = False
) -> list[int]:
    """The offsets of the rows. Lost records fail the task unless `lost` takes them."""

    def fail(text: str) -> None:
        raise DataLost(text)

    task = RangeTask(OffsetRange(T0, first, end), is_from_start)
    report = fail if lost is None else lost.append
    rows = read_range(log, task, ["offset", "value"], UNCOMMITTED, report)
    return [offset for batch in rows for offset in batch.column(0).to_pylist()]


def test_the_rows_of_a_range() -> None:
    log = FakeLog({T0: (0, 100)})
    assert read(log, 3, 20) == list(range(3, 20))
    assert read(log, 3, 3) == []
    assert len(log.reads) == 1


def test_only_the_wanted_columns() -> None:
    task = RangeTask(OffsetRange(T0, 0, 1))
    (rows,) = read_range(FakeLog({T0: (0, 9)}), task, ["value", "partition"], UNCOMMITTED, print)
    assert rows.to_pydict() == {"value": [b"0"], "partition": [0]}


def test_lost_records_at_the_start() -> None:
    log = FakeLog({T0: (7, 100)})
    with pytest.raises(DataLost, match="Some data may have been lost"):
        read(log, 3, 20)
    lost: list[str] = []
    assert read(log, 3, 20, lost) == list(range(7, 20))
    assert len(lost) == 1


def test_retention_may_move_the_start_of_a_range_from_the_log_start() -> None:
    """Nobody asked for more than what is there when the task runs."""
    assert read(FakeLog({T0: (7, 100)}), 3, 20, is_from_start=True) == list(range(7, 20))


def retention(to: int, log: FakeLog) -> None:
    log.bounds_now[T0] = Bounds(to, 100)


def test_lost_records_in_the_middle() -> None:
    log = FakeLog({T0: (0, 100)})
    log.after_piece = lambda log: retention(12, log)
    with pytest.raises(DataLost, match="t-0"):
        read(log, 0, 20, is_from_start=True)
    log.bounds_now[T0] = Bounds(0, 100)
    lost: list[str] = []
    assert read(log, 0, 20, lost) == [*range(5), *range(12, 20)], "rows before the gap are kept"
    assert len(lost) == 1


def test_a_range_that_is_gone_altogether() -> None:
    lost: list[str] = []
    assert read(FakeLog({T0: (50, 100)}), 3, 20, lost) == []
    assert len(lost) == 1
    assert read(FakeLog({T0: (50, 100)}), 3, 20, lost, is_from_start=True) == []
    assert len(lost) == 2, "the range does not begin where the log begins now"


def test_a_partition_shorter_than_the_range() -> None:
    """A topic made anew, or a leader that lost its end."""
    lost: list[str] = []
    assert read(FakeLog({T0: (0, 10)}), 3, 20, lost) == list(range(3, 10))
    assert len(lost) == 1


def test_times_leave_out_batches() -> None:
    task = RangeTask(OffsetRange(T0, 0, 40))
    log = FakeLog({T0: (0, 100)})
    rows = read_range(log, task, ["offset"], UNCOMMITTED, print, NumberRange(1012, None))
    assert [offset for batch in rows for offset in batch.column(0).to_pylist()] == list(range(10, 40))
