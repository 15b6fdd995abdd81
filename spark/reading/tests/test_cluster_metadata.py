"""The topics of a metadata log: created, deleted, created again."""

from __future__ import annotations

import pytest

from headgate.protocol.internal.metadata import MetadataRecord, PartitionRecord, RemoveTopicRecord, TopicRecord, encode
from headgate.protocol.records.batch import Record, build
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.cluster_metadata import ClusterTopic, read_topics
from headgate.spark.reading.data_directories import DataDirectories
from headgate.spark.reading.log_reader import LogUnavailable, TopicDescription
from headgate.spark.reading.tests.simulated_disk import SimulatedDisk
from headgate.storage.disk import layout
from headgate.storage.tests.crashing_files import CrashingFiles

OLD, NEW, OTHER = (bytes([number] * 16) for number in (1, 2, 3))


def topic(name: str, topic_id: bytes, count: int) -> list[MetadataRecord]:
    partitions = (PartitionRecord(partition_id=number, topic_id=topic_id, replicas=[0]) for number in range(count))
    return [TopicRecord(name=name, topic_id=topic_id), *partitions]


RECORDS = [
    *topic("orders", OLD, 3),
    *topic("audit", OTHER, 1),
    RemoveTopicRecord(topic_id=OLD),
    *topic("orders", NEW, 2),
]


class Disk(SimulatedDisk):
    """A disk on which no file seems to be there."""

    def exists(self, path: str) -> bool:
        return self.files.exists(path)


def disk(records: list[MetadataRecord], directory: str = "__headgate_metadata-0") -> CrashingFiles:
    files = CrashingFiles()
    files.make_directories(f"/data/{directory}")
    made = build([Record(timestamp=1, value=encode(record)) for record in records])
    files.write(f"/data/{directory}/{0:020d}.log", bytes(made))
    return files


@pytest.mark.parametrize("directory", ["__headgate_metadata-0", "__cluster_metadata-0"])
def test_topics_are_those_that_are_left(directory: str) -> None:
    found = read_topics(Disk(disk(RECORDS, directory)), ["/other", "/data"])
    assert found == {"audit": ClusterTopic(OTHER, {0}), "orders": ClusterTopic(NEW, {0, 1})}


def test_without_a_log_nothing_is_known() -> None:
    files = disk([], "holiday-0")
    assert read_topics(Disk(files), ["/data"]) is None


def test_a_log_that_is_cut_has_what_lies_before() -> None:
    files = disk(RECORDS)
    path = f"/data/__headgate_metadata-0/{0:020d}.log"
    files.append(path, b"\0" * 70)
    assert set(read_topics(Disk(files), ["/data"]) or ()) == {"audit", "orders"}
    files.truncate(path, 80)
    assert read_topics(Disk(files), ["/data"]) is None


def test_values_that_are_no_records_make_a_log_useless() -> None:
    files = disk([])
    made = build([Record(timestamp=1, value=b"\xff")])
    files.write(f"/data/__headgate_metadata-0/{0:020d}.log", bytes(made))
    assert read_topics(Disk(files), ["/data"]) is None


def test_directories_count_as_far_as_the_metadata_know_them() -> None:
    files = disk(RECORDS)
    for name, topic_id in (("orders-0", NEW), ("orders-1", OLD), ("gone-0", OLD)):
        files.make_directories(f"/data/{name}")
        files.write(f"/data/{name}/{0:020d}.log", b"batches")
        layout.write_topic_id(files, f"/data/{name}", topic_id)
    directories = DataDirectories(Disk(files), ["/data"])
    assert directories.topics() == {
        "audit": TopicDescription("audit", OTHER, [0]),
        "orders": TopicDescription("orders", NEW, [0, 1]),
    }
    assert directories.locate(TopicPartition("orders", 0)) == "/data"
    with pytest.raises(LogUnavailable, match="another topic of this name"):
        directories.locate(TopicPartition("orders", 1))
    with pytest.raises(LogUnavailable, match=r"name all directories in log\.dirs"):
        directories.locate(TopicPartition("audit", 0))
