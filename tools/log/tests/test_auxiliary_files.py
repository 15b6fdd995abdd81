"""The files beside the segments, as Headgate and Apache Kafka write them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from headgate.storage.disk.pool import Pool
from headgate.storage.errors import BadFile
from headgate.storage.files import Files
from headgate.storage.segment.index import OffsetIndex, TimeIndex
from headgate.tools.log.auxiliary_files import parse_index, reader_of, topic_id_of
from headgate.tools.output import Row

BASE = f"{1000:020}"


def rows(path: Path, content: bytes) -> list[Row]:
    path.write_bytes(content)
    reader = reader_of(path.name)
    assert reader is not None
    return list(reader(Files(), str(path)))


@pytest.mark.parametrize(
    "name", [f"{BASE}.index", f"{BASE}.index.deleted", f"{BASE}.index.12.deleted", f"{BASE}.index.swap"]
)
def test_an_offset_index_without_its_unused_room(tmp_path: Path, name: str) -> None:
    """Kafka makes the file as long as it may become, and cuts it when the segment is done."""
    content = struct.pack(">iiii", 7, 4100, 9, 9000) + bytes(80)
    assert rows(tmp_path / name, content) == [{"offset": 1007, "position": 4100}, {"offset": 1009, "position": 9000}]


@pytest.mark.parametrize("ending", [".deleted", ".3.deleted", ".swap.3.deleted"])
def test_what_a_compaction_leaves_has_a_reader(ending: str) -> None:
    for kind in (".index", ".timeindex", ".txnindex", ".snapshot"):
        assert reader_of(f"{BASE}{kind}{ending}") is reader_of(f"{BASE}{kind}")
    assert reader_of(f"{BASE}.log{ending}") is None
    assert reader_of(f"{BASE}.index.mine") is None


def test_a_time_index(tmp_path: Path) -> None:
    assert rows(tmp_path / f"{BASE}.timeindex", struct.pack(">qi", 5, 7)) == [{"timestamp": 5, "offset": 1007}]


def test_index_entries_are_parsed() -> None:
    assert parse_index(OffsetIndex, struct.pack(">ii", 7, 1) + bytes(9)) == ([(7, 1)], 1, True)
    assert parse_index(TimeIndex, b"") == ([], 0, False)


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "cleaner-offset-checkpoint"])
def test_a_checkpoint_with_nothing_in_it(tmp_path: Path, name: str) -> None:
    assert rows(tmp_path / name, b"") == rows(tmp_path / name, b"0\n0\n") == []


def test_meta_properties_of_a_broker_before_kraft(tmp_path: Path) -> None:
    content = b"#\n#Mon Jan 01 00:00:00 UTC 2024\ncluster.id=abc\nversion=0\nbroker.id=4\n"
    assert rows(tmp_path / "meta.properties", content) == [{"cluster_id": "abc", "node_id": 4, "directory_id": None}]


@pytest.mark.parametrize(
    "name, content, sentence",
    [
        (f"{BASE}.index", b"123", "is cut within an entry"),
        (f"{BASE}.snapshot", b"\0\1", "is cut in its head"),
        (f"{BASE}.snapshot", b"\0\2" + bytes(8), "has version 2"),
        ("leader-epoch-checkpoint", b"0\n2\n1 5\n0 7\n", "is not in order"),
        ("partition.metadata", b"version: 0\n", "names no topic id"),
        ("replication-offset-checkpoint", b"0\n1\nt 0\n", "is not a topic, a partition and an offset"),
    ],
)
def test_files_with_other_content_are_refused(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    with pytest.raises(BadFile, match=sentence) as caught:
        rows(tmp_path / name, content)
    assert str(tmp_path / name) in str(caught.value)


def test_unknown_names_have_no_reader() -> None:
    assert [reader_of(name) for name in (f"{BASE}.log", "x.index", ".lock", f"{BASE}.torn")] == [None] * 4


def test_topic_ids(tmp_path: Path) -> None:
    assert topic_id_of(Pool(Files()), str(tmp_path)) is None
    (tmp_path / "partition.metadata").write_text("version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n")
    assert topic_id_of(Pool(Files()), str(tmp_path)) == "AAECAwQFBgcICQoLDA0ODw"
    (tmp_path / "partition.metadata").write_text("version: 0\ntopic_id: x\n")
    assert topic_id_of(Pool(Files()), str(tmp_path)) is None
