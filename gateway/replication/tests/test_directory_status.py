"""The state of a log directory."""

from headgate.gateway.metadata.image import CONSUMER_OFFSETS
from headgate.gateway.replication.append_queue import DiskMonitor
from headgate.gateway.replication.directory_status import DirectoryStatus
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.protocol.errors import ErrorCode, KafkaError

TIME = ManualTime()
DISK = DiskMonitor(TIME.clock, TIME.scheduler, lambda _: None)
FULL = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
GONE = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "gone")


def test_each_change_is_told_and_keeps_new_partitions_away() -> None:
    heard: list[tuple[bool, bool, bool, bool]] = []

    def changed(status: DirectoryStatus) -> None:
        heard.append((status.is_offline, status.is_full, status.is_hung, status.is_avoided))

    status = DirectoryStatus("/d", DISK, changed)
    assert not status.is_avoided
    status.set_offline(GONE)
    status.set_full(FULL)
    status.set_offline(None)
    status.set_full(None)
    status.set_hung(is_hung=True)
    status.set_hung(is_hung=False)
    assert heard == [
        (True, False, False, True),
        (True, True, False, True),
        (False, True, False, True),
        (False, False, False, False),
        (False, False, True, True),
        (False, False, False, False),
    ]


def test_a_full_disk_takes_the_brokers_writes_and_a_lost_one_none() -> None:
    status = DirectoryStatus("/d", DISK, lambda _: None)
    assert status.refusal("t") is None
    status.set_full(FULL)
    assert (status.refusal("t"), status.refusal(CONSUMER_OFFSETS)) == (FULL, None)
    status.set_offline(GONE)
    assert status.refusal("t") is status.refusal(CONSUMER_OFFSETS) is GONE


def test_a_disk_without_room_has_failed_for_a_cluster_alone() -> None:
    heard: list[bool] = []
    status = DirectoryStatus("/d", DISK, lambda status: heard.append(status.is_failed))
    status.set_full(FULL)
    status.set_exhausted(is_exhausted=True)
    assert status.refusal(CONSUMER_OFFSETS) is None, "the next write may fit"
    status.set_exhausted(is_exhausted=False)
    status.set_offline(GONE)
    status.set_offline(None)
    assert heard == [False, True, False, True, False]
