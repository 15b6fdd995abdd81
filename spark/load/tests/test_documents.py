from __future__ import annotations

import json
from typing import Any

import pytest

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.output import documents
from headgate.spark.load.output.documents import DamagedDocument, LoadedFile, LoadPlan, Manifest, RangeResult
from headgate.spark.load.output.intervals import Interval
from headgate.spark.reading.log_reader import OffsetRange
from headgate.tools.log.offset_gaps import Gap

PARTITION = TopicPartition("orders", 3)
WANTED = OffsetRange(PARTITION, 10, 20)
FILE = LoadedFile("part-orders-3-10-18.parquet", "_headgate/work/1/part-orders", 10, 18, 8, 99, "ab")
RESULT = RangeResult(WANTED, 8, [FILE], [Gap(12, 12, "marker"), Gap(19, 19, "rejected")], [FILE])
PLAN = LoadPlan(2, {"orders": "00" * 16, "old": None}, [WANTED], [OffsetRange(PARTITION, 5, 10)], {"codec": "zstd"})
BEFORE = Manifest(
    1, 5, {"other": None}, [], [], {PARTITION: (Interval(0, 5),), TopicPartition("other", 0): (Interval(2, 4),)}, {}
)


def test_documents_come_back_as_they_were() -> None:
    manifest = documents.manifest_of(PLAN, [RESULT], BEFORE, 77)
    assert manifest.covered[PARTITION] == (Interval(0, 20),)
    assert manifest.positions == {PARTITION: 20, TopicPartition("other", 0): 4}
    assert manifest.topic_ids == {"orders": "00" * 16, "old": None, "other": None}
    assert documents.decode_plan(documents.encode_plan(PLAN), "p") == PLAN
    assert documents.decode_result(documents.encode_result(RESULT), "r") == RESULT
    assert documents.decode_manifest(documents.encode_manifest(manifest), "m") == manifest


def test_other_tools_find_positions_by_name() -> None:
    document = json.loads(documents.encode_manifest(documents.manifest_of(PLAN, [RESULT], BEFORE, 77)))
    assert document["positions"] == {"orders": {"3": 20}, "other": {"0": 4}}
    assert document["rows"] == 8


def damaged(path: list[Any], value: object) -> bytes:
    document = json.loads(documents.encode_manifest(documents.manifest_of(PLAN, [RESULT], None, 77)))
    inner = document
    for one in path[:-1]:
        inner = inner[one]
    inner[path[-1]] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[" * 100_000,
        documents.encode_plan(PLAN),
        damaged(["version"], 2),
        damaged(["ranges", 0, "range"], ["orders", 3, 20, 10]),
        damaged(["ranges", 0, "range"], ["orders", 3, 1 << 63, 1 << 64]),
        damaged(["ranges", 0, "rows"], True),
        damaged(["ranges", 0, "gaps"], [[1, 2, "whim"]]),
        damaged(["ranges", 0, "gaps"], [[2, 1, "marker"]]),
        damaged(["ranges", 0, "files", 0, "name"], "part-/../../etc"),
        damaged(["ranges", 0, "files", 0, "name"], "other.parquet"),
        damaged(["ranges", 0, "files", 0, "work_name"], "../x"),
        damaged(["covered"], {"orders": {"3": [[5, 9], [8, 12]]}}),
        damaged(["covered"], {"orders": {"x": []}}),
        damaged(["topic_ids"], {"orders": "no hex"}),
        damaged(["options"], {"a": 1}),
    ],
)
def test_a_damaged_document_is_named(data: bytes) -> None:
    with pytest.raises(DamagedDocument, match=r"^place"):
        documents.decode_manifest(data, "place")
