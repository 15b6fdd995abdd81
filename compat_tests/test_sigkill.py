"""SIGKILL in the middle of a load of idempotent producers: what was acknowledged is there, once and in order.

20 times, or HEADGATE_KILLS times; `make soak` raises it to 200. The flush policy is the default, so this is a killed
process, not a power cut: the page cache stays.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests import apache_kafka, toolchain
from compat_tests.broker import TARGET, Broker, HeadgateBroker, running
from compat_tests.conftest import new_topic
from compat_tests.families.confluent import Confluent
from compat_tests.families.family import FromStart
from compat_tests.load import Load
from compat_tests.records import Received, by_partition
from compat_tests.stored import Batch, assert_indexes_true, batches

KILLS = int(os.environ.get("HEADGATE_KILLS", "200" if os.environ.get("HEADGATE_SOAK") else "20"))
PRODUCERS, PARTITIONS = 3, 4
# Small segments, so that kills meet rolls; many index entries, so that there is something to compare
TOPIC = {"segment.bytes": "1048576"}
SETTINGS = {"log.index.interval.bytes": "1024"}

# How DumpLogSegments begins its lists of faults
DUMP_TOOL_FAULTS = ("Mismatches in", "mismatch in", "Non-consecutive", "out of order", "not found", "corrupt")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running(tmp_path / "killed", SETTINGS) as broker:
        yield broker


def test_nothing_acknowledged_is_lost_or_doubled(broker: Broker, tmp_path: Path, figure: Callable[[str], None]) -> None:
    name = new_topic(broker.bootstrap, PARTITIONS, TOPIC)
    ready_s: list[float] = []
    with Load(broker.bootstrap, name, PARTITIONS, PRODUCERS) as load:
        for number in range(KILLS):
            kill_in_mid_load(broker, load, random.Random(number), ready_s)
    load.assert_no_failure()
    broker.kill()
    ready_s.append(broker.start())
    count = sum(worker.acknowledged for worker in load.workers)
    figure(f"{KILLS} kills: {count} records acknowledged, ready again in at most {max(ready_s):.2f} s")

    for partition, records in read_all(broker, name).items():
        load.assert_stored(partition, [record.value or b"" for record in records])
        assert_sequences_whole(batches(broker.partition_directory(name, partition)))
    # What was written before a kill has its indexes from recovery: these are written as records come
    with Load(broker.bootstrap, name, PARTITIONS, PRODUCERS) as load:
        load.wait_for(15_000)
    broker.stop()
    assert_indexes(broker, name, tmp_path)


def kill_in_mid_load(broker: Broker, load: Load, chance: random.Random, ready_s: list[float]) -> None:
    """Let every producer get on, kill at a moment of chance, and start again."""
    load.wait_for(50)
    time.sleep(chance.uniform(0, 0.25))
    load.assert_no_failure()
    broker.kill()
    ready_s.append(broker.start())


def read_all(broker: Broker, name: str) -> dict[int, list[Received]]:
    ends = {
        partition: batches(broker.partition_directory(name, partition))[-1].last_offset + 1
        for partition in range(PARTITIONS)
    }
    return by_partition(Confluent().consume(broker.bootstrap, name, FromStart(), ends))


def assert_sequences_whole(found: list[Batch]) -> None:
    """The stored batches of each producer id follow each other without a gap; (id, epoch, sequence) are of KIP-98."""
    following: dict[tuple[int, int], int] = defaultdict(int)
    for batch in found:
        producer = batch.producer_id, batch.producer_epoch
        assert batch.base_sequence == following[producer], f"{batch} where sequence {following[producer]} is next"
        following[producer] += batch.records_count


def assert_indexes(broker: Broker, name: str, tmp_path: Path) -> None:
    """Index entries are true, Kafka's own tool finds no fault in them, and they are the same when rebuilt."""
    for partition in range(PARTITIONS):
        directory = broker.partition_directory(name, partition)
        assert assert_indexes_true(directory) > 0
        check_with_dump_tool(directory)
    if isinstance(broker, HeadgateBroker):
        rebuilt = rebuild(broker, tmp_path)
        for partition in range(PARTITIONS):
            assert_same_indexes(broker.partition_directory(name, partition), rebuilt / f"{name}-{partition}")


def check_with_dump_tool(directory: Path) -> None:
    toolchain.jars("broker")
    files = ",".join(
        str(path) for path in sorted(directory.iterdir()) if path.suffix in {".index", ".timeindex", ".log"}
    )
    said = apache_kafka.run_tool(apache_kafka.DUMP_LOG, "--files", files, "--verify-index-only")
    assert "Dumping" in said
    faults = [line for line in said.splitlines() if any(word in line for word in DUMP_TOOL_FAULTS)]
    assert not faults, faults[:5]


@pytest.mark.skipif(TARGET != "headgate", reason="it writes an entry a produce request, and rebuilds one a batch")
def test_a_topics_own_index_interval_holds_when_rebuilt(broker: Broker, tmp_path: Path) -> None:
    """Topic settings are known when an index is rebuilt, which is while the broker starts."""
    assert isinstance(broker, HeadgateBroker)
    name = new_topic(broker.bootstrap, PARTITIONS, {**TOPIC, "index.interval.bytes": "2048"})
    with Load(broker.bootstrap, name, PARTITIONS, PRODUCERS) as load:
        load.wait_for(3_000)
    broker.stop()
    rebuilt = rebuild(broker, tmp_path)
    for partition in range(PARTITIONS):
        assert_same_indexes(broker.partition_directory(name, partition), rebuilt / f"{name}-{partition}")


def rebuild(broker: HeadgateBroker, tmp_path: Path) -> Path:
    """Start a second broker on a copy of the data without any index, and stop it."""
    copy = tmp_path / "copy"
    shutil.copytree(broker.data, copy)
    for path in itertools.chain(copy.rglob("*.index"), copy.rglob("*.timeindex")):
        path.unlink()
    second = HeadgateBroker(tmp_path / "second", broker.settings, data=copy)
    second.start()
    second.stop()
    return copy


def assert_same_indexes(original: Path, rebuilt: Path) -> None:
    names = sorted(path.name for path in original.iterdir() if path.suffix in {".index", ".timeindex"})
    assert names == sorted(path.name for path in rebuilt.iterdir() if path.suffix in {".index", ".timeindex"})
    differing = [name for name in names if (original / name).read_bytes() != (rebuilt / name).read_bytes()]
    assert not differing, f"in {original} these are not as when rebuilt: {differing}"
