"""The record of a start: what it raises, that it is on the disk before anything is served, and a disk without room."""

from __future__ import annotations

import errno
import logging
from pathlib import Path
from random import Random

import pytest

from headgate.gateway.metadata.planning.leader_epochs import raise_leader_epochs
from headgate.gateway.metadata.registration import refill
from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler, ManualClock
from headgate.gateway.tests.builders import HandlerBroker, records
from headgate.protocol.errors import KafkaError
from headgate.protocol.internal.metadata import RegisterBrokerRecord, decode
from headgate.protocol.records.batch import iterate, split
from headgate.protocol.tests.examples import first_in_unit
from headgate.storage.disk.reserve import PART_BYTES, RESERVE_BYTES, Reserve
from headgate.storage.errors import StorageError
from headgate.storage.files import Files
from headgate.storage.tests.crashing_files import CrashingFiles, PowerCut

LOG = "/data/__headgate_metadata-0/00000000000000000000.log"
RESERVE = "/data/.headgate-reserve"


class CrashingNode(HandlerBroker):
    def __init__(self, files: CrashingFiles, **settings: str) -> None:
        self.files = files
        super().__init__(Path("/data"), **settings)

    def disk(self) -> Files:
        return self.files

    def crash(self, random: Random, *, power: bool = True) -> CrashingFiles:
        return self.files.crash(random, power=power)


def epoch_of(node: HandlerBroker, topic: str = "t", index: int = 0) -> int:
    epoch = node.services.metadata.image.topics[topic].partitions[index].leader_epoch
    assert node.services.partitions.get(topic, index).leader_epoch == epoch
    return epoch


def started(files: CrashingFiles) -> CrashingNode:
    node = CrashingNode(files)
    node.services.metadata.create_topic("t", 2)
    return node


def append(node: HandlerBroker, count: int, topic: str = "t") -> None:
    now_ms = node.time.clock.now_ms()
    for _ in range(count):
        node.services.partitions.get(topic, 0).append(records(b"v", timestamp=now_ms), 1, now_ms)


def test_every_start_raises_the_epoch_of_every_partition_by_one() -> None:
    node = started(CrashingFiles())
    assert epoch_of(node) == 0, "made after the start"
    for number in range(1, 4):
        node.restart()
        assert [epoch_of(node, index=index) for index in range(2)] == [number, number]
    node.services.metadata.create_topic("later", 1)
    assert epoch_of(node, "later") == 0


def test_the_record_is_kafkas_and_durable_before_anything_is_served() -> None:
    node = started(CrashingFiles())
    end_offset = node.services.metadata.end_offset
    node.close()
    after = CrashingNode(node.files.copy())
    durable = after.files.copy(only_durable=True)
    batches = bytes(durable.file(LOG).content)
    partition_epochs = CrashingNode(durable).services.metadata.image.topics["t"].partitions[0]
    assert (partition_epochs.leader_epoch, partition_epochs.partition_epoch) == (2, 2)
    *_, (_, last) = split(memoryview(batches))
    (record,) = iterate(last)
    assert record.offset == end_offset
    registration = decode(record.value or b"")
    assert isinstance(registration, RegisterBrokerRecord)
    assert (registration.broker_id, registration.broker_epoch, registration.fenced) == (0, end_offset, False)
    assert registration.incarnation_id != bytes(16)


@pytest.mark.slow
@pytest.mark.parametrize("seed", list(first_in_unit(range(6), 2)))
def test_a_served_epoch_is_above_all_before_wherever_a_start_is_cut(seed: int) -> None:
    """The power fails at any operation of a start, or after it; of what is not synced the disk keeps what it likes."""
    random = Random(seed)
    node = started(CrashingFiles())
    append(node, 5)
    files, served, cuts = node.crash(random), 0, 0
    for number in range(60):
        files.cut_after = number % 30 if random.random() < 0.8 else None
        try:
            node = CrashingNode(files)
            epoch = epoch_of(node)
        except PowerCut:
            cuts += 1
        else:
            assert epoch > served
            served = epoch
            files.cut_after = None
            append(node, random.randint(0, 3))
        files.cut_after = None
        files = files.crash(random, power=random.random() < 0.8)
    assert served > 10
    assert cuts > 10


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_start_that_cannot_be_recorded_fails_and_the_next_raises(operation: str) -> None:
    node = started(CrashingFiles())
    append(node, 1)
    files = node.crash(Random(0))
    files.fail(errno.EIO, operation, path=LOG)
    with pytest.raises(StorageError) as caught:
        CrashingNode(files)
    said = str(caught.value)
    assert "cannot be recorded in /data/__headgate_metadata-0" in said
    assert "start again" in said
    for power in (False, True):
        served = epoch_of(CrashingNode(files.crash(Random(1), power=power)))
        assert served in (1, 2), "what a failed sync has left may be there"


