"""Whatever Kafka 0.8.2.2, 2.8.2 and 3.9.1 wrote is read; what 3.9.1 wrote is written again, byte by byte."""

from __future__ import annotations

import json
import re

import pytest

from headgate.gateway.zookeeper.layout.cluster import PERSISTENT_PATHS
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.tests.recordings import (
    MIDDLE,
    NEW,
    OLD,
    READERS,
    Write,
    read,
    reader_of,
    scenes,
    steps,
    tree_after,
    written,
)

# Kafka puts more than twelve partitions into another order, that of a larger hash table
_MANY = "/brokers/topics/many"
# Kafka 2.8's, of which 3.9 writes a newer version
_OLDER = re.compile(r"/controller|/brokers/ids/\d+|/feature")


def test_every_kind_of_node_was_recorded() -> None:
    recorded = {reader.name for _, path, _ in written() if (reader := reader_of(path))}
    assert {reader.name for reader in READERS} - recorded == {"failed directory"}


def test_every_write_with_data_has_a_reader() -> None:
    assert [path for _, path, _ in written() if reader_of(path) is None] == []


def test_what_kafka_3_9_wrote_is_written_again_byte_by_byte() -> None:
    for _, path, data in written(NEW):
        if path != _MANY:
            assert read(path, data).encode() == data, path


def test_what_kafka_2_8_wrote_is_written_again_byte_by_byte() -> None:
    for _, path, data in written(MIDDLE):
        if path != _MANY and not _OLDER.fullmatch(path):
            assert read(path, data).encode() == data, path


@pytest.mark.parametrize("version", [OLD, MIDDLE, NEW])
def test_all_that_was_read_is_the_same_once_written(version: str) -> None:
    for _, path, data in written(version):
        value = read(path, data)
        assert read(path, value.encode()) == value, path


def test_many_partitions_differ_from_kafkas_in_their_order_only() -> None:
    data = {version: data for version, path, data in written() if path == _MANY}
    for version in (MIDDLE, NEW):
        again = read(_MANY, data[version]).encode()
        assert json.loads(again) == json.loads(data[version])
    assert len(read(_MANY, data[OLD]).partitions) == 14


@pytest.mark.slow
def test_cut_data_of_every_kind_are_refused() -> None:
    for _, path, data in written():
        if data.startswith((b"{", b'"')):
            for end in range(1, len(data)):
                with pytest.raises(InvalidNode, match=re.escape(f"ZooKeeper's {path}: ")):
                    read(path, data[:end])


@pytest.mark.parametrize("version", [MIDDLE, NEW])
def test_a_broker_creates_the_persistent_nodes_at_its_start(version: str) -> None:
    start = next(iter(steps(version, "many_partitions").values()))
    created = [write.path for write in start if write.verb == "create" and write.path in PERSISTENT_PATHS]
    assert created == list(PERSISTENT_PATHS)


def test_ephemeral_are_the_nodes_of_sessions() -> None:
    ephemeral = re.compile(r"/controller|/brokers/ids/\d+|/consumers/[^/]+/(ids/[^/]+|owners/[^/]+/\d+)")
    for version, scene in scenes():
        for write in _created(version, scene):
            assert (write.kind == "ephemeral") == bool(ephemeral.fullmatch(write.path)), write


def test_states_are_written_with_a_check_of_the_controllers_epoch() -> None:
    """One multi each. Before 2.7 leaders write the in-sync replicas by themselves, and notify the controller."""
    for version, scene in scenes():
        if version != OLD and scene != "isr_changes":
            writes = [write for step in steps(version, scene).values() for write in step]
            states = {write.zxid for write in writes if write.path.endswith("/state")}
            assert states <= {write.zxid for write in writes if write[1:4:2] == ("check", "/controller_epoch")}


def test_a_deleted_topic_leaves_nothing() -> None:
    for version in (OLD, MIDDLE, NEW):
        nodes = tree_after(version, "topics")
        assert [path for path in nodes if "assigned" in path] == []
        assert "/brokers/topics/t/partitions/4/state" in nodes


def _created(version: str, scene: str) -> list[Write]:
    return [write for step in steps(version, scene).values() for write in step if write.verb == "create"]
