"""A broker with several log directories, and with one of them gone."""

import logging
import shutil
from pathlib import Path

import pytest

from headgate.gateway.runtime.tasks import run
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.protocol.records.batch import Record, build
from headgate.storage.errors import StorageError
from headgate.storage.files import Files, Lock

NOW_MS = 1_700_000_000_000


def node_of(root: Path, *names: str) -> HandlerBroker:
    return HandlerBroker(root, log_dirs=",".join(f"{root}/{name}" for name in names))


def fill(node: HandlerBroker, name: str, partitions: int) -> None:
    node.services.metadata.create_topic(name, partitions)
    for index in range(partitions):
        batch = build([Record(timestamp=NOW_MS, value=bytes(100 + index))])
        node.services.partitions.get(name, index).append(memoryview(batch), 1, NOW_MS)


def break_directory(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    lock = Files.lock

    def refuse(files: Files, path: str) -> Lock:
        if path.startswith(f"{directory}/"):
            raise OSError(5, "Input/output error", path)
        return lock(files, path)

    monkeypatch.setattr(Files, "lock", refuse)


def codes(node: HandlerBroker, name: str, partitions: int) -> list[ErrorCode]:
    found = []
    for index in range(partitions):
        try:
            node.services.partitions.get(name, index)
            found.append(ErrorCode.NONE)
        except KafkaError as error:
            found.append(error.code)
    return found


def described(node: HandlerBroker, version: int = 4) -> dict[str, tuple[int, list[tuple[str, int]], bool]]:
    """Directory -> error code, its partitions, whether the size of the volume is told."""
    response = node.ask(DescribeLogDirsRequest(topics=None), version)
    return {
        Path(row.log_dir).name: (
            row.error_code,
            [(topic.name, partition.partition_index) for topic in row.topics for partition in topic.partitions],
            row.total_bytes > 0,
        )
        for row in response.results
    }


def test_partitions_are_spread_and_found_again(tmp_path: Path) -> None:
    node = node_of(tmp_path, "a", "b")
    fill(node, "t", 4)
    # The metadata log is in the first one
    expected = {"a": (0, [("t", 1), ("t", 3)], True), "b": (0, [("t", 0), ("t", 2)], True)}
    assert described(node) == expected
    node.restart()
    assert described(node) == expected
    assert codes(node, "t", 4) == [ErrorCode.NONE] * 4
    node.services.metadata.delete_topic("t")
    node.log_manager.remove_deleted()
    assert not [*tmp_path.glob("*/t-*")]
    node.close()


def test_an_unusable_directory_takes_only_its_partitions_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = node_of(tmp_path, "a", "b")
    fill(node, "t", 4)
    node.close()
    storage, none = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE
    with monkeypatch.context() as broken:
        break_directory(broken, tmp_path / "b")
        node = node_of(tmp_path, "a", "b")
        assert codes(node, "t", 4) == [storage, none, storage, none]
        assert described(node) == {"a": (0, [("t", 1), ("t", 3)], True), "b": (storage, [], False)}
        assert described(node, 0)["b"][0] == storage
        rows = node.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9).topics[0].partitions
        assert [(row.leader_id, row.offline_replicas) for row in rows] == [(-1, [0]), (0, []), (-1, [0]), (0, [])]
        run(node.services.partitions.retry())
        assert codes(node, "t", 4) == [storage, none, storage, none], "nothing is made anew in its place"
        fill(node, "new", 2)
        node.services.metadata.create_partitions("t", 5)
        assert codes(node, "t", 5)[4] == none
        node.close()
    node = node_of(tmp_path, "a", "b")
    assert codes(node, "t", 5) + codes(node, "new", 2) == [none] * 7
    assert [node.services.partitions.get("t", index).high_watermark for index in range(5)] == [1, 1, 1, 1, 0]
    node.close()


def test_a_topic_that_was_made_anew_while_its_directory_was_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = node_of(tmp_path, "a", "b")
    fill(node, "t", 2)
    node.close()
    with monkeypatch.context() as broken:
        break_directory(broken, tmp_path / "b")
        node = node_of(tmp_path, "a", "b")
        node.services.metadata.delete_topic("t")
        node.services.metadata.create_topic("t", 2)
        assert codes(node, "t", 2) == [ErrorCode.NONE] * 2
        node.close()
    node = node_of(tmp_path, "a", "b")
    assert [node.services.partitions.get("t", index).high_watermark for index in (0, 1)] == [0, 0]
    assert not (tmp_path / "b" / "t-0").exists()
    node.close()


def test_without_the_metadata_log_no_other_directory_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = node_of(tmp_path, "a", "b")
    fill(node, "t", 2)
    node.close()
    break_directory(monkeypatch, tmp_path / "a")
    with pytest.raises(StorageError, match=f"it may be in {tmp_path}/a, which cannot be used"):
        node_of(tmp_path, "a", "b")
    assert not (tmp_path / "b" / "__headgate_metadata-0").exists()


def test_a_slow_directory_slows_no_other(tmp_path: Path) -> None:
    node = node_of(tmp_path, "a", "b")
    fill(node, "t", 4)
    disks = [node.services.partitions.get("t", index).disk for index in range(4)]
    assert (disks[0], disks[1]) == (disks[2], disks[3])
    assert disks[0] is not disks[1]
    disks[0].is_slow = True
    assert [bool(node.services.partitions.get("t", index).writer()) for index in range(4)] == [True, False, True, False]
    node.close()


def test_a_directory_that_is_added_gets_what_is_new(tmp_path: Path) -> None:
    node = node_of(tmp_path, "a")
    fill(node, "t", 2)
    node.close()
    node = node_of(tmp_path, "new", "a")
    fill(node, "u", 3)
    assert {name: rows for name, (_, rows, _) in described(node).items()} == {
        "new": [("u", 0), ("u", 1), ("u", 2)],
        "a": [("t", 0), ("t", 1)],
    }
    node.close()


def test_a_partition_whose_directory_is_lost_begins_anew_and_loudly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = node_of(tmp_path, "a")
    fill(node, "t", 1)
    node.log_manager.checkpoint({("t", 0): 1})
    node.close()
    shutil.rmtree(tmp_path / "a" / "t-0")
    with caplog.at_level(logging.ERROR):
        node = node_of(tmp_path, "a")
    assert "t-0 starts empty: its directory is gone, with offsets up to 1" in caplog.text
    assert node.services.partitions.get("t", 0).high_watermark == 0
    node.close()


def test_new_partitions_are_where_producers_are_served(tmp_path: Path) -> None:
    node = node_of(tmp_path, "a", "b")
    full = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
    node.services.partitions.directories[f"{tmp_path}/b"].set_full(full)
    fill(node, "t", 4)
    node.services.partitions.directories[f"{tmp_path}/b"].set_full(None)
    fill(node, "u", 4)
    assert described(node)["b"] == (0, [("u", index) for index in range(4)], True)
    node.close()
