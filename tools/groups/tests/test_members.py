"""Groups and members, of both protocols and of brokers of any age."""

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages import consumer_group_describe as kip_848
from headgate.protocol.messages.delete_groups import DeleteGroupsRequest
from headgate.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from headgate.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from headgate.protocol.schema import Message
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.groups.members import (
    GroupDescription,
    GroupListing,
    MemberDescription,
    complete_states,
    delete_groups,
    describe_groups,
    list_groups,
)
from headgate.tools.tests.model_cluster import ModelCluster, ModelGroup, ModelMember, opened

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def populate(model: ModelCluster) -> None:
    one = ModelMember("m1", {"a": [0, 1], "b": [0]}, "static")
    model.groups = {
        "old": ModelGroup("Stable", members=[one, ModelMember("m2")]),
        "new": ModelGroup("Stable", "consumer", members=[one], coordinator=1),
        "empty": ModelGroup(coordinator=2),
    }


def test_groups_of_all_brokers_are_listed_by_name(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        listed, failures = list_groups(cluster)
        assert complete_states(cluster, listed) == (listed, [])
    assert listed == [
        GroupListing("empty", "Empty", "classic", "consumer", 2),
        GroupListing("new", "Stable", "consumer", "consumer", 1),
        GroupListing("old", "Stable", "classic", "consumer", 0),
    ]
    assert not failures
    assert not model.of(DescribeGroupsRequest), "states are in the list"


def test_groups_that_every_broker_reads_in_zookeeper_are_listed_once(model: ModelCluster) -> None:
    populate(model)
    model.groups["alone"] = ModelGroup(type="zookeeper", coordinator=1)
    of_zookeeper = ListedGroup("new", "consumer", "Empty", "zookeeper")  # brokers that do not coordinate the group

    def add_of_zookeeper(node: int, request: Message, version: int) -> Message | None:
        if node == 1 or not isinstance(request, ListGroupsRequest):
            return None
        answer = model.list_groups(node, request, version)
        assert isinstance(answer, ListGroupsResponse)
        return ListGroupsResponse(groups=[*answer.groups, of_zookeeper])

    model.disturb = add_of_zookeeper
    with opened() as cluster:
        listed, _ = list_groups(cluster)
    assert [(row.name, row.type, row.coordinator) for row in listed] == [
        ("alone", "zookeeper", 0),
        ("empty", "classic", 2),
        ("new", "consumer", 1),
        ("old", "classic", 0),
    ]


@pytest.mark.parametrize("version", range(4))
def test_states_missing_in_an_old_list_are_asked_for(model: ModelCluster, version: int) -> None:
    populate(model)
    model.served[ListGroupsRequest] = (0, version)
    model.unserved = {kip_848.ConsumerGroupDescribeRequest}
    del model.groups["new"]
    with opened() as cluster:
        listed, failures = complete_states(cluster, list_groups(cluster)[0])
    assert [(one.name, one.state, one.type) for one in listed] == [
        ("empty", "Empty", "classic"),
        ("old", "Stable", "classic"),
    ]
    assert not failures


def test_a_broken_broker_hides_only_its_own_groups(model: ModelCluster) -> None:
    populate(model)
    model.dead = {2}
    refused = ListGroupsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    model.disturb = lambda node, request, version: (
        refused if node == 1 and isinstance(request, ListGroupsRequest) else None
    )
    with opened() as cluster:
        listed, failures = list_groups(cluster)
    assert [one.name for one in listed] == ["old"]
    assert len(failures) == 2
    assert any(
        text.startswith("the groups of broker 1 are not known: Cluster authorization failed") for text in failures
    )
    assert any(text.startswith("the groups of broker 2 are not known: broker 2 is advertised at") for text in failures)


def test_groups_of_both_protocols_are_described(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        groups, failed = describe_groups(cluster, ["old", "new", "empty"])
    partitions = [A0, A1, B0]
    members = [
        MemberDescription("m1", "static", "app", "/10.0.0.1", partitions),
        MemberDescription("m2", None, "app", "/10.0.0.1", []),
    ]
    assert groups["old"] == GroupDescription("old", "Stable", "classic", "consumer", "range", "127.0.0.1:9092", members)
    assert groups["new"] == GroupDescription(
        "new", "Stable", "consumer", "consumer", "uniform", "127.0.0.1:9093", [members[0]._replace(epoch=7)]
    )
    assert groups["empty"] == GroupDescription("empty", "Empty", "classic", "consumer", "", "127.0.0.1:9094", [])
    assert not failed


@pytest.mark.parametrize("version", range(7))
def test_a_missing_group_is_a_failure_with_advice(model: ModelCluster, version: int) -> None:
    """Before version 6 it is Dead, without an error."""
    model.served[DescribeGroupsRequest] = (0, version)
    with opened() as cluster:
        groups, failed = describe_groups(cluster, ["none"])
    assert not groups
    assert failed["none"].code == ErrorCode.GROUP_ID_NOT_FOUND
    assert failed["none"].text == "there is no such group; `headgate groups list` shows all"


@pytest.mark.parametrize("kind", [DescribeGroupsRequest, kip_848.ConsumerGroupDescribeRequest])
def test_an_error_of_a_group_is_a_failure(model: ModelCluster, kind: type[Message]) -> None:
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    answers: dict[type[Message], Message] = {
        DescribeGroupsRequest: DescribeGroupsResponse(groups=[DescribedGroup(code, None, "g")]),
        kip_848.ConsumerGroupDescribeRequest: kip_848.ConsumerGroupDescribeResponse(
            groups=[kip_848.DescribedGroup(code, "not you", "g")]
        ),
    }
    model.disturb = lambda node, request, version: answers[kind] if isinstance(request, kind) else None
    with opened() as cluster:
        groups, failed = describe_groups(cluster, ["g"])
    assert (groups, failed["g"].code) == ({}, code)


def test_many_groups_are_asked_in_parts(model: ModelCluster) -> None:
    model.groups = {f"g{i}": ModelGroup() for i in range(250)}
    with opened() as cluster:
        assert len(describe_groups(cluster, model.groups)[0]) == 250
    assert [len(one.groups) for one in model.of(DescribeGroupsRequest)] == [200, 50]


@pytest.mark.parametrize("protocol, spoil", [("connect", False), ("consumer", True)])
def test_an_unreadable_assignment_has_no_partitions(
    model: ModelCluster, monkeypatch: pytest.MonkeyPatch, protocol: str, spoil: bool
) -> None:
    model.groups["g"] = ModelGroup("Stable", protocol=protocol, members=[ModelMember("m", {"a": [0]})])
    if spoil:
        monkeypatch.setattr("headgate.tools.tests.model_cluster.assignment", lambda member: b"\0\1\xff\xff\xff\xf0")
    with opened() as cluster:
        assert describe_groups(cluster, ["g"])[0]["g"].members[0].partitions == []


@pytest.mark.parametrize(
    "state, count, is_active, who",
    [
        ("Empty", 0, False, "nobody yet, but it is Empty"),
        ("Dead", 0, False, "nobody yet, but it is Dead"),
        ("PreparingRebalance", 0, True, "nobody yet, but it is PreparingRebalance"),
        ("Stable", 1, True, "m0 (client app at /h)"),
        ("Empty", 1, True, "m0 (client app at /h)"),
        ("Stable", 7, True, ", ".join([*(f"m{i} (client app at /h)" for i in range(5)), "and 2 more"])),
    ],
)
def test_members_are_named_five_at_most(state: str, count: int, is_active: bool, who: str) -> None:
    members = [MemberDescription(f"m{i}", None, "app", "/h", []) for i in range(count)]
    group = GroupDescription("g", state, "classic", "consumer", "", "b", members)
    assert (group.is_active, group.member_names()) == (is_active, who)


@pytest.mark.parametrize("version", range(4))
def test_groups_are_deleted_unless_active_or_missing(model: ModelCluster, version: int) -> None:
    model.served[DeleteGroupsRequest] = (0, version)
    populate(model)
    with opened() as cluster:
        gone, failed = delete_groups(cluster, ["empty", "old", "none"])
    assert gone == ["empty"]
    assert {name: why.code for name, why in failed.items()} == {
        "old": ErrorCode.NON_EMPTY_GROUP,
        "none": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert set(model.groups) == {"old", "new"}
