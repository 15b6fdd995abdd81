"""Whom to ask, and asking again: over three modelled brokers."""

from collections.abc import Iterator

import pytest

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from headgate.protocol.messages.list_groups import ListGroupsRequest
from headgate.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.client import Client, ClientError
from headgate.tools.client.cluster import Answers, Cluster, group_by_failure, select_partitions, sole_answer
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelGroup, opened

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def addresses(client: Client, keys: list[str]) -> Answers[str, str]:
    """Who was asked for each key."""
    return [(key, client.address) for key in keys]


@pytest.fixture
def cluster(model: ModelCluster) -> Iterator[Cluster]:
    model.groups = {"x": ModelGroup(coordinator=0), "y": ModelGroup(coordinator=2), "z": ModelGroup(coordinator=2)}
    model.topics = model.topics | {"a": [Log(leader=1), Log(leader=0)], "b": [Log(leader=1)]}
    with opened() as cluster:
        yield cluster


@pytest.mark.parametrize("version", range(7))
def test_groups_are_asked_of_their_coordinators(model: ModelCluster, version: int) -> None:
    model.served[FindCoordinatorRequest] = (0, version)
    model.groups = {"x": ModelGroup(coordinator=0), "y": ModelGroup(coordinator=2), "z": ModelGroup(coordinator=2)}
    with opened() as cluster:
        found, failed = cluster.ask_coordinators(["x", "y", "z", "x"], addresses)
    assert found == {"x": "127.0.0.1:9092", "y": "127.0.0.1:9094", "z": "127.0.0.1:9094"}
    assert not failed
    assert len(model.of(FindCoordinatorRequest)) == (1 if version >= 4 else 3)


def test_partitions_are_asked_of_their_leaders_many_at_once(model: ModelCluster, cluster: Cluster) -> None:
    asked = []

    def ask(client: Client, partitions: list[TopicPartition]) -> Answers[TopicPartition, str]:
        asked.append((client.address, partitions))
        return [(partition, "") for partition in partitions]

    found, failed = cluster.ask_leaders([A0, A1, B0], ask)
    assert (set(found), failed) == ({A0, A1, B0}, {})
    assert sorted(asked) == [("127.0.0.1:9092", [A1]), ("127.0.0.1:9093", [A0, B0])]
    assert len(model.of(MetadataRequest)) == 1


def test_every_broker_is_asked(model: ModelCluster, cluster: Cluster) -> None:
    found, failed = cluster.ask_all_brokers(lambda client, nodes: [(node, client.address) for node in nodes])
    assert found == {0: "127.0.0.1:9092", 1: "127.0.0.1:9093", 2: "127.0.0.1:9094"}
    assert not failed


def test_a_transient_error_is_retried_on_a_new_route(model: ModelCluster, cluster: Cluster) -> None:
    """A coordinator loads, then has moved."""
    asked = []

    def ask(client: Client, keys: list[str]) -> Answers[str, str]:
        asked.append((client.address, keys))
        if len(asked) == 1:
            return [("y", Failure.of(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)), ("z", "at once")]
        if len(asked) == 2:
            model.groups["y"].coordinator = 1
            return [("y", Failure.of(ErrorCode.NOT_COORDINATOR))]
        return addresses(client, keys)

    assert cluster.ask_coordinators(["y", "z"], ask) == ({"y": "127.0.0.1:9093", "z": "at once"}, {})
    assert asked == [("127.0.0.1:9094", ["y", "z"]), ("127.0.0.1:9094", ["y"]), ("127.0.0.1:9093", ["y"])]