def test_a_full_disk_gives_up_a_part_of_the_reserve(caplog: pytest.LogCaptureFixture) -> None:
    node = started(CrashingFiles())
    append(node, 1)
    assert node.files.size(RESERVE) == RESERVE_BYTES
    files = node.crash(Random(0))
    files.room = 10
    with caplog.at_level(logging.WARNING):
        node = CrashingNode(files)
    assert epoch_of(node) == 1
    assert f"the disk is full: a part of {RESERVE} makes room" in caplog.text
    assert files.size(RESERVE) == RESERVE_BYTES - PART_BYTES
    assert epoch_of(CrashingNode(files.crash(Random(0), power=True))) == 2
    files.heal()
    node = CrashingNode(files.crash(Random(0), power=True))
    assert node.files.size(RESERVE) == RESERVE_BYTES, "there is plenty of room"


def test_a_full_disk_without_a_reserve_is_refused_with_what_to_do() -> None:
    node = started(CrashingFiles())
    append(node, 1)
    files = node.crash(Random(0), power=False)
    files.remove(RESERVE)
    files.room = 10
    with pytest.raises(StorageError, match=r"recorded in /data/__headgate_metadata-0: .*no space.* free some room"):
        CrashingNode(files)
    files.heal()
    assert epoch_of(CrashingNode(files.crash(Random(0), power=False))) == 1


def test_a_full_disk_without_a_reserve_starts_after_a_clean_stop(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing was lost, so that the history of the epoch goes on."""
    node = started(CrashingFiles())
    node.restart()
    append(node, 1)
    served = epoch_of(node)
    node.close()
    node.files.remove(RESERVE)
    node.files.room = 0
    again = CrashingNode(node.files)
    assert "stay as they are, since nothing was lost" in caplog.text
    assert epoch_of(again) == served
    files = again.crash(Random(0))
    files.heal()
    assert epoch_of(CrashingNode(files)) == served + 1


def test_a_broker_without_partitions_starts_on_a_full_disk() -> None:
    node = CrashingNode(CrashingFiles())
    files = node.crash(Random(0))
    files.remove(RESERVE)
    files.room = 0
    assert not CrashingNode(files).services.metadata.image.topics


def _raise(node: HandlerBroker) -> None:
    metadata = node.services.metadata
    metadata.submit(raise_leader_epochs(metadata.planned, {("t", 0): 0}))


def test_a_failed_change_leaves_the_epochs() -> None:
    node = started(CrashingFiles())
    node.files.fail(errno.EIO, "write", path=LOG, times=1)
    with pytest.raises(KafkaError):
        _raise(node)
    assert epoch_of(node) == 0
    _raise(node)
    assert [epoch_of(node, index=index) for index in range(2)] == [1, 0]


def test_when_there_is_room_again_the_reserve_is_filled_by_a_thread(caplog: pytest.LogCaptureFixture) -> None:
    files = CrashingFiles()
    started(files).close()
    reserve, scheduler = Reserve(files, "/data"), FakeScheduler(ManualClock())
    threads = scheduler.hold()
    assert reserve.give_up()
    refill(reserve, scheduler, "/other")
    assert not threads.waiting
    refill(reserve, scheduler, "/data")
    threads.run_one(OSError(errno.EIO, "input/output error"))
    assert "cannot be filled" in caplog.text
    refill(reserve, scheduler, "/data")
    threads.run_one()
    assert reserve.size == RESERVE_BYTES
