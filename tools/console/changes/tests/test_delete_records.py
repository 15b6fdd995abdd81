"""Records are counted before they are deleted, and only those before the given offsets are."""

from __future__ import annotations

import pytest

from headgate.protocol.messages.delete_records import DeleteRecordsRequest
from headgate.tools.console.changes.delete_records import delete_records
from headgate.tools.console.changes.plan import ChangeLine
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelGroup, opened
from headgate.tools.tests.model_topics import ModelChanges


def of(topic: str, *offsets: str) -> Parameters:
    return Parameters([("topic", topic), *(("offset", offset) for offset in offsets)])


def all_of(topic: str) -> Parameters:
    return Parameters([("topic", topic), ("all", "true")])


def fill(model: ModelCluster) -> ModelChanges:
    model.topics["orders"] = [Log(start=2, end=1502), Log(leader=1, start=5, end=5), Log(leader=2, end=7)]
    return ModelChanges(model)


def test_all_records_are_deleted(model: ModelCluster) -> None:
    fill(model)
    with opened() as cluster:
        plan = delete_records(cluster, all_of("orders"))
        assert plan.summary == "Delete 1,507 records of the topic orders in 2 of its 3 partitions"
        assert plan.lines == [
            ChangeLine(
                "orders-0", "from 2", "empty", "1,500 records, offsets 2 to 1,501; also those written until then"
            ),
            ChangeLine("orders-2", "from 0", "empty", "7 records, offsets 0 to 6; also those written until then"),
        ]
        assert (plan.problems, plan.confirmation) == ([], "orders")
        digest = plan.answer()["digest"]
        model.topics["orders"][2].end = 9
        assert delete_records(cluster, all_of("orders")).answer()["digest"] == digest, "others may write meanwhile"
        result = plan.apply(cluster)
    assert (result.done, result.failures) == (["orders-0 begins at 1,502", "orders-2 begins at 9"], [])
    assert [log.start for log in model.topics["orders"]] == [1502, 5, 9]


def test_groups_that_have_not_read_them_are_named(model: ModelCluster) -> None:
    fill(model)
    model.groups = {
        "billing": ModelGroup(offsets={("orders", 0): (1000, -1, ""), ("orders", 2): (7, -1, "")}),
        "audit": ModelGroup(offsets={("orders", 0): (0, -1, ""), ("other", 0): (0, -1, "")}, coordinator=1),
        "shared": ModelGroup(type="share"),
    }
    with opened() as cluster:
        everything = delete_records(cluster, all_of("orders"))
        half = delete_records(cluster, of("orders", "0:900"))
        digest = everything.answer()["digest"]
        model.groups["billing"].offsets["orders", 0] = (1502, -1, "")
        assert delete_records(cluster, all_of("orders")).answer()["digest"] == digest, "groups may read meanwhile"
    assert [line.note for line in everything.lines] == [
        "1,500 records, offsets 2 to 1,501; 1,500 not read by audit and 1 more group; also those written until then",
        "7 records, offsets 0 to 6; also those written until then",
    ]
    assert half.lines[0].note == "898 records, offsets 2 to 899; 898 not read by audit"


def test_offsets_of_some_partitions(model: ModelCluster) -> None:
    fill(model)
    with opened() as cluster:
        plan = delete_records(cluster, of("orders", "2:end", "0:10", "1:3"))
        assert plan.lines[0] == ChangeLine("orders-0", "from 2", "from 10", "8 records, offsets 2 to 9")
        assert [line.subject for line in plan.lines] == ["orders-0", "orders-2"]
        plan.apply(cluster)
    assert [log.start for log in model.topics["orders"]] == [10, 5, 7]


def test_what_cannot_be_deleted_is_a_problem(model: ModelCluster) -> None:
    changes = fill(model)
    with opened() as cluster:
        beyond = delete_records(cluster, of("orders", "0:1503", "7:1"))
        nothing = delete_records(cluster, of("orders", "0:2", "1:end"))
        changes.set[2, "orders"] = {"cleanup.policy": "compact"}
        compacted = delete_records(cluster, all_of("orders"))
    assert beyond.problems == ["orders-7 does not exist", "orders-0 ends at 1,502: no record has the offset 1,503"]
    assert nothing.problems == ["there is nothing to delete: orders has no record before these offsets"]
    assert compacted.problems == [
        "cleanup.policy of orders is compact: brokers delete records before an offset only where it has delete"
    ]


def test_failures_of_leaders_are_told(model: ModelCluster) -> None:
    fill(model)
    model.unserved = {DeleteRecordsRequest}
    with opened() as cluster:
        result = delete_records(cluster, of("orders", "0:3")).apply(cluster)
    assert result.failures == ["orders-0: the broker has no DeleteRecords: Kafka has it since 0.11"]


def test_many_partitions_have_one_sentence(model: ModelCluster) -> None:
    ModelChanges(model)
    model.topics["orders"] = [Log(end=1) for _ in range(21)]
    with opened() as cluster:
        assert delete_records(cluster, all_of("orders")).apply(cluster).done == ["Records of 21 partitions are deleted"]


@pytest.mark.parametrize("text", ["5", "0:", ":5", "0:-1", "a:5", "0:1:2", "0:last"])
def test_an_offset_has_a_shape(model: ModelCluster, text: str) -> None:
    fill(model)
    with opened() as cluster, pytest.raises(BadParameter, match="write partition:offset"):
        delete_records(cluster, of("orders", text))


def test_a_partition_is_named_once(model: ModelCluster) -> None:
    fill(model)
    with opened() as cluster, pytest.raises(BadParameter, match="two offsets of orders-0"):
        delete_records(cluster, of("orders", "0:5", "0:6"))


def test_a_choice_of_nothing_deletes_nothing(model: ModelCluster) -> None:
    fill(model)
    with opened() as cluster, pytest.raises(BadParameter, match="name an offset of a partition"):
        delete_records(cluster, Parameters([("topic", "orders"), ("all", "false")]))