def test_moved_leaders_are_looked_up_again(model: ModelCluster, cluster: Cluster) -> None:
    asked = []

    def ask(client: Client, keys: list[TopicPartition]) -> Answers[TopicPartition, str]:
        asked.append(client.address)
        model.topics["b"][0].leader = 2
        moved = Failure.of(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return [(key, client.address if len(asked) > 1 else moved) for key in keys]

    cluster.topics(["a"])
    assert cluster.ask_leaders([B0], ask) == ({B0: "127.0.0.1:9094"}, {})
    assert (cluster.routing.leader(A0), cluster.routing.leader(B0)) == (1, 2), "others stay known"
    assert asked == ["127.0.0.1:9093", "127.0.0.1:9094"]


@pytest.mark.parametrize("code, requests", [(ErrorCode.OFFSET_NOT_AVAILABLE, 1), (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)])
def test_metadata_are_read_again_only_where_the_error_asks(
    model: ModelCluster, cluster: Cluster, code: ErrorCode, requests: int
) -> None:
    failures = [Failure.of(code)]

    def ask(client: Client, keys: list[TopicPartition]) -> Answers[TopicPartition, str]:
        return [(key, failures.pop() if failures else "") for key in keys]

    assert cluster.ask_leaders([B0], ask) == ({B0: ""}, {})
    assert len(model.of(MetadataRequest)) == requests


def test_the_controller_is_asked(model: ModelCluster, cluster: Cluster) -> None:
    model.controller = 2
    assert cluster.ask_controller("x", lambda client: client.address) == ({"x": "127.0.0.1:9094"}, {})
    model.controller = 7
    assert cluster.ask_controller("x", lambda client: client.address) == ({"x": "127.0.0.1:9092"}, {})


def test_a_lost_bootstrap_is_connected_again(model: ModelCluster, cluster: Cluster) -> None:
    model.disturb = lambda node, request, version: b""  # hangs up
    with pytest.raises(ClientError, match="hung up at MetadataRequest"):
        cluster.topics(["a"])
    model.disturb = lambda node, request, version: None
    assert set(cluster.topics(["a"])) == {"a"}
    assert model.connects == [0, 0]


def test_the_timeout_ends_the_retries(cluster: Cluster) -> None:
    loading = Failure.of(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    count = 0

    def ask(client: Client, keys: list[str]) -> Answers[str, str]:
        nonlocal count
        count += 1
        return [(key, loading) for key in keys]

    assert cluster.ask_coordinators(["x"], ask) == ({}, {"x": loading})
    assert 40 < count < 60, "five seconds, a tenth between"


def test_a_lasting_error_is_not_retried(cluster: Cluster) -> None:
    refused = Failure.of(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert cluster.ask_coordinators(["x"], lambda client, keys: [("x", refused)]) == ({}, {"x": refused})


def test_a_dead_broker_fails_its_own_keys_only(model: ModelCluster, cluster: Cluster) -> None:
    model.dead = {2}
    found, failed = cluster.ask_coordinators(["x", "y"], addresses)
    assert found == {"x": "127.0.0.1:9092"}
    text = failed["y"].text
    assert text.startswith("broker 2 is advertised at 127.0.0.1:9094: no broker answers at")
    assert text.endswith("; start it, or correct its advertised.listeners: `headgate doctor` tells which")


def test_a_missing_coordinator_fails_its_group(model: ModelCluster, cluster: Cluster) -> None:
    refused = Coordinator("x", -1, "", -1, ErrorCode.GROUP_AUTHORIZATION_FAILED, "no, not you")
    model.disturb = lambda node, request, version: FindCoordinatorResponse(coordinators=[refused])
    _, failed = cluster.ask_coordinators(["x"], addresses)
    assert failed["x"].text == "no, not you (GROUP_AUTHORIZATION_FAILED)"


def test_a_key_that_an_answer_lacks_is_a_failure(cluster: Cluster) -> None:
    found, failed = cluster.ask_coordinators(["x"], lambda client, keys: [("another", "")])
    assert (found, failed["x"].text) == ({}, "the broker's answer lacks it")


@pytest.mark.parametrize(
    "partition, code, sentence",
    [
        (TopicPartition("none", 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic"),
        (TopicPartition("a", 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition: the topic has 2"),
        (A1, ErrorCode.NONE, "the partition has no leader at the moment"),
    ],
)
def test_partitions_without_a_leader_fail(
    model: ModelCluster, cluster: Cluster, partition: TopicPartition, code: ErrorCode, sentence: str
) -> None:
    model.topics["a"][1].leader = -1
    found, failed = cluster.ask_leaders([partition], lambda client, keys: [(key, "") for key in keys])
    assert (found, failed) == ({}, {partition: Failure(code, sentence)})


@pytest.mark.parametrize("version", [1, 3])
def test_an_old_broker_is_not_asked_for_a_topic_by_name(model: ModelCluster, version: int) -> None:
    """The model fails such a request."""
    model.served[MetadataRequest] = (0, version)
    model.topics["a"] = [Log()]
    with opened() as cluster:
        assert set(cluster.topics(["a", "none"])) == {"a"}
        assert cluster.routing.leader(TopicPartition("none", 0)) == Failure(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic"
        )


def test_an_address_of_version_6_is_written_with_brackets(model: ModelCluster, cluster: Cluster) -> None:
    broker = MetadataResponseBroker(9, "::1", 9100)
    model.disturb = lambda node, request, version: MetadataResponse(brokers=[broker])
    _, failed = cluster.ask_all_brokers(lambda client, nodes: [])
    assert "[::1]:9100" in failed[9].text


def test_a_connection_is_kept_and_a_broken_one_is_not(model: ModelCluster, cluster: Cluster) -> None:
    def ask(client: Client, keys: list[str]) -> Answers[str, int]:
        for key in keys:
            yield key, len(client.ask(ListGroupsRequest()).groups)

    model.disturb = lambda node, request, version: b"" if node == 2 else None  # hangs up
    assert "hung up at ListGroupsRequest" in cluster.ask_coordinators(["y"], ask)[1]["y"].text
    model.disturb = lambda node, request, version: None
    for _ in range(2):
        assert cluster.ask_coordinators(["y"], ask)[0] == {"y": 2}
    assert model.connects == [0, 2, 2]


def test_connections_that_brokers_have_closed_are_opened_again(
    model: ModelCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.ask_all_brokers(lambda client, nodes: [(nodes[0], client.address)])
    before = list(model.connects)
    monkeypatch.setattr(Client, "has_ended", property(lambda client: client.address.endswith("9093")))
    cluster.drop_ended()
    found, _ = cluster.ask_all_brokers(lambda client, nodes: [(nodes[0], client.address)])
    assert sorted(found) == [0, 1, 2]
    assert model.connects == [*before, 1]


def test_equal_failures_are_grouped() -> None:
    refused, other = Failure.of(ErrorCode.NON_EMPTY_GROUP), Failure(0, "other")
    failures = {TopicPartition("a", number): refused for number in range(7)} | {B0: other, A1: other}
    assert group_by_failure(failures) == [("a-0, a-2, a-3, a-4, a-5, and 1 more", refused), ("a-1, b-0", other)]


def test_partitions_of_topics_are_selected(cluster: Cluster) -> None:
    selected, failures = select_partitions(cluster, {"a": None, "gone": None, "b": [7]})
    assert selected == [A0, A1, TopicPartition("b", 7)]
    assert failures == ["gone: there is no such topic; `headgate topics list` shows all"]


def test_the_answer_to_a_sole_question_or_its_failure(cluster: Cluster) -> None:
    assert sole_answer(cluster.ask_any("address", lambda client: client.address)) == "127.0.0.1:9092"
    with pytest.raises(ClientError, match="no rights"):
        sole_answer(cluster.ask_any("address", lambda _: Failure(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no rights")))
