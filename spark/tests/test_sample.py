"""Orders are the same for a seed; each partition's go to its leader, and a failure ends the command."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from headgate.protocol.client.failure import Failure
from headgate.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headgate.protocol.records import batch
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.sample import PARTITIONS, count_partitions, main, orders, produce

NOW_MS = 1_700_000_000_000


class FakeCluster:
    """Answers Produce for all partitions by one leader, and keeps the records."""

    def __init__(self, error_code: int = 0) -> None:
        self.error_code = error_code
        self.values: list[tuple[int, bytes | None]] = []

    def ask_leaders(self, partitions: Iterable[TopicPartition], ask: Callable[..., Any]) -> tuple[dict[Any, Any], ...]:
        answers = dict(ask(self, list(partitions)))
        failed = {one: answer for one, answer in answers.items() if isinstance(answer, Failure)}
        return answers, failed

    def version(self, cls: type, newest: int, oldest: int) -> int:
        return newest

    def ask(self, request: Any, version: int) -> Any:
        (topic,) = request.topic_data
        for one in topic.partition_data:
            found = batch.iterate(one.records)
            self.values += [(one.index, record.value) for record in found]
        return request.error_response(version, self.error_code, "refused") if self.error_code else _Accepted()


class _Accepted:
    responses = ()


def test_the_same_seed_makes_the_same_orders() -> None:
    made = list(orders(500, 7, NOW_MS))
    assert made == list(orders(500, 7, NOW_MS))
    assert made != list(orders(500, 8, NOW_MS))
    assert made[-1][1].timestamp == NOW_MS
    partitions = {record.key: partition for partition, record in made}
    assert all(partitions[record.key] == partition for partition, record in made), "a customer is in one partition"
    assert set(partitions.values()) == set(range(PARTITIONS))
    assert set(json.loads(made[0][1].value or b"")) == {"order", "customer", "item", "amount", "state"}


@pytest.mark.parametrize("existing, expected", [(3, 3), (0, PARTITIONS)])
def test_a_topic_that_exists_keeps_its_partitions(existing: int, expected: int) -> None:
    partitions = [MetadataResponsePartition(partition_index=number) for number in range(existing)]
    cluster: Any = FakeCluster()
    cluster.refresh = lambda names: MetadataResponse(
        topics=[MetadataResponseTopic(name=name, partitions=partitions) for name in names]
    )
    assert count_partitions(cluster, "orders") == expected
    made = orders(100, 1, NOW_MS, expected)
    assert {partition for partition, _ in made} == set(range(expected))


def test_all_orders_are_sent_in_order() -> None:
    cluster: Any = FakeCluster()
    made = list(orders(250, 1, NOW_MS))
    assert produce(cluster, "orders", made, 100) == []
    for number in range(PARTITIONS):
        sent = [value for partition, value in cluster.values if partition == number]
        assert sent == [record.value for partition, record in made if partition == number]
    assert len(cluster.values) == 250


def test_a_refused_batch_ends_it() -> None:
    cluster: Any = FakeCluster(error_code=29)
    failures = produce(cluster, "orders", orders(250, 1, NOW_MS), 100)
    assert len(failures) == PARTITIONS
    assert "TOPIC_AUTHORIZATION_FAILED" in failures[0]
    assert len(cluster.values) == 100


@pytest.mark.slow
def test_the_first_rows_of_a_load_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = [json.loads(record.value or b"") for _, record in orders(30, 1, NOW_MS)]
    columns = {
        "partition": pa.array([2] * 31, pa.int32()),
        "offset": pa.array(range(31)),
        "timestamp": pa.array([NOW_MS * 1000] * 31, pa.timestamp("us", tz="UTC")),
        "value": pa.array([None, *values]),
    }
    parquet.write_table(pa.table(columns), tmp_path / "part-orders.parquet")
    (tmp_path / "_headgate").mkdir()
    (tmp_path / "_headgate" / "latest").write_text("1")
    assert main(["--show", str(tmp_path), "--json"]) == 0
    shown = capsys.readouterr()
    rows = [json.loads(line) for line in shown.out.splitlines()]
    place = {"partition": 2, "offset": 1, "timestamp": "2023-11-14 22:13:20"}
    assert rows[0] == place | values[0], "a tombstone is no order"
    assert [row["order"] for row in rows] == list(range(10))
    assert "the first 10 of 31 rows" in shown.err
    assert main(["--show", str(tmp_path / "none")]) == 1


@pytest.mark.sockets
def test_no_broker_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--bootstrap-server", "127.0.0.1:1", "--count", "1"]) == 1
    assert "no broker answers" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--count", "none"])
