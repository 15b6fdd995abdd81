"""The id and the positions of a query's batch, from its checkpoint."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.spark.sink.marker import QueryBatch, SinkRefused, SourceOffsets
from headgate.spark.sink.query import find_checkpoint, parse_offsets, read_query

OFFSETS = """v1
{"batchWatermarkMs":0,"batchTimestampMs":1790000000000,"conf":{}}
{"orders":{"0":250,"1":7},"zoo":{"0":1}}
-
{"logOffset":3}
"""


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "4").write_text(OFFSETS)
    (tmp_path / "metadata").write_text('{"id":"2f1c"}')
    return tmp_path


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_a_batch_of_a_checkpoint(checkpoint: Path, scheme: str) -> None:
    found = read_query(f"{scheme}{checkpoint}", 4, None)
    assert found.others is None, "sources/2/3 is gone"
    (checkpoint / "sources" / "2").mkdir(parents=True)
    (checkpoint / "sources" / "2" / "3").write_text("v1")
    found = read_query(f"{scheme}{checkpoint}", 4, None)
    assert found.others
    assert found[:3] == ("2f1c", 4, {"orders": {0: 250, 1: 7}, "zoo": {0: 1}})
    assert found.before is None
    (checkpoint / "offsets" / "5").write_text(OFFSETS.replace("250", "251"))
    following = read_query(f"{scheme}{checkpoint}", 5, None)
    assert following.before == SourceOffsets(found.positions, found.others)
    assert following.others == found.others


def test_other_sources_are_compared_by_a_digest() -> None:
    files = {"1/3": "v1\na", "1/4": "v1\nb", "1/9.compact": "v1\na\nb", "2/3": "v1\nc"}

    def read(name: str) -> str:
        if name not in files:
            raise FileNotFoundError
        return files[name]

    def digest(*sources: str) -> str | None:
        return parse_offsets("\n".join(("v1", "{}", *sources)), read).others

    topic = '{"t":{"0":5}}'
    assert digest(topic) == digest(topic, "-") == ""
    assert digest(topic, '{"logOffset":3}') == digest('{"t":{"0":6}}', '{"logOffset": 3}')
    assert digest(topic, '{"logOffset":3}') != digest(topic, '{"logOffset":4}')
    assert digest(topic, "51") != digest(topic, "52")
    before = digest(topic, '{"logOffset":3}')
    files["1/3"] = "v1\nother"
    assert digest(topic, '{"logOffset":3}') != before, "the same number, other files"
    assert digest(topic, '{"logOffset":9}')
    assert digest(topic, '{"logOffset":8}') is None, "nothing tells which files they were"
    assert digest(topic, topic) != digest(topic, '{"t":{"0":6}}'), "their lowest offset is the same"


def test_files_elsewhere_are_read_by_spark() -> None:
    pytest.importorskip("pyspark", reason="the packages of Spark are not installed")
    files = {"s3://b/c/metadata": '{"id":"x"}', "s3://b/c/offsets/0": 'v1\n{}\n{"t":{"0":5}}'}

    def text(path: str, *, wholetext: bool) -> Any:
        assert wholetext
        return SimpleNamespace(collect=lambda: [(files[path],)])

    session = SimpleNamespace(read=SimpleNamespace(text=text))
    assert read_query("s3://b/c", 0, session) == QueryBatch("x", 0, {"t": {0: 5}})


def test_another_folder_and_damage_are_refused(checkpoint: Path) -> None:
    with pytest.raises(SinkRefused, match="is not the checkpoint"):
        read_query(f"{checkpoint}/offsets", 4, None)
    with pytest.raises(SinkRefused, match=r"there is no .*offsets/5"):
        read_query(str(checkpoint), 5, None)
    (checkpoint / "offsets" / "5").write_text("v9")
    with pytest.raises(SinkRefused, match=r"offsets/5 cannot be read"):
        read_query(str(checkpoint), 5, None)


def test_a_frame_outside_of_a_query_is_refused() -> None:
    context = SimpleNamespace(getLocalProperty=lambda name: None)
    frame = SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context))
    with pytest.raises(SinkRefused, match="outside of foreachBatch"):
        find_checkpoint(frame)
    with pytest.raises(SinkRefused, match="checkpoint="):
        find_checkpoint(SimpleNamespace())
