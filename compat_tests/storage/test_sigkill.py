"""SIGKILL in the middle of a load of idempotent producers: what was acknowledged is there, once and in order.

6 times, or HEADGATE_KILLS times; `make soak` raises it to 200. The flush policy is the default, so this is a killed
process, not a power cut: the page cache stays. Of three topics one keeps everything, one deletes its oldest segments
all the time, one is compacted. After every kill a broker is started on a copy, and its indexes have to be what the
bytes of the logs make of them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

from compat_tests.families.confluent import new_consumer, received
from compat_tests.harness import apache_kafka, toolchain
from compat_tests.harness.broker import TARGET, Broker, HeadgateBroker, running
from compat_tests.harness.leaders import until_all_led
from compat_tests.harness.records import Received
from compat_tests.harness.soak import SOAK
from compat_tests.harness.stored import Batch, assert_indexes_rebuilt, assert_indexes_true, batches, compacted_to
from compat_tests.harness.tool_jvm import tool_output
from compat_tests.harness.topics import new_topic
from compat_tests.harness.waiting import until
from compat_tests.storage.load import Load

KILLS = int(os.environ.get("HEADGATE_KILLS", "200" if SOAK else "6"))
PRODUCERS, PARTITIONS = 3, 4
INTERVAL_BYTES = 1024
# Small segments, so that kills meet rolls; many index entries, so that there is something to compare
TOPIC = {"segment.bytes": "1048576" if TARGET == "kafka" else "131072"}
SETTINGS = {
    "log.index.interval.bytes": f"{INTERVAL_BYTES}",
    "log.retention.check.interval.ms": "100",
    "log.cleaner.backoff.ms": "100",
}
# A broker that is only to make indexes leaves the rest alone
IDLE = {"log.retention.check.interval.ms": "3600000", "log.cleaner.backoff.ms": "3600000"}
RETAINED = {**TOPIC, "retention.bytes": "262144"}
COMPACTED = {**TOPIC, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
KEYS = 200
# Other kills come while logs are opened, of which the longest is the last: it would never have its turn
EVERY_OPEN = 4
READ_LIMIT_S = 120.0
FILES_A_RUN = 600  # of the dump tool: a command line has a limit

# How DumpLogSegments begins its lists of faults
DUMP_TOOL_FAULTS = ("Mismatches in", "mismatch in", "Non-consecutive", "out of order", "not found", "corrupt")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running(tmp_path / "killed", SETTINGS) as broker:
        yield broker


class Loads:
    """The three topics and who writes to them."""

    def __init__(self, bootstrap: str) -> None:
        self.whole, self.retained, self.compacted = (
            new_topic(bootstrap, PARTITIONS, settings) for settings in (TOPIC, RETAINED, COMPACTED)
        )
        self.of_whole = Load(bootstrap, self.whole, PARTITIONS, PRODUCERS)
        self.of_retained = Load(bootstrap, self.retained, PARTITIONS, 1)
        self.of_compacted = Load(bootstrap, self.compacted, PARTITIONS, 1, KEYS)
        self.all = (self.of_whole, self.of_retained, self.of_compacted)
        self.topics = (self.whole, self.retained, self.compacted)

    @property
    def acknowledged(self) -> int:
        return sum(worker.acknowledged for load in self.all for worker in load.workers)

    def wait_for(self, count: int) -> None:
        for load in self.all:
            load.assert_no_failure()
            load.wait_for(count)


def test_nothing_acknowledged_is_lost_or_doubled(broker: Broker, tmp_path: Path, figure: Callable[[str], None]) -> None:
    loads = Loads(broker.bootstrap)
    ready_s: list[float] = []
    known: set[tuple[str, int]] = set()
    with contextlib.ExitStack() as stack:
        for load in loads.all:
            stack.enter_context(load)
        for number in range(KILLS):
            loads.wait_for(50)
            if number % EVERY_OPEN == 0:
                until_all_led(broker.bootstrap)
                for load in loads.all:
                    load.wait_for_each(20)
            time.sleep(random.Random(number).uniform(0, 0.25))
            loads.wait_for(0)
            broker.kill()
            check_a_copy(broker, loads.topics, tmp_path, known)
            ready_s.append(broker.start())
    loads.wait_for(0)
    broker.kill()
    ready_s.append(broker.start())
    figure(f"{KILLS} kills: {loads.acknowledged} records acknowledged, ready again in at most {max(ready_s):.2f} s")

    wait_for_cleanup(broker, loads)
    for partition, records in read_all(broker, loads.whole).items():
        loads.of_whole.assert_stored(partition, records)
        assert_sequences_whole(batches(broker.partition_directory(loads.whole, partition)))
    for partition, records in read_all(broker, loads.retained).items():
        assert records[0].offset > 0, "nothing was deleted"
        loads.of_retained.assert_stored(partition, records, records[0].offset)
    for partition, records in read_all(broker, loads.compacted).items():
        assert len(records) < records[-1].offset, "nothing was compacted"
        loads.of_compacted.assert_compacted(partition, records)
    write_more(broker, loads.topics)
    broker.stop()
    assert_indexes(broker, loads.topics, tmp_path)


def wait_for_cleanup(broker: Broker, loads: Loads) -> None:
    """Until each partition has lost its first segment, or was compacted: a busy broker is late with both."""
    for partition in range(PARTITIONS):
        first = broker.partition_directory(loads.retained, partition) / f"{0:020d}.log"
        until(lambda: not first.exists(), f"{first} to be deleted")  # noqa: B023
        until(
            lambda: compacted_to(broker.data, loads.compacted, partition) > 0,  # noqa: B023
            f"a compaction of {loads.compacted}-{partition}",
        )


def write_more(broker: Broker, topics: Iterable[str]) -> None:
    """What was written before a kill has its indexes from recovery: these are written as records come."""
    for name in topics:
        with Load(broker.bootstrap, name, PARTITIONS, PRODUCERS, KEYS) as load:
            load.wait_for(5_000 if SOAK else 2_000)


def check_a_copy(broker: Broker, topics: Iterable[str], tmp_path: Path, known: set[tuple[str, int]]) -> None:
    """What a start makes of the files as they are: a clean stop after it leaves the indexes that belong to them."""
    if isinstance(broker, HeadgateBroker):
        copy = tmp_path / "after-a-kill"
        shutil.copytree(broker.data, copy)
        start_and_stop(broker, copy, tmp_path / "second")
        for name, partition in itertools.product(topics, range(PARTITIONS)):
            assert_indexes_rebuilt(copy / f"{name}-{partition}", INTERVAL_BYTES, known)
        shutil.rmtree(copy)


def start_and_stop(broker: HeadgateBroker, data: Path, directory: Path) -> None:
    second = HeadgateBroker(directory, {**broker.settings, **IDLE}, data=data)
    second.start()
    until_all_led(second.bootstrap)  # partitions open one by one; one that is not open yet is left as it is
    second.stop()


def read_all(broker: Broker, name: str) -> dict[int, list[Received]]:
    """Everything that is there, from the start to the end, whatever is deleted or compacted meanwhile."""
    consumer = new_consumer(broker.bootstrap, {"enable.partition.eof": True, "auto.offset.reset": "earliest"})
    found: dict[int, list[Received]] = {partition: [] for partition in range(PARTITIONS)}
    unfinished = set(found)
    consumer.assign([TopicPartition(name, partition, OFFSET_BEGINNING) for partition in found])
    give_up_at = time.monotonic() + READ_LIMIT_S
    while unfinished:
        assert time.monotonic() < give_up_at, f"partitions {unfinished} of {name} have no end"
        for message in consumer.consume(1000, 0.1):
            error, partition = message.error(), message.partition()
            assert partition is not None
            if error is None:
                found[partition].append(received(message))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error  # noqa: SLF001  its documented name
                unfinished.discard(partition)
    consumer.close()
    return found


def assert_sequences_whole(found: list[Batch]) -> None:
    """The stored batches of each producer id follow each other without a gap; (id, epoch, sequence) are of KIP-98."""
    following: dict[tuple[int, int], int] = defaultdict(int)
    for batch in found:
        producer = batch.producer_id, batch.producer_epoch
        assert batch.base_sequence == following[producer], f"{batch} where sequence {following[producer]} is next"
        following[producer] += batch.records_count


def assert_indexes(broker: Broker, topics: Iterable[str], tmp_path: Path) -> None:
    """Index entries are true, Kafka's own tool finds no fault in them, and they are the same when rebuilt."""
    of_all = [broker.partition_directory(name, partition) for name in topics for partition in range(PARTITIONS)]
    for directory in of_all:
        assert assert_indexes_true(directory) > 0
    check_with_dump_tool(of_all)
    if isinstance(broker, HeadgateBroker):
        rebuilt = rebuild(broker, tmp_path)
        for directory in of_all:
            assert_same_indexes(directory, rebuilt / directory.name)


def check_with_dump_tool(directories: Iterable[Path]) -> None:
    toolchain.jars("broker")
    paths = [path for directory in directories for path in sorted(directory.iterdir())]
    wanted = [str(path) for path in paths if path.suffix in {".index", ".timeindex", ".log"}]
    for first in range(0, len(wanted), FILES_A_RUN):
        check_files_with_dump_tool(",".join(wanted[first : first + FILES_A_RUN]))


def check_files_with_dump_tool(files: str) -> None:
    said = tool_output(apache_kafka.DUMP_LOG, "--files", files, "--verify-index-only")
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
    start_and_stop(broker, copy, tmp_path / "second")
    return copy


def assert_same_indexes(original: Path, rebuilt: Path) -> None:
    names = sorted(path.name for path in original.iterdir() if path.suffix in {".index", ".timeindex"})
    assert names == sorted(path.name for path in rebuilt.iterdir() if path.suffix in {".index", ".timeindex"})
    differing = [name for name in names if (original / name).read_bytes() != (rebuilt / name).read_bytes()]
    assert not differing, f"in {original} these are not as when rebuilt: {differing}"
