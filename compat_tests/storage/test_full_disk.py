"""A disk that is full, and has room again: a real one. The broker goes on, and all that was acknowledged is there.

What producers are told, what goes on meanwhile, and that a start needs no room.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.harness.broker import TARGET, HeadgateBroker
from compat_tests.harness.steady import record_batch
from compat_tests.harness.waiting import until
from compat_tests.harness.wire import PRODUCE, ask, connect, string
from compat_tests.storage.small_disk import SmallDisk

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="Apache Kafka stops when its disk is full")

MIB = 1 << 20
DISK_BYTES = 24 * MIB
RECORD_BYTES = 100_000
STORAGE_ERROR = 56
LIMIT_S = 60.0


class BrokerOnSmallDisk(HeadgateBroker):
    """Headgate, with its data on a small disk."""

    def __init__(self, directory: Path, disk: SmallDisk, settings: dict[str, str]) -> None:
        super().__init__(directory, settings, disk.directory / "data")
        self.disk = disk

    def command(self) -> list[str]:
        return self.disk.enter(super().command())

    def says(self, text: str) -> int:
        """How many lines of the log have this in them."""
        return sum(text in line for line in self.error_lines())


class Log:
    """One topic, and what of it was acknowledged."""

    def __init__(self, broker: BrokerOnSmallDisk, topic: str) -> None:
        self.broker = broker
        self.topic = topic
        self.sent = 0
        self.acknowledged: dict[int, int] = {}
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        settings = {"segment.bytes": str(2 * MIB), "file.delete.delay.ms": "600000", "retention.ms": "-1"}
        self.admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(LIMIT_S)

    def produce(self) -> tuple[int, str]:
        """One record by Produce 8, the first version with a message: the error code and that."""
        self.sent += 1
        batch = record_batch(self.sent.to_bytes(4, "big") + bytes(RECORD_BYTES))
        body = struct.pack(">hhi", -1, -1, 10_000) + struct.pack(">i", 1) + string(self.topic)
        with connect(self.broker.bootstrap, 60) as stream:
            answer = ask(stream, PRODUCE, 8, body + struct.pack(">iii", 1, 0, len(batch)) + batch)
        at = 4 + 2 + len(self.topic) + 4
        _, code, offset = struct.unpack_from(">ihq", answer, at)
        at += struct.calcsize(">ihqqq") + 4
        (length,) = struct.unpack_from(">h", answer, at)
        if code == 0:
            self.acknowledged[offset] = self.sent
        return code, answer[at + 2 : at + 2 + max(length, 0)].decode()

    def produce_until_refused(self) -> str:
        for _ in range(2 * DISK_BYTES // RECORD_BYTES):
            code, message = self.produce()
            if code:
                assert code == STORAGE_ERROR, message
                return message
        raise AssertionError("nothing was refused")

    def is_taken(self) -> bool:
        return self.produce()[0] == 0

    def check(self) -> None:
        """All that was acknowledged is there, where it was said to be; and once."""
        consumer = self.consumer()
        try:
            first, end = consumer.get_watermark_offsets(TopicPartition(self.topic, 0), LIMIT_S)
            consumer.assign([TopicPartition(self.topic, 0, first)])
            found: dict[int, int] = {}
            while len(found) < end - first:
                message = consumer.poll(LIMIT_S)
                assert message is not None, f"{len(found)} of {end - first} records came"
                assert message.error() is None, message.error()
                offset, value = message.offset(), message.value()
                assert offset is not None
                assert value is not None
                found[offset] = int.from_bytes(value[:4], "big")
        finally:
            consumer.close()
        assert {offset: number for offset, number in found.items() if offset in self.acknowledged} == self.acknowledged
        assert len(set(found.values())) == len(found)

    def commit(self) -> None:
        """An offset, of a new group."""
        consumer = self.consumer()
        try:
            consumer.commit(offsets=[TopicPartition(self.topic, 0, 1)], asynchronous=False)
        finally:
            consumer.close()

    def can_commit(self) -> bool:
        try:
            self.commit()
        except KafkaException:
            return False
        return True

    def consumer(self) -> Consumer:
        return Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "g", "enable.auto.commit": False})


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    directory = tmp_path / "disk"
    directory.mkdir()
    if not shutil.which("unshare") or not shutil.which("nsenter"):
        pytest.skip("unshare and nsenter are not here")
    try:
        mounted = SmallDisk(directory, DISK_BYTES)
    except OSError as error:
        pytest.skip(str(error))
    with mounted:
        yield mounted


def test_producers_are_refused_before_a_disk_is_full(disk: SmallDisk, tmp_path: Path) -> None:
    broker = BrokerOnSmallDisk(tmp_path / "broker", disk, {"log.min.free.bytes": str(8 * MIB)})
    broker.start()
    try:
        old, new = Log(broker, "old"), Log(broker, "new")
        for _ in range(80):
            assert old.produce()[0] == 0
        disk.fill(leave=7 * MIB)
        until(lambda: broker.says("and producers are refused") > 0, "that the disk is nearly full", LIMIT_S)
        message = old.produce_until_refused()
        assert "is nearly full: less than log.min.free.bytes=8388608 bytes are free" in message
        assert disk.free() > 6 * MIB
        old.check()
        old.commit()
        extra = Log(broker, "extra")
        assert extra.produce()[0] == STORAGE_ERROR, "a topic can be made, but nothing be put into it"
        old.admin.delete_topics(["old"])["old"].result(LIMIT_S)
        until(new.is_taken, "records to be taken again, as the files of a deleted topic go at once", LIMIT_S)
        assert extra.is_taken()
        new.check()
        assert (
            broker.says("and producers are refused")
            == broker.says(f"{disk.directory}/data: producers are served again")
            == 1
        )
    finally:
        broker.stop()


def test_a_disk_without_a_byte(disk: SmallDisk, tmp_path: Path) -> None:
    broker = BrokerOnSmallDisk(tmp_path / "broker", disk, {"log.min.free.bytes": "0"})
    broker.start()
    try:
        log = Log(broker, "t")
        for _ in range(50):
            assert log.produce()[0] == 0
        disk.fill()
        message = log.produce_until_refused()
        assert "No space left on device" in message
        for end in (broker.kill, broker.stop, broker.kill):
            log.check()
            disk.fill()
            assert disk.free() == 0
            end()
            broker.start()
            until(lambda: log.produce()[0] == STORAGE_ERROR, "the partition to be there, and full", LIMIT_S)
        disk.clear()
        until(log.is_taken, "records to be taken again", LIMIT_S)
        for _ in range(50):
            assert log.produce()[0] == 0
        log.check()
        until(log.can_commit, "partitions of offsets that could not be made before", LIMIT_S)
        broker.restart()
        log.check()
    finally:
        broker.stop()
