"""Commit messages of tasks, and what a write refuses before it begins. Only where PySpark is installed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from headgate.protocol.records import batch
from headgate.spark.sink.marker import SinkRefused
from headgate.spark.sink.tasks import WriteTarget

writer = pytest.importorskip("headgate.spark.sink.writer")
pa.array([])  # imports pandas where it is installed: no test's own time

TARGET = WriteTarget("127.0.0.1:1", "t", {"t": 2}, 0, 1_000, 0, 1.0)
BROKER = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}
VALUE: Any = SimpleNamespace(fieldNames=lambda: ["value"])


def rows(count: int) -> Any:
    return pa.record_batch({"value": pa.array([b"x" * 100] * count)})


def test_a_task_hands_its_batches_to_the_driver() -> None:
    message = writer.encode_task(TARGET, [rows(20), rows(5)])
    assert sum(count for _, count, _ in message.batches) == 25
    assert {partition.number for partition, _, _ in message.batches} == {0, 1}
    assert all(len(list(batch.iterate(data))) == count for _, count, data in message.batches)


def test_more_than_the_driver_can_take_is_refused() -> None:
    with pytest.raises(SinkRefused, match=r"sink\.Sink"):
        writer.encode_task(TARGET, [rows(100)], max_bytes=5_000)


def test_a_stream_needs_a_name_and_its_checkpoint() -> None:
    with pytest.raises(SinkRefused, match="needs a name"):
        writer.stream_writer(BROKER, VALUE)
    with pytest.raises(SinkRefused, match="checkpointLocation"):
        writer.stream_writer(BROKER | {"queryName": "q"}, VALUE)


def test_a_batch_is_refused_for_its_options_and_columns() -> None:
    with pytest.raises(SinkRefused, match="no column `value`"):
        writer.batch_writer(BROKER, SimpleNamespace(fieldNames=lambda: ["key"]))
    with pytest.raises(SinkRefused, match="did you mean topic"):
        writer.batch_writer(BROKER | {"topc": "t"}, VALUE)


def test_tasks_of_equal_size_have_a_limit_together() -> None:
    """The driver takes 256 MB, whatever the number of tasks; a small task is never refused."""
    for count in (1, 2, 8, 40, 128):
        each = min(writer.task_bytes(number) for number in range(count))
        assert each * count <= writer.MAX_BYTES
    assert writer.task_bytes(0) == writer.task_bytes(7) == 32 << 20
    assert writer.task_bytes(39) == (256 << 20) // 40
    assert writer.task_bytes(10_000) == 2 << 20


def test_a_task_has_the_limit_of_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "task_bytes", lambda task: 1_000 if task == 3 else 1_000_000)
    writer.encode_task(TARGET, [rows(100)])
    monkeypatch.setattr(writer, "spark_task", lambda: SimpleNamespace(number=3))
    with pytest.raises(SinkRefused, match=r"^task 3 has more than"):
        writer.encode_task(TARGET, [rows(100)])
