"""The history of a query: progress of Spark to lines, and back."""

from __future__ import annotations

import json
from typing import Any

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.positions.history import BatchRecord, build_line, of_progress, parse_lines

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
RECORD = BatchRecord(1_700_000_000_123, "0b2c", 7, 1000, 850, {T0: 250, T1: 4}, {T0: 300, T1: 4})


def progress(**more: Any) -> dict[str, Any]:
    """As Spark 4.1.1 reports it."""
    source = {
        "description": "KafkaV2[Subscribe[t]]",
        "startOffset": None,
        "endOffset": '{"t":{"0":250,"1":4}}',
        "latestOffset": '{"t":{"0":300,"1":4}}',
        "numInputRows": 1000,
    }
    return {
        "id": "0b2c",
        "runId": "7d",
        "name": None,
        "timestamp": "2023-11-14T22:13:20.123Z",
        "batchId": 7,
        "batchDuration": 850,
        "sources": [source],
        **more,
    }


def test_a_batch_of_spark() -> None:
    assert of_progress(progress()) == RECORD
    assert RECORD.lag == 50


def test_offsets_as_objects_and_as_text() -> None:
    sources = [{"endOffset": {"t": {"0": 250}}, "latestOffset": "None", "numInputRows": 3}, {"endOffset": "null"}, "x"]
    found = of_progress(progress(sources=sources, timestamp="?", batchDuration=None))
    assert found is not None
    assert (found.committed, found.latest, found.lag) == ({T0: 250}, {}, None)
    assert (found.at_ms, found.duration_ms) == (0, -1)


def test_a_query_that_reads_no_kafka() -> None:
    assert of_progress(progress(sources=[{"endOffset": '{"logOffset":3}'}, {"endOffset": '{"t":{"0":-1}}'}])) is None
    assert of_progress({}) is None


def test_lines_are_read_as_they_were_written() -> None:
    assert list(parse_lines([build_line(RECORD)])) == [RECORD]


def test_damaged_lines_are_left_out() -> None:
    line = build_line(RECORD)
    wrong = [
        json.dumps({**json.loads(line), name: value}) for name, value in (("rows", "x"), ("latest", 7), ("at_ms", 1.5))
    ]
    lines = ["", line[:40], "[]", "7", "{" * 10_000, *wrong, line]
    assert list(parse_lines(lines)) == [RECORD]
