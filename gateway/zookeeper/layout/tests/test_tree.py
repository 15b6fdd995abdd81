"""The nodes that Kafka left, as an image."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.metadata.image import PartitionState
from headgate.gateway.zookeeper.layout.configs import CLIENTS, IPS, TOPICS, USERS, ConfigEntity
from headgate.gateway.zookeeper.layout.tests.recordings import MIDDLE, NEW, OLD, tree_after
from headgate.gateway.zookeeper.layout.tree import ABSENT, ClusterTree, Tree, ZNode, read_cluster
from headgate.protocol.internal.metadata import BROKER_RESOURCE


def read(tree: Tree) -> ClusterTree:
    ids = count(1)
    return read_cluster(tree, lambda: next(ids).to_bytes(16, "big"))


@pytest.mark.parametrize("version", [OLD, MIDDLE, NEW])
def test_topics_of_every_age_are_taken_over(version: str) -> None:
    cluster = read(tree_after(version, "topics"))
    assert cluster.invalid == ()
    topic = cluster.image.topic("t")
    assert topic.configs == {"cleanup.policy": "compact", "retention.ms": "1000000"}
    assert len(topic.partitions) == 5
    for state in topic.partitions:
        assert state == PartitionState(state.replicas[0], 0, state.replicas, state.replicas, 0)
    assert list(cluster.image.topics) == ["t"]
    assert sorted(cluster.image.brokers) == [0, 1]
    assert cluster.image.controller_id == 0
    assert cluster.controller_epoch == 1
    assert cluster.without_id == ({"t"} if version == OLD else set())


def test_a_topic_without_an_id_gets_one() -> None:
    cluster = read(tree_after(OLD, "topics"))
    assert cluster.image.topic_names == {bytes(15) + b"\x01": "t"}
    assert cluster.topics["t"].assignment.topic_id is None


def test_the_id_that_kafka_gave_stays() -> None:
    cluster = read(tree_after(NEW, "topics"))
    assert cluster.image.topic("t").topic_id == cluster.topics["t"].assignment.topic_id


@pytest.mark.parametrize("version", [OLD, MIDDLE, NEW])
def test_epochs_go_on(version: str) -> None:
    """The version of a state's node is the partition's epoch: conditional writes are made upon it."""
    tree = tree_after(version, "leaders")
    cluster = read(tree)
    assert cluster.controller_epoch == 2
    for index, state in enumerate(cluster.image.topic("t").partitions):
        assert state.leader_epoch >= 2
        assert state.partition_epoch == tree[f"/brokers/topics/t/partitions/{index}/state"].version > 2


def test_listeners_racks_and_the_clusters_id_are_read() -> None:
    image = read(tree_after(NEW, "topics")).image
    assert len(image.cluster_id) == 22
    assert image.brokers[1].rack == "a"
    assert sorted(image.brokers[1].endpoints) == ["INTERNAL", "PLAINTEXT"]


def test_configs_of_brokers_are_read() -> None:
    image = read(tree_after(NEW, "configs")).image
    assert image.configs == {
        (BROKER_RESOURCE, "0"): {"num.io.threads": "4"},
        (BROKER_RESOURCE, ""): {"log.flush.interval.ms": "9000"},
    }
    assert image.topic_configs("t") == {"max.message.bytes": "99999"}


def test_configs_that_the_image_does_not_have_are_kept_aside() -> None:
    cluster = read(tree_after(NEW, "quotas"))
    entities = {entity for entity in cluster.configs if entity.entity_type != TOPICS}
    assert entities == {
        ConfigEntity(CLIENTS, "an app/1"),
        ConfigEntity(CLIENTS, None),
        ConfigEntity(USERS, "ann"),
        ConfigEntity(IPS, "127.0.0.2"),
    }


def test_a_client_and_a_user_may_have_the_name_clients() -> None:
    paths = ("clients", "clients/clients", "users", "users/clients", "users/clients/clients", "users/u/clients/clients")
    cluster = read({f"/config/{path}": ZNode(None, 0) for path in paths})
    assert cluster.invalid == ()
    assert {entity.entity_path for entity in cluster.configs} == {paths[1], paths[3], paths[5]}


@pytest.mark.parametrize("version, following", [(OLD, 0), (MIDDLE, 1000), (NEW, 1000)])
def test_producer_ids_go_on_behind_the_last_block(version: str, following: int) -> None:
    cluster = read(tree_after(version, "topics" if version == OLD else "requests"))
    assert cluster.image.next_producer_id == following


def test_a_topic_that_the_controller_has_not_seen_has_no_leader() -> None:
    """A tool of the 0.8 age writes the assignment alone."""
    tree = {"/brokers/topics/t": ZNode(b'{"version":1,"partitions":{"0":[1]}}', 3)}
    cluster = read(tree)
    assert cluster.image.topic("t").partitions == (PartitionState(-1, -1, (1,), (), -1),)
    assert cluster.controller_epoch_version == ABSENT


def test_topics_that_tools_marked_are_named() -> None:
    tree = {"/admin/delete_topics": ZNode(None, 0), "/admin/delete_topics/t": ZNode(b"", 0)}
    assert read(tree).deleting == {"t"}


def test_what_cannot_be_read_is_left_out_and_reported() -> None:
    tree = tree_after(NEW, "topics") | {
        "/brokers/ids/x": ZNode(b"{}", 0),
        "/brokers/topics/bad name": ZNode(b"{}", 0),
        "/brokers/topics/gap": ZNode(b'{"version":1,"partitions":{"1":[0]}}', 0),
        "/config/topics/u": ZNode(b"x", 0),
        "/config/other/a": ZNode(b"{}", 0),
        "/cluster/id": ZNode(b"{}", 0),
    }
    cluster = read(tree)
    assert list(cluster.image.topics) == ["t"]
    assert sorted(error.path for error in cluster.invalid) == [
        "/brokers/ids/x",
        "/brokers/topics/bad name",
        "/brokers/topics/gap",
        "/cluster/id",
        "/config/other/a",
        "/config/topics/u",
    ]


_NODES = sorted(tree_after(NEW, "topics") | tree_after(MIDDLE, "quotas"))


@pytest.mark.slow
@given(noise=st.dictionaries(st.sampled_from(_NODES), st.none() | st.binary(max_size=9), min_size=1, max_size=9))
def test_any_nodes_are_read_or_reported(noise: dict[str, bytes | None]) -> None:
    tree = tree_after(NEW, "topics") | tree_after(MIDDLE, "quotas")
    cluster = read(tree | {path: ZNode(data, 0) for path, data in noise.items()})
    assert {error.path for error in cluster.invalid} <= set(noise)
