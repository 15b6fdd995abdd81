"""Checkpoints of Spark 4.2.0 with `spark.sql.streaming.offsetLog.formatVersion=2`, without checksums and state."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.protocol.spark.checkpoint import Checkpoint
from headgate.protocol.spark.checkpoint_files import Progress, parse_offsets
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.positions.checkpoint import read_checkpoint

WRITTEN = Path(__file__).with_name("spark_4_2")


def read(query: str) -> Checkpoint:
    return read_checkpoint(str(WRITTEN / query))


def offsets(topic: str, *ends: int) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, number): end for number, end in enumerate(ends)}


@pytest.mark.parametrize("query", sorted(one.name for one in WRITTEN.iterdir()))
def test_all_batches_are_of_version_2(query: str) -> None:
    for path in (WRITTEN / query / "offsets").iterdir():
        found = parse_offsets(path.read_text())
        assert (found.version, found.foreign()) == (2, [])
        assert found.planned_ms > 1_600_000_000_000


def test_two_sources_are_named_by_their_numbers() -> None:
    found = read("two_sources")
    assert found.progress == Progress(2, None)
    assert found.offsets == offsets("orders", 262, 258, 245, 235) | offsets("returns", 88, 90, 58, 64)
    assert set(parse_offsets((WRITTEN / "two_sources/offsets/2").read_text()).sources) == {"0", "1"}


def test_sources_with_names_of_their_own() -> None:
    found = read("named_sources")
    assert found.progress == Progress(2, None)
    assert found.offsets == offsets("orders", 262, 258, 245, 235) | offsets("returns", 176, 180, 116, 128)
    assert set(parse_offsets((WRITTEN / "named_sources/offsets/2").read_text()).sources) == {"orders", "returns"}


def test_a_query_with_state_whose_second_batch_failed() -> None:
    found = read("state_and_failed_batch")
    assert found.progress == Progress(0, 1)
    assert found.offsets == offsets("orders", 104, 103, 98, 94)
    assert found.planned == offsets("orders", 209, 206, 195, 187)


def test_the_format_headgate_notes_where_the_query_began() -> None:
    found = read("headgate_format")
    assert found.offsets == offsets("returns", 176, 180, 116, 128)
    first = parse_offsets((WRITTEN / "headgate_format/offsets/0").read_text())
    assert first.initial_positions() == {("returns", number): 0 for number in range(4)}


def test_named_sources_begin_at_their_noted_offsets(tmp_path: Path) -> None:
    """As if the first batch had failed."""
    for name in ("metadata", "offsets/0", "sources/orders/0", "sources/returns/0"):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((WRITTEN / "named_sources" / name).read_bytes())
    found = read_checkpoint(str(tmp_path))
    assert found.progress == Progress(None, 0)
    assert found.offsets == offsets("orders", 0, 0, 0, 0) | offsets("returns", 0, 0, 0, 0)
