"""The logs of all replicas of a partition, compared as Kafka's DumpLogSegments shows them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from compat_tests.cluster.cluster import Cluster
from compat_tests.harness.apache_kafka import DUMP_LOG
from compat_tests.harness.broker import Broker
from compat_tests.harness.tool_jvm import tool_output

# A replica begins its segments where it was started, so positions and the names of files are its own
OWN: Final = re.compile(r" position: \d+")
HEADS: Final = ("Dumping ", "Log starting offset: ")


def segments(broker: Broker, topic: str, partition: int) -> list[Path]:
    return sorted(broker.partition_directory(topic, partition).glob("*.log"))


def content(broker: Broker, topic: str, partition: int) -> bytes:
    """All batches of a partition."""
    return b"".join(path.read_bytes() for path in segments(broker, topic, partition))


def dump(broker: Broker, topic: str, partition: int) -> list[str]:
    """Every batch and record of a partition: offsets, epochs, times, producers, sequences, checksums, keys, values."""
    files = ",".join(map(str, segments(broker, topic, partition)))
    lines = tool_output(DUMP_LOG, "--files", files, "--deep-iteration", "--print-data-log").splitlines()
    return [OWN.sub("", line) for line in lines if not line.startswith(HEADS)]


def assert_equal(cluster: Cluster, topic: str) -> int:
    """All replicas of all partitions have the same records in the same batches and epochs; the number of records.

    One dump stands for all replicas with the same bytes.
    """
    count = 0
    for partition, state in enumerate(cluster.states(topic)):
        leader, *others = (cluster.brokers[one] for one in state.replicas)
        first, bytes_of_first = dump(leader, topic, partition), content(leader, topic, partition)
        for broker_id, broker in zip(state.replicas[1:], others, strict=True):
            if content(broker, topic, partition) == bytes_of_first:
                continue
            other = dump(broker, topic, partition)
            differing = [lines for lines in zip(first, other, strict=False) if lines[0] != lines[1]]
            assert first == other, (
                f"{topic}-{partition}: broker {state.replicas[0]} has {len(first)} lines, {broker_id} {len(other)}; "
                f"first difference: {differing[:1]}; {cluster.directory}"
            )
        assert all("isvalid: true" in line for line in first if line.startswith("baseOffset"))
        count += sum(line.startswith("| offset") for line in first)
    return count
