"""The options of a copy name every partition with its range."""

from __future__ import annotations

import json

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.pipelines.copy_plan import CopyState
from headgate.spark.pipelines.copying import describe, read_options
from headgate.spark.reading.log_reader import OffsetRange
from headgate.spark.sink.exactly_once import WriteOutcome
from headgate.spark.source.options import check_batch, parse


def test_ranges_become_options_that_the_format_takes() -> None:
    ranges = [OffsetRange(TopicPartition("t", 10), 5, 9), OffsetRange(TopicPartition("u", 2), 0, 1)]
    options = read_options("h:1", ["/a", "/b"], ranges)
    assert json.loads(options["startingOffsets"]) == {"t": {"10": 5}, "u": {"2": 0}}
    assert json.loads(options["endingOffsets"]) == {"t": {"10": 9}, "u": {"2": 1}}
    parsed = parse(options)
    check_batch(parsed)
    assert parsed.log_directories == ["/a", "/b"]
    assert list(parsed.subscription.partitions) == [one.partition for one in ranges]
    assert "logDirs" not in read_options("h:1", [], ranges)


def test_a_row_describes_a_batch() -> None:
    assert describe(CopyState(3, {}), WriteOutcome(True, 7, 2, 1.26)) == {
        "batch": 3,
        "records": 7,
        "seconds": 1.3,
        "tries": 2,
        "written": True,
    }
