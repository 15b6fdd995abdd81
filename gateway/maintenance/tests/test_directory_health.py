"""A log directory whose disk is gone: said once, read from as long as it goes, and back without a restart."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.coordinator.internal_topic import partition_of
from headgate.gateway.maintenance.directory_health import MAX_WAIT_MS, PROBE_NAME, probe
from headgate.gateway.replication.replica import READ_UNCOMMITTED
from headgate.gateway.tests.builders import HandlerBroker, records
from headgate.gateway.tests.requests import commit_request
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from headgate.storage.disk.layout import Meta
from headgate.storage.tests.crashing_files import CrashingFiles, MemoryDirectory, MemoryFile

CHANGES = ("create", "write", "truncate", "sync", "sync_directory", "rename", "remove")


class TwoDisks(HandlerBroker):
    """A node with two log directories, on disks that fail."""

    def __init__(self) -> None:
        self.files = CrashingFiles()
        super().__init__(Path("/"), log_dirs="/a,/b")
        services = self.services
        services.metadata.create_topic("t", 4)
        self.upkeep = self.parts.maintenance
        self.upkeep.measure(services.metrics)
        for index in range(4):
            assert self.append(index) == index // 4

    def disk(self) -> CrashingFiles:
        return self.files

    def indexes(self, directory: str) -> list[int]:
        here = self.services.partitions
        return [one.index for one in here if one.topic == "t" and one.log.directory.startswith(f"/{directory}/")]

    def append(self, index: int) -> int | KafkaError:
        """The offset, or why not."""
        now_ms = self.time.clock.now_ms()
        try:
            partition = self.services.partitions.get("t", index)
            return partition.append(records(b"v", timestamp=now_ms), 1, now_ms).first_offset
        except KafkaError as error:
            return error

    def is_readable(self, index: int) -> bool:
        piece = self.services.partitions.get("t", index).read(0, 1000, READ_UNCOMMITTED, at_least_one=True)
        if piece is not None:
            piece.release()
        return piece is not None

    def commit(self, group: str) -> int:
        code: int = self.ask(commit_request(group, {0: 1}), 7).topics[0].partitions[0].error_code
        return code

    @property
    def meta(self) -> Meta:
        """The identity of the second directory."""
        return next(store.meta for store in self.log_manager if store.directory == "/b")

    def unmount(self) -> MemoryDirectory:
        """Have an empty directory in the place of the second one, which is returned."""
        disk = self.files.root.entries["b"]
        assert isinstance(disk, MemoryDirectory)
        self.mount(MemoryDirectory())
        return disk

    def mount(self, disk: MemoryDirectory) -> None:
        self.files.root.entries["b"] = self.files.root.durable["b"] = disk

    @property
    def offline(self) -> int:
        value = self.services.metrics.snapshot()["disk.offline.directories"]
        assert isinstance(value, int)
        return value

    def do_all(self) -> None:
        """What recurs."""
        for work in (self.upkeep.flush_due, self.upkeep.repair, self.upkeep.checkpoint, self.upkeep.expire):
            work()
        self.time.advance()


@pytest.fixture
def node() -> Iterator[TwoDisks]:
    made = TwoDisks()
    yield made
    made.files.heal()
    made.close()


def told(caplog: pytest.LogCaptureFixture, text: str) -> int:
    return sum(text in record.getMessage() for record in caplog.records)


def test_it_is_told_once_and_is_back_without_a_restart(node: TwoDisks, caplog: pytest.LogCaptureFixture) -> None:
    gone, other, back = node.indexes("b"), node.indexes("a"), list[tuple[str, bool]]()
    assert len(gone) == len(other) == 2
    log = node.services.partitions.get("t", gone[0]).log
    recovered = node.services.partitions.events.disk_recovered
    recovered.append(lambda directory: back.append((directory, log.sync_error is None)))
    node.files.fail(errno.EIO, *CHANGES, path="/b/")
    assert "refuses" in str(node.append(gone[0]))
    for index in gone:
        refused = node.append(index)
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert "/b is offline, as its disk takes nothing ([Errno 5]" in refused.message
        assert node.is_readable(index)
    assert node.offline == 1
    before = len(caplog.records)
    for _ in range(3):
        node.do_all()
        node.time.advance(1_000)
    assert len(caplog.records) == before, "nothing more is said"
    assert told(caplog, "is offline") == 1
    assert [node.append(index) for index in other] == [1, 1]
    rows: Any = node.ask(DescribeLogDirsRequest(topics=None), 4).results
    assert {row.log_dir: row.error_code for row in rows} == {"/a": 0, "/b": ErrorCode.KAFKA_STORAGE_ERROR}
    node.services.metadata.create_topic("new", 2)
    assert {node.services.partitions.get("new", index).log.directory for index in (0, 1)} == {"/a/new-0", "/a/new-1"}
    assert not back
    node.files.heal()
    node.time.advance(MAX_WAIT_MS)
    node.do_all()
    assert node.offline == 0
    assert (back[0], back[-1]) == (("/b", False), ("/b", True)), "and again when its logs are mended"
    assert told(caplog, "takes files again") == 1
    assert [node.append(index) for index in gone] == [1, 1]
    assert all(node.services.partitions.get("t", index).log.recovery_point >= 1 for index in gone), "they were mended"
    assert f"/b/{PROBE_NAME}" not in node.files.list("/b")


def test_an_error_of_one_file_takes_no_directory_offline(node: TwoDisks) -> None:
    (first, second) = node.indexes("b")
    path = node.services.partitions.get("t", first).log.segments.active.path
    node.files.fail(errno.EIO, *CHANGES, path=path)
    assert "refuses" in str(node.append(first))
    assert "refuses" in str(node.append(first))
    assert (node.offline, node.append(second)) == (0, 1)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
def test_a_full_disk_or_want_of_descriptors_is_no_lost_disk(node: TwoDisks, number: int) -> None:
    node.files.fail(number, *CHANGES, path="/b/")
    assert isinstance(node.append(node.indexes("b")[0]), KafkaError)
    probe(node.files, "/b", node.meta)
    assert node.offline == 0


def test_a_sync_that_fails_is_enough(node: TwoDisks) -> None:
    index = node.indexes("b")[0]
    replica = node.services.partitions.get("t", index)
    node.files.fail(errno.ENODEV, "sync", "sync_directory", path="/b/")
    replica.sync_soon()
    node.time.advance()
    assert replica.log.sync_error is not None
    assert node.offline == 1


def test_without_any_directory_the_broker_goes_on(node: TwoDisks, caplog: pytest.LogCaptureFixture) -> None:
    node.files.fail(errno.EROFS, *CHANGES)
    for index in range(4):
        assert isinstance(node.append(index), KafkaError)
    assert node.offline == 2
    assert told(caplog, "all log directories are offline") == 1
    assert all(node.is_readable(index) for index in range(4))
    node.files.heal()
    node.time.advance(MAX_WAIT_MS)
    node.do_all()
    assert (node.offline, [node.append(index) for index in range(4)]) == (0, [1] * 4)


def test_it_is_tried_ever_more_rarely(node: TwoDisks) -> None:
    node.files.fail(errno.EIO, *CHANGES, path="/b/")
    fault = node.files.fail(errno.EIO, "create", path=PROBE_NAME)
    node.append(node.indexes("b")[0])
    tried = []
    for second in range(200):
        met = node.files.faults[0].met
        node.time.advance(1_000)
        if node.files.faults[0].met > met:
            tried.append(second)
    assert tried == [0, 2, 6, 14, 30, 62, 122, 182]
    assert fault.met == 0, "the fault before it comes first"


def test_groups_in_it_are_refused_without_asking_the_disk(node: TwoDisks) -> None:
    node.services.groups.prepare()
    node.time.advance()
    count = len(node.services.metadata.image.topics["__consumer_offsets"].partitions)
    led = {partition_of(f"g{number}", count): f"g{number}" for number in range(50)}
    groups = {index: node.services.partitions.get("__consumer_offsets", index).log.directory for index in led}
    group = next(led[index] for index, directory in groups.items() if directory.startswith("/b/"))
    assert node.commit(group) == ErrorCode.NONE
    fault = node.files.fail(errno.EIO, *CHANGES, path="/b/")
    node.append(node.indexes("b")[0])
    met = fault.met
    assert [node.commit(group) for _ in range(2)] == [ErrorCode.NOT_COORDINATOR] * 2
    assert fault.met == met
    node.files.heal()
    node.time.advance(MAX_WAIT_MS)
    node.do_all()
    assert node.commit(group) == ErrorCode.NONE


def test_what_is_mounted_anew_is_used_and_not_what_was_there_before(node: TwoDisks) -> None:
    first, second = (node.services.partitions.get("t", index) for index in node.indexes("b"))
    node.files.fail(errno.EIO, *CHANGES, path="/b/")
    node.append(first.index)
    path = second.log.segments.active.path
    files, name = node.files.find(path.rpartition("/")[0]), path.rpartition("/")[2]
    assert isinstance(files, MemoryDirectory)
    mounted = MemoryFile()
    mounted.content[:] = mounted.durable[:] = node.files.read(path)
    files.entries[name] = files.durable[name] = mounted
    node.files.heal()
    node.time.advance(MAX_WAIT_MS)
    node.do_all()
    size = len(mounted.content)
    assert node.append(second.index) == 1
    assert len(mounted.content) > size


def test_where_the_disk_was_mounted_nothing_is_written(node: TwoDisks) -> None:
    gone = node.indexes("b")
    node.files.fail(errno.EIO, *CHANGES, path="/b/")
    node.append(gone[0])
    disk = node.unmount()
    node.files.heal()
    for _ in range(3):
        node.time.advance(MAX_WAIT_MS)
        node.do_all()
    node.services.metadata.create_topic("new", 2)
    assert (node.offline, node.files.list("/b")) == (1, {})
    node.mount(disk)
    node.time.advance(MAX_WAIT_MS)
    node.do_all()
    assert (node.offline, [node.append(index) for index in gone]) == (0, [1, 1])


def test_a_directory_without_its_disk_goes_offline_by_missing_files(node: TwoDisks) -> None:
    index = node.indexes("b")[0]
    node.services.partitions.get("t", index).log.close_files()
    disk = node.unmount()
    assert isinstance(node.append(index), KafkaError)
    assert "is the right disk mounted?" in str(node.append(index))
    assert (node.offline, node.files.list("/b")) == (1, {})
    node.mount(disk)
    node.time.advance(MAX_WAIT_MS)
    node.do_all()
    assert (node.offline, node.append(index)) == (0, 1)


def test_repeated_failures_of_a_file_try_the_disk_once_a_second(node: TwoDisks) -> None:
    index = node.indexes("b")[0]
    node.files.fail(errno.EIO, *CHANGES, path=node.services.partitions.get("t", index).log.segments.active.path)
    tried = node.files.delay(lambda: None, "create", path=PROBE_NAME)
    for _ in range(20):
        assert isinstance(node.append(index), KafkaError)
        node.time.advance(100)
    assert (tried.met, node.offline) == (2, 0)
