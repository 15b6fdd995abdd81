"""One group of any type: members, offsets, lag."""

import pytest

from headgate.protocol.messages.describe_groups import DescribeGroupsRequest
from headgate.tools.client.client import ClientError
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.console.resources.groups.group import group
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelGroup, ModelMember, opened


def of(name: str, **more: str) -> Parameters:
    return Parameters([("group", name), *more.items()])


def populate(model: ModelCluster) -> None:
    model.topics["a"] = [Log(), Log(1)]
    model.topics["a"][0].append(1000, 2000, 3000)
    model.topics["a"][0].stable = 2
    member = ModelMember("m", {"a": [1, 0]}, "static", "billing")
    model.groups["g"] = ModelGroup("Stable", members=[member], offsets={("a", 0): (1, 0, "note")})


def test_members_and_partitions(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        answer = group(cluster, of("g"))
    head = ("group", "type", "state", "protocol", "assignor", "coordinator", "lag_records", "partitions_total")
    assert [answer[name] for name in head] == [
        *("g", "classic", "Stable", "consumer", "range", "127.0.0.1:9092"),
        *(2, 2),
    ]
    assert answer["members"] == [
        {
            "member_id": "m",
            "instance_id": "static",
            "client_id": "billing",
            "host": "/10.0.0.1",
            "epoch": None,
            "partitions": {"a": [0, 1]},
        }
    ]
    first, second = answer["partitions"]
    assert first.pop("lag_ms") > 0
    assert first == {
        "topic": "a",
        "partition": 0,
        "committed_offset": 1,
        "metadata": "note",
        "start_offset": 0,
        "end_offset": 3,
        "lag_records": 2,
        "status": "ok",
        "leader": 0,
        "member_id": "m",
        "client_id": "billing",
        "host": "/10.0.0.1",
    }
    assert (second["committed_offset"], second["lag_records"], second["status"]) == (None, None, "no offset")
    assert answer["missing"] == {}


def test_readers_of_committed_records_end_at_the_stable_offset(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        answer = group(cluster, of("g", isolation_level="read_committed"))
        assert (answer["partitions"][0]["end_offset"], answer["lag_records"]) == (2, 1)
        with pytest.raises(BadParameter, match="isolation_level"):
            group(cluster, of("g", isolation_level="some"))


def test_a_group_of_kip_848_has_epochs(model: ModelCluster) -> None:
    populate(model)
    model.groups["g"].type = "consumer"
    with opened() as cluster:
        answer = group(cluster, of("g"))
    assert (answer["state"], answer["type"], answer["assignor"]) == ("Stable", "consumer", "uniform")
    assert answer["members"][0]["epoch"] == 7


@pytest.mark.parametrize("version", [5, 6])
def test_a_group_of_offsets_alone_is_shown(model: ModelCluster, version: int) -> None:
    """An old broker describes such a group as dead."""
    populate(model)
    model.served[DescribeGroupsRequest] = (0, version)
    model.groups["g"] = ModelGroup(type="of offsets", offsets={("a", 0): (3, 0, "")})
    with opened() as cluster:
        answer = group(cluster, of("g"))
    assert (answer["state"], answer["members"], answer["lag_records"]) == ("Empty", [], 0)


@pytest.mark.parametrize("kind", ["Share", "Streams"])
def test_groups_of_newer_types_are_named(model: ModelCluster, kind: str) -> None:
    model.groups["new"] = ModelGroup("Stable", kind, coordinator=2)
    with opened() as cluster:
        answer = group(cluster, of("new"))
    assert (answer["type"], answer["state"], answer["lag_records"]) == (kind.lower(), "Stable", None)
    assert answer["missing"]["members"].startswith(f"a {kind.lower()} group has no committed offsets")


def test_a_group_that_does_not_exist_is_an_error(model: ModelCluster) -> None:
    with opened() as cluster, pytest.raises(ClientError, match="group gone: there is no such group"):
        group(cluster, of("gone"))
