"""Groups and offsets of topics are shown before they are deleted, and members keep them."""

from __future__ import annotations

import pytest

from headgate.protocol.messages.delete_groups import DeleteGroupsRequest
from headgate.protocol.messages.offset_delete import OffsetDeleteRequest
from headgate.tools.console.changes.groups import delete_groups, delete_offsets
from headgate.tools.console.changes.plan import ChangeLine, ChangePlan
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelGroup, ModelMember, opened


def populate(model: ModelCluster) -> None:
    model.topics |= {"orders": [Log(end=2000), Log(end=5)], "audit": [Log(end=9)]}
    model.groups["billing"] = ModelGroup(
        offsets={("orders", 1): (3, -1, "by hand"), ("orders", 0): (1500, -1, ""), ("gone", 4): (7, -1, "")}
    )
    model.groups["other"] = ModelGroup(offsets={("audit", 0): (1, -1, "")})


def of_groups(*names: str) -> ChangePlan:
    with opened() as cluster:
        return delete_groups(cluster, Parameters([("group", name) for name in names]))


def of_topics(*topics: str) -> ChangePlan:
    with opened() as cluster:
        return delete_offsets(cluster, Parameters([("group", "billing"), *(("topic", topic) for topic in topics)]))


def applied(plan: ChangePlan) -> tuple[list[str], list[str]]:
    with opened() as cluster:
        done, failures, _ = plan.apply(cluster)
    return list(done), list(failures)


def test_offsets_of_topics_are_deleted(model: ModelCluster) -> None:
    populate(model)
    plan = of_topics("orders:1", "gone")
    assert plan.summary == (
        "Delete 2 offsets of the group billing; auto.offset.reset decides where its consumers begin then"
    )
    assert plan.lines == [ChangeLine("gone-4", "7"), ChangeLine("orders-1", "3", None, "by hand")]
    assert plan.command == "headgate groups delete billing --topic orders:1 --topic gone"
    assert (plan.problems, plan.warnings, plan.confirmation) == ([], [], "")
    assert ("gone", 4) in model.groups["billing"].offsets
    assert applied(plan) == (["2 offsets of the group billing are deleted"], [])
    assert list(model.groups["billing"].offsets) == [("orders", 0)]


def test_offsets_that_are_not_there_are_problems(model: ModelCluster) -> None:
    populate(model)
    assert of_topics("audit:0,2").problems == ["group billing has committed nothing for audit:0,2"]
    del model.groups["billing"]
    assert of_topics("audit").problems == ["group billing: there is no such group; `headgate groups list` shows all"]
    with opened() as cluster:
        for pairs, missing in (([("group", "billing")], "topic"), ([("topic", "orders")], "group")):
            with pytest.raises(BadParameter, match=f"the parameter {missing} is missing"):
                delete_offsets(cluster, Parameters(pairs))


def test_members_keep_the_offsets_of_their_topics(model: ModelCluster) -> None:
    populate(model)
    group = model.groups["billing"]
    group.state, group.members = "Stable", [ModelMember("m-1", {"orders": [0, 1]})]
    [problem] = of_topics("orders:1", "gone").problems
    assert problem == (
        "group billing is Stable, and its members read orders: m-1 (client app at /10.0.0.1); stop them first"
    )
    plan = of_topics("gone")
    assert plan.problems == []
    assert plan.warnings == ["the group billing is Stable: the broker refuses topics that a member subscribes to"]


def test_groups_are_deleted_with_the_offsets_in_sight(model: ModelCluster) -> None:
    populate(model)
    plan = of_groups("billing")
    assert plan.summary == "Delete the group billing with 3 offsets"
    assert plan.lines == [
        ChangeLine("gone-4", "7"),
        ChangeLine("orders-0", "1,500"),
        ChangeLine("orders-1", "3", None, "by hand"),
    ]
    assert (plan.confirmation, plan.command) == ("billing", "headgate groups delete billing")
    assert "billing" in model.groups
    assert applied(plan) == (["The group billing is deleted"], [])
    assert list(model.groups) == ["other"]


def test_several_groups_may_partly_fail(model: ModelCluster) -> None:
    populate(model)
    model.groups["empty"] = ModelGroup(type="consumer")
    plan = of_groups("empty", "other")
    assert (plan.summary, plan.confirmation) == ("Delete 2 groups with 1 offset", "2 groups")
    assert plan.lines == [ChangeLine("empty", "no offsets"), ChangeLine("other audit-0", "1")]
    model.groups["other"].members = [ModelMember("late")]
    with opened() as cluster:
        done, [failure], details = plan.apply(cluster)
    assert (done, details) == (["The group empty is deleted"], {"deleted": ["empty"]})
    assert failure.startswith("group other was not deleted: ")


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_a_group_with_members_is_kept(model: ModelCluster, kind: str) -> None:
    populate(model)
    group = model.groups["billing"]
    group.state, group.type, group.members = "Stable", kind, [ModelMember("m-1")]
    assert of_groups("billing").problems == [
        "group billing is Stable, and has members: m-1 (client app at /10.0.0.1); stop them first"
    ]


def test_a_share_group_is_deleted_too(model: ModelCluster) -> None:
    populate(model)
    model.groups["billing"].type = "share"
    plan = of_groups("billing")
    assert plan.lines == [ChangeLine("billing", "share group", None, "its positions are lost")]
    assert (plan.problems, plan.command) == ([], "")
    assert applied(plan) == (["The group billing is deleted"], [])
    assert of_topics("orders").problems[0].startswith("group billing: there is no such group")


def test_what_cannot_be_deleted_has_a_sentence(model: ModelCluster) -> None:
    populate(model)
    assert of_groups("none").problems == ["group none: there is no such group; `headgate groups list` shows all"]
    model.groups["billing"].type = "zookeeper"
    model.zookeeper["billing"] = {("orders", 0): 4}
    plan = of_groups("billing")
    assert plan.problems == ["group billing is in ZooKeeper alone, where no request deletes it"]
    assert (plan.summary, plan.command) == ("Delete the group billing with 1 offset", "")
    assert of_topics("orders").problems[0].startswith("group billing has its offsets in ZooKeeper alone; ")
    with pytest.raises(BadParameter, match="the parameter group is missing"):
        of_groups()


def test_a_broker_that_is_too_old_has_a_sentence(model: ModelCluster) -> None:
    populate(model)
    model.unserved = {DeleteGroupsRequest, OffsetDeleteRequest}
    assert of_groups("billing").problems == [
        "the broker at 127.0.0.1:9092 has no DeleteGroups, which Kafka has since 1.1"
    ]
    assert of_topics("orders").problems == [
        "the broker at 127.0.0.1:9092 has no OffsetDelete, which Kafka has since 2.4"
    ]
