"""The errors of the seam name the partition and both ranges."""

from __future__ import annotations

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.log_reader import Bounds, OffsetOutOfRange, OffsetRange


def test_an_offset_out_of_range_names_both_ranges() -> None:
    error = OffsetOutOfRange(OffsetRange(TopicPartition("t", 0), 3, 9), Bounds(5, 20))
    assert str(error) == "t-0: the offsets 3 to 8 were asked for, the partition has 5 to 19"
