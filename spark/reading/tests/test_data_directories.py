"""Which partitions the directories of a broker hold, and what is refused."""

from __future__ import annotations

import pytest

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.data_directories import DataDirectories
from headgate.spark.reading.log_reader import LogUnavailable
from headgate.spark.reading.tests.simulated_disk import SimulatedDisk
from headgate.storage.disk import layout
from headgate.storage.disk.layout import Meta
from headgate.storage.tests.crashing_files import CrashingFiles

ORDERS, OTHER = bytes(range(16)), bytes(range(1, 17))
FIRST_SEGMENT = f"{0:020d}.log"


@pytest.fixture
def files() -> CrashingFiles:
    files = CrashingFiles()
    for path in ("/a", "/b"):
        files.make_directories(path)
        layout.write_meta(files, path, Meta("cluster", 3, "directory"))
    for path, numbers in (("/a", (0, 2)), ("/b", (1, 10))):
        for number in numbers:
            put(files, f"{path}/orders-{number}")
    return files


def put(files: CrashingFiles, path: str, topic_id: bytes | None = ORDERS, content: bytes = b"batches") -> None:
    files.make_directories(path)
    files.write(f"{path}/{FIRST_SEGMENT}", content)
    if topic_id is not None:
        layout.write_topic_id(files, path, topic_id)


def both(files: CrashingFiles) -> DataDirectories:
    return DataDirectories(SimulatedDisk(files), ["/a/", "/b", "/a"])


def test_partitions_of_all_directories_make_a_topic(files: CrashingFiles) -> None:
    put(files, "/b/audit-0", topic_id=None)
    put(files, "/b/__consumer_offsets-4")
    topics = both(files).topics()
    assert list(topics) == ["__consumer_offsets", "audit", "orders"]
    assert topics["orders"] == ("orders", ORDERS, [0, 1, 2, 10])
    assert topics["audit"].topic_id is None
    assert both(files).locate(TopicPartition("orders", 2)) == "/a"
    assert both(files).locate(TopicPartition("orders", 10)) == "/b"


def test_other_directories_are_no_partitions(files: CrashingFiles) -> None:
    put(files, "/a/__headgate_metadata-0")
    put(files, "/a/__cluster_metadata-0")
    put(files, f"/a/{'orders-3.' + '0' * 32}-delete")
    files.make_directories("/a/holiday-24")
    files.write("/a/holiday-24/picture", b"")
    files.make_directories("/a/lost+found")
    files.write("/a/report-7", b"a file")
    assert list(both(files).topics()) == ["orders"]


def test_a_damaged_topic_id_counts_as_unknown(files: CrashingFiles) -> None:
    for number in (1, 10):
        files.write(f"/b/orders-{number}/partition.metadata", b"version: 0\ntopic")
    assert DataDirectories(SimulatedDisk(files), ["/b"]).topics()["orders"].topic_id is None


def test_an_unused_directory_does_not_count_beside_another(files: CrashingFiles) -> None:
    put(files, "/b/orders-0", content=b"")
    assert both(files).locate(TopicPartition("orders", 0)) == "/a"


def test_a_partition_in_two_directories_is_refused(files: CrashingFiles) -> None:
    put(files, "/b/orders-0")
    with pytest.raises(LogUnavailable, match="orders-0 is in /a and in /b"):
        both(files).locate(TopicPartition("orders", 0))


def test_the_topic_id_of_the_plan_decides(files: CrashingFiles) -> None:
    put(files, "/b/orders-0", OTHER)
    assert both(files).locate(TopicPartition("orders", 0), OTHER) == "/b"
    assert both(files).locate(TopicPartition("orders", 0), ORDERS) == "/a"
    with pytest.raises(LogUnavailable, match="created again"):
        both(files).locate(TopicPartition("orders", 2), OTHER)


def test_a_missing_partition_is_named(files: CrashingFiles) -> None:
    with pytest.raises(LogUnavailable, match="none of /a, /b has a directory orders-7"):
        both(files).locate(TopicPartition("orders", 7))


def test_directories_that_are_none_are_refused(files: CrashingFiles) -> None:
    files.make_directories("/empty")
    with pytest.raises(LogUnavailable, match="/empty is no data directory"):
        DataDirectories(SimulatedDisk(files), ["/empty"]).topics()
    with pytest.raises(LogUnavailable, match="/nowhere cannot be read here"):
        DataDirectories(SimulatedDisk(files), ["/nowhere"]).topics()


def test_directories_of_two_brokers_are_refused(files: CrashingFiles) -> None:
    layout.write_meta(files, "/b", Meta("cluster", 4, "directory"))
    with pytest.raises(LogUnavailable, match="different brokers, /a to node 3 of cluster cluster and /b to node 4"):
        both(files).topics()
