"""A message is shown with its partition and sizes, and is written once, exactly as given."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.protocol.client.key_partitioner import partition_of_key
from headgate.protocol.messages.describe_configs import DescribeConfigsResourceResult
from headgate.protocol.messages.produce import ProduceRequest
from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record
from headgate.protocol.schema import Message
from headgate.tools.client.client import ClientError
from headgate.tools.console.changes.plan import ChangeLine, ChangePlan
from headgate.tools.console.changes.producing.produce import produce
from headgate.tools.console.messages import schema_options
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.tests.model_cluster import Log, ModelCluster, opened


@pytest.fixture
def logs(model: ModelCluster) -> list[Log]:
    """The partitions of the topic orders."""
    model.topics["orders"] = [Log(end=10), Log(leader=1, end=11), Log(leader=2, end=12)]
    configure(model)
    return model.topics["orders"]


def configure(model: ModelCluster, **values: str) -> None:
    """Set the configs of orders, such as `cleanup_policy`."""
    defaults = {"cleanup_policy": "delete", "max_message_bytes": "1048588"}
    rows = {name.replace("_", "."): value for name, value in {**defaults, **values}.items()}
    model.topic_configs["orders"] = [DescribeConfigsResourceResult(name=each, value=rows[each]) for each in rows]


def planned(**parameters: str) -> ChangePlan:
    with opened() as cluster:
        return produce(cluster, Parameters([("topic", "orders"), *parameters.items()]))


def written(log: Log) -> Record:
    [record] = batch.iterate(log.batches[-1])
    return record


def test_a_message_is_shown_and_written(logs: list[Log]) -> None:
    number = partition_of_key(b"ann", 3)
    plan = planned(
        key="ann", key_format="text", value='{"a": 1}', value_format="json", headers='[{"name": "h"}]', timestamp="77"
    )
    assert plan.summary == f"Write a message to orders-{number}: a key of 3 bytes, a value of 8 bytes, 1 header"
    assert plan.lines == [
        ChangeLine("partition", None, f"orders-{number}", "by the key, as Kafka's Java producer"),
        ChangeLine("key", None, "ann", "3 bytes"),
        ChangeLine("value", None, '{"a": 1}', "8 bytes"),
        ChangeLine("header h", None, "", "0 bytes: empty, and not null"),
        ChangeLine("timestamp", None, "77 ms", ""),
        ChangeLine("batch", None, "82 bytes", "max.message.bytes is 1,048,588"),
    ]
    assert (list(plan.problems), list(plan.warnings), plan.confirmation) == ([], [], "")
    with opened() as cluster:
        result = plan.apply(cluster)
    offset = 10 + number
    assert result.done == [f"Written to orders-{number} at offset {offset}"]
    search = {"start": "offset", "offset": f"{offset}", "partition": f"{number}", "at": f"{number}:{offset}"}
    assert result.details["link"] == ["/topics", "orders", "messages", search]
    assert written(logs[number]) == Record(offset, 77, b"ann", b'{"a": 1}', [("h", b"")])
    assert len(logs[number].batches[-1]) == 82


def test_the_digest_is_that_of_the_parameters(logs: list[Log]) -> None:
    first, again = planned(value="v", seed="1"), planned(value="v", seed="1")
    assert first.answer()["digest"] == again.answer()["digest"]
    logs[1].end += 5
    assert planned(value="v", seed="1").answer()["digest"] == first.answer()["digest"]
    assert planned(value="w", seed="1").answer()["digest"] != first.answer()["digest"]


def test_a_header_without_a_value_is_told_from_an_empty_one(logs: list[Log]) -> None:
    plan = planned(headers='[{"name": "h", "format": "null"}]')
    assert ChangeLine("header h", None, "null", "no value") in plan.lines


def test_the_log_gets_no_content(logs: list[Log]) -> None:
    plan = planned(key="ann@example", key_format="text", value="secret", headers='[{"name": "token", "value": "abc"}]')
    for content in ("ann", "secret", "token", "abc"):
        assert content not in plan.summary


@pytest.mark.parametrize("seed, number", [("0", 0), ("1", 2), ("2", 0)])
def test_without_key_a_seed_chooses_a_partition_with_a_leader(logs: list[Log], seed: str, number: int) -> None:
    logs[1].leader = -1
    plan = planned(value="v", seed=seed)
    assert plan.lines[0] == ChangeLine("partition", None, f"orders-{number}", "at random: there is no key")


def test_a_value_in_avro_is_shown_with_its_schema(logs: list[Log], tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text('"string"')
    schema_options.use(str(tmp_path), None)
    try:
        plan = planned(value='"ab"', value_format="avro", value_schema="7", partition="0")
        with opened() as cluster:
            plan.apply(cluster)
    finally:
        schema_options.use(None, None)
    assert ChangeLine("schema of the value", None, "7", "Avro") in plan.lines
    assert written(logs[0]).value == b"\x00\x00\x00\x00\x07\x04ab"


def test_a_given_partition_comes_before_the_key(logs: list[Log]) -> None:
    other = (partition_of_key(b"ann", 3) + 1) % 3
    plan = planned(key="ann", key_format="text", partition=str(other))
    assert plan.lines[0] == ChangeLine("partition", None, f"orders-{other}", "as given")
    with pytest.raises(BadParameter, match="orders has no partition 3: its partitions are 0 to 2"):
        planned(partition="3")


def test_a_partition_without_a_leader_is_a_problem(logs: list[Log]) -> None:
    logs[1].leader = -1
    [problem] = planned(partition="1").problems
    assert problem.startswith("orders-1 has no leader at the moment")


def test_a_compacted_topic_wants_a_key(model: ModelCluster, logs: list[Log]) -> None:
    configure(model, cleanup_policy="compact,delete")
    [problem] = planned(value="v").problems
    assert problem.startswith("orders is compacted: its broker refuses messages without a key")
    assert planned(key_format="text", value="v").problems == []


def test_a_tombstone_says_what_it_removes(model: ModelCluster, logs: list[Log]) -> None:
    configure(model, cleanup_policy="compact")
    plan = planned(key="ann", key_format="text", value_format="null")
    assert plan.summary.startswith("Write a tombstone to orders-")
    assert plan.lines[2] == ChangeLine("value", None, "null", "null, a tombstone")
    assert plan.warnings == ["without a value the message is a tombstone: compaction removes the key ann"]
    configure(model)
    [warning] = planned(key="ann", key_format="text", value_format="null").warnings
    assert warning.startswith("orders is not compacted")
    without_key = planned(value_format="null").lines[1]
    assert without_key == ChangeLine("key", None, "null", "null, the message has no key")


def test_a_message_beyond_the_topics_limit_is_a_problem(model: ModelCluster, logs: list[Log]) -> None:
    configure(model, max_message_bytes="1000")
    [problem] = planned(value="v" * 1000).problems
    assert problem == "the message has 1,070 bytes, and max.message.bytes of orders is 1,000"


def test_the_broker_may_set_the_time(model: ModelCluster, logs: list[Log]) -> None:
    configure(model, message_timestamp_type="LogAppendTime")
    assert ChangeLine("timestamp", None, "now", "the topic has LogAppendTime") in planned(value="v").lines


def test_unknown_configs_are_a_warning(model: ModelCluster, logs: list[Log]) -> None:
    del model.topic_configs["orders"]
    plan = planned(value="v")
    [warning] = plan.warnings
    assert warning.startswith("the configs of orders cannot be read")
    assert plan.problems == []


def test_an_internal_topic_is_confirmed_by_its_name(model: ModelCluster) -> None:
    model.topics["__consumer_offsets"] = [Log()]
    model.topic_configs["__consumer_offsets"] = []
    with opened() as cluster:
        plan = produce(cluster, Parameters([("topic", "__consumer_offsets"), ("value", "v")]))
    assert plan.confirmation == "__consumer_offsets"
    assert plan.warnings[0].startswith("__consumer_offsets belongs to the brokers")


def test_an_unknown_topic_is_named(model: ModelCluster) -> None:
    with pytest.raises(ClientError, match="there is no topic orders"):
        planned(value="v")


def test_an_open_outcome_is_no_success(model: ModelCluster, logs: list[Log]) -> None:
    def hang_up(node: int, request: object, version: int) -> Message | bytes | None:
        return b"" if isinstance(request, ProduceRequest) else None

    plan = planned(value="v", partition="1")
    model.disturb = hang_up
    with opened() as cluster:
        result = plan.apply(cluster)
    assert result.done == []
    [failure] = result.failures
    assert "the records may be written all the same" in failure


def test_a_topic_that_is_gone_meanwhile_is_refused(model: ModelCluster, logs: list[Log]) -> None:
    plan = planned(value="v", partition="1")
    del model.topics["orders"]
    with opened() as cluster, pytest.raises(ClientError, match="orders-1: there is no such topic"):
        plan.apply(cluster)
