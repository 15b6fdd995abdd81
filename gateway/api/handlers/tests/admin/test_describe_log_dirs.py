"""DescribeLogDirs."""

from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from headgate.protocol.records.batch import Record, build


def sizes(response: Any) -> dict[tuple[str, int], int]:
    (directory,) = response.results
    rows = [(topic.name, row) for topic in directory.topics for row in topic.partitions]
    assert all((row.offset_lag, row.is_future_key) == (0, False) for _, row in rows)
    return {(name, row.partition_index): row.partition_size for name, row in rows}


@pytest.mark.parametrize("version", range(6))
def test_all_partitions_or_some(node: HandlerBroker, tmp_path: Path, version: int) -> None:
    node.services.metadata.create_topic("a", 2)
    node.services.metadata.create_topic("b", 1)
    batch = build([Record(0, 1_700_000_000_000, None, b"v", [])])
    node.services.partitions.get("a", 1).append(memoryview(batch), 1, node.time.clock.now_ms())
    everything = node.ask(DescribeLogDirsRequest(topics=None), version)
    assert sizes(everything) == {("a", 0): 0, ("a", 1): len(batch), ("b", 0): 0}
    assert everything.results[0].log_dir == str(tmp_path / "data")
    named = [DescribableLogDirTopic("a", [1, 7]), DescribableLogDirTopic("unknown", [0])]
    assert sizes(node.ask(DescribeLogDirsRequest(topics=named), version)) == {("a", 1): len(batch)}
