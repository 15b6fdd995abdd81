"""Partitions are added after a warning about keys, never removed."""

from __future__ import annotations

from headgate.tools.console.changes.add_partitions import add_partitions
from headgate.tools.console.changes.plan import ChangeLine
from headgate.tools.console.parameters import Parameters
from headgate.tools.tests.model_cluster import Log, ModelCluster, opened
from headgate.tools.tests.model_topics import ModelChanges


def of(topic: str, partitions: int) -> Parameters:
    return Parameters([("topic", topic), ("partitions", str(partitions))])


def test_partitions_are_added(model: ModelCluster) -> None:
    ModelChanges(model)
    model.topics["orders"] = [Log(), Log(1)]
    with opened() as cluster:
        plan = add_partitions(cluster, of("orders", 5))
        assert plan.summary == "Add 3 partitions to the topic orders"
        assert plan.lines == [ChangeLine("partitions of orders", "2", "5")]
        assert plan.problems == []
        keys, forever = plan.warnings
        assert keys.startswith("Keys change their partition")
        assert forever.startswith("No broker removes partitions")
        assert len(model.topics["orders"]) == 2
        result = plan.apply(cluster)
    assert (result.done, result.failures) == (["The topic orders has 5 partitions"], ())
    assert len(model.topics["orders"]) == 5


def test_a_compacted_topic_has_a_warning_more(model: ModelCluster) -> None:
    ModelChanges(model).set[2, "orders"] = {"cleanup.policy": "compact,delete"}
    model.topics["orders"] = [Log()]
    with opened() as cluster:
        plan = add_partitions(cluster, of("orders", 2))
    assert plan.summary == "Add 1 partition to the topic orders"
    assert any("compacted" in warning for warning in plan.warnings)


def test_what_cannot_be_done_is_a_problem(model: ModelCluster) -> None:
    ModelChanges(model)
    model.topics["orders"], model.topics["__consumer_offsets"] = [Log(), Log()], [Log()]
    with opened() as cluster:
        fewer = add_partitions(cluster, of("orders", 2))
        many = add_partitions(cluster, of("orders", 101))
        internal = add_partitions(cluster, of("__consumer_offsets", 2))
        result = many.apply(cluster)
    assert fewer.problems == ["orders has 2 partitions already, and no broker removes any; choose more than 2"]
    assert fewer.summary == "Add partitions to the topic orders"
    assert many.problems == ["no more than 100 partitions (INVALID_PARTITIONS)"]
    assert "by the number of partitions" in internal.problems[0]
    assert result.failures == ["orders has no further partitions: no more than 100 partitions (INVALID_PARTITIONS)"]
