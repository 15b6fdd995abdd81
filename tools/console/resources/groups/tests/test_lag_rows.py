"""Totals of lags: unknown ones are left out, and counted."""

from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.console.resources.groups.lag_rows import lag_row, rows_by_group, totals
from headgate.tools.groups.lag import UNKNOWN, PartitionLag
from headgate.tools.groups.offsets import OffsetAndMetadata


def lag(partition: int, records: int | None, seconds: float | None, status: str = "ok") -> PartitionLag:
    committed = OffsetAndMetadata(1, -1, "note")
    return PartitionLag("g", TopicPartition("a", partition), committed, 0, 9, records, seconds, status, 0, None)


def test_records_are_summed_and_the_largest_age_counts() -> None:
    rows = [lag(0, 3, 1.5), lag(1, 4, 0.25), lag(2, None, None, UNKNOWN), lag(3, 0, 0.0, "beyond the end")]
    assert totals(rows) == {"lag_records": 7, "lag_ms": 1500, "partitions_total": 4, "partitions_out_of_range": 1}


def test_an_unknown_lag_is_null_and_not_0() -> None:
    assert totals([lag(0, None, None)])["lag_records"] is None
    assert totals([]) == {"lag_records": None, "lag_ms": None, "partitions_total": 0, "partitions_out_of_range": 0}


def test_a_row_without_a_member() -> None:
    row = lag_row(lag(0, 3, 0.0004))
    assert (row["committed_offset"], row["metadata"], row["lag_ms"], row["member_id"]) == (1, "note", 0, None)


def test_rows_by_group() -> None:
    rows = [lag(0, 1, 1.0), lag(1, 1, 1.0)]
    assert rows_by_group(rows)["g"] == rows
    assert rows_by_group(rows)["other"] == []
