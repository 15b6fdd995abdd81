"""Groups of every kind in one answer, and the figures of those in sight."""

import pytest

from headgate.protocol.messages import consumer_group_describe as kip_848
from headgate.protocol.messages.list_groups import ListGroupsRequest
from headgate.protocol.messages.offset_fetch import OffsetFetchRequest
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.console.resources.groups.groups import COLUMNS, group_figures, groups
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelGroup, ModelMember, opened

NOTHING = Parameters()


def named(*groups: str) -> Parameters:
    return Parameters([("group", name) for name in groups])


def populate(model: ModelCluster) -> None:
    model.topics["a"] = [Log(), Log(1)]
    model.topics["a"][0].append(1000, 2000, 3000)
    model.groups = {
        "new": ModelGroup(
            "Stable", "consumer", members=[ModelMember("m", {"a": [0, 1]})], offsets={("a", 0): (1, 0, "")}
        ),
        "old": ModelGroup(protocol="", coordinator=1, offsets={("a", 0): (9, 0, ""), ("b", 0): (4, 0, "")}),
        "shared": ModelGroup("Stable", "Share", "share", coordinator=2),
    }


def test_groups_of_every_type_are_rows(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        answer = groups(cluster, NOTHING)
    assert answer == {
        "columns": list(COLUMNS),
        "rows": [
            ["new", "consumer", "Stable", "consumer", 0, True],
            ["old", "classic", "Empty", "", 1, True],
            ["shared", "share", "Stable", "share", 2, False],
        ],
        "missing": {},
    }


def test_a_group_of_kip_848_is_not_dead_where_the_list_has_no_states(model: ModelCluster) -> None:
    """DescribeGroups calls such a group dead."""
    populate(model)
    del model.groups["shared"]
    model.served[ListGroupsRequest] = (0, 3)
    with opened() as cluster:
        answer = groups(cluster, NOTHING)
    assert [row[:3] for row in answer["rows"]] == [["new", "consumer", "Stable"], ["old", "classic", "Empty"]]


def test_a_list_without_types_has_classic_groups(model: ModelCluster) -> None:
    populate(model)
    model.groups = {"old": model.groups["old"]}
    model.served[ListGroupsRequest] = (0, 4)
    model.unserved = {kip_848.ConsumerGroupDescribeRequest}
    with opened() as cluster:
        assert groups(cluster, NOTHING)["rows"] == [["old", "classic", "Empty", "", 1, True]]


def test_a_broker_that_is_down_leaves_the_others(model: ModelCluster) -> None:
    populate(model)
    model.dead = {1}
    with opened() as cluster:
        answer = groups(cluster, NOTHING)
    assert [row[0] for row in answer["rows"]] == ["new", "shared"]
    assert answer["missing"]["groups"].startswith("the groups of broker 1 are not known: ")


def test_members_topics_and_lag_of_groups_in_sight(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        answer = group_figures(cluster, named("new", "old"))
    new, old = answer["groups"]
    assert new.pop("lag_ms") > 0
    assert new == {
        "group": "new",
        "state": "Stable",
        "type": "consumer",
        "members": 1,
        "topics": ["a"],
        "lag_records": 2,
        "partitions_total": 2,
        "partitions_out_of_range": 0,
    }
    assert (old["lag_records"], old["lag_ms"], old["partitions_out_of_range"], old["topics"]) == (0, 0, 2, ["a", "b"])
    assert answer["missing"] == {}


def test_groups_without_an_answer_have_reasons(model: ModelCluster) -> None:
    populate(model)
    model.served[OffsetFetchRequest] = (0, 0)
    with opened() as cluster:
        answer = group_figures(cluster, named("new", "gone"))
    assert answer["groups"][0]["lag_records"] is None
    assert "group gone: there is no such group" in answer["missing"]["members"]
    assert "the offsets of group new are not known" in answer["missing"]["lag"]


def test_no_groups_ask_nothing(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        assert group_figures(cluster, NOTHING)["groups"] == []
    assert model.asked == []


def test_too_many_groups_in_one_question_are_refused(model: ModelCluster) -> None:
    with opened() as cluster, pytest.raises(BadParameter, match="at most 100"):
        group_figures(cluster, named(*map(str, range(101))))
