"""The reader as a whole: bounds of brokers that run, were killed or are gone, and a broker beside it."""

from __future__ import annotations

import os
import pickle
import tracemalloc
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from headgate.protocol.records.batch import Record, build
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.file_reader import FileReader
from headgate.spark.reading.log_reader import (
    Bounds,
    FetchedBatches,
    IsolationLevel,
    LogUnavailable,
    OffsetRange,
    TopicDescription,
    TopicReader,
)
from headgate.spark.reading.tests.logs import PARTITION, fill, new_store, transact
from headgate.spark.reading.tests.simulated_disk import SimulatedDisk, records
from headgate.storage.config import LogConfig
from headgate.storage.log import appending
from headgate.storage.log.validation import BROKER
from headgate.storage.tests.builders import append_own, marker, transactional
from headgate.storage.tests.crashing_files import CrashingFiles
from headgate.tools.log import data_directory
from headgate.tools.tests.log_data import NOW_MS, TOPIC_ID, Data

COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
MIB = 1 << 20


def reader(files: CrashingFiles) -> FileReader:
    return FileReader(["/data"], disk=SimulatedDisk(files), sleep=lambda _: None)


def bounds(found: TopicReader, isolation: IsolationLevel = UNCOMMITTED) -> Bounds:
    return found.bounds([PARTITION], isolation)[PARTITION]


def read(found: TopicReader, isolation: IsolationLevel = UNCOMMITTED) -> list[Record]:
    wanted = OffsetRange(PARTITION, *bounds(found, isolation))
    return records(found.read(wanted, isolation), wanted)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_real_directory_is_read(tmp_path: Path, is_clean: bool) -> None:
    with Data(tmp_path / "data", is_clean=is_clean) as data:
        data.fill()
    found = FileReader([str(data.path)])
    assert found.topics() == {"t": TopicDescription("t", TOPIC_ID, [0])}
    assert bounds(found) == Bounds(0, 80)
    assert [record.offset for record in read(found)] == [*range(80)]
    times = {PARTITION: NOW_MS + 5}
    assert found.offsets_for_times(times) == {PARTITION: 10}
    assert found.offsets_for_times({PARTITION: NOW_MS + 40}) == {PARTITION: None}
    found.close()


def test_a_directory_that_may_only_be_read_is_read(tmp_path: Path) -> None:
    with Data(tmp_path / "data", is_clean=False) as data:
        data.fill()
    for path in tmp_path.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    found = FileReader([str(data.path)])
    assert len(read(found)) == 80
    for path in tmp_path.rglob("*"):
        path.chmod(0o755)


def test_the_start_of_the_log_is_that_of_the_checkpoint() -> None:
    files, store, log = new_store()
    fill(log)
    log.advance_start(7)
    assert bounds(reader(files)).start_offset == 0
    store.checkpoint({})
    assert bounds(reader(files)).start_offset == 7
    assert read(reader(files))[0].offset == 7


def test_an_open_transaction_holds_up_committed_reads() -> None:
    files, store, log = new_store()
    transact(log)
    first = log.end_offset
    append_own(log, transactional(0, 2, producer_id=99))
    log.producers.replicated(log.end_offset)
    assert log.stable_offset < first
    for _ in range(2):
        assert bounds(reader(files)) == Bounds(0, log.end_offset)
        assert bounds(reader(files), COMMITTED) == Bounds(0, log.stable_offset)
        assert len(read(reader(files), COMMITTED)) < len(read(reader(files)))
        store.close()


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_directory, "lock_holder", lambda path: 4711)


class KafkasDisk(SimulatedDisk):
    """A disk without Headgate's metadata log."""

    def exists(self, path: str) -> bool:
        return self.files.exists(path)


@pytest.mark.usefixtures("running")
def test_a_running_kafka_is_read_up_to_its_checkpoint() -> None:
    files, store, log = new_store()
    fill(log)
    store.checkpoint({PARTITION: 31})
    kafka = FileReader(["/data"], disk=KafkasDisk(files))
    assert bounds(kafka) == Bounds(0, 31)
    assert [record.offset for record in read(kafka)] == [*range(31)]
    assert kafka.offsets_for_times({PARTITION: 1020}) == {PARTITION: None}
    assert bounds(reader(files)) == Bounds(0, 60)


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("disk", [KafkasDisk, SimulatedDisk])
def test_the_index_of_a_running_brokers_last_segment_is_not_believed(disk: type[SimulatedDisk]) -> None:
    """Headgate writes it at the roll; with ZooKeeper its directories look like Kafka's."""
    files, store, log = new_store()
    append_own(log, transactional(0, 2), marker(is_commit=False))
    store.checkpoint({PARTITION: log.end_offset})
    assert not files.exists(log.segments.active.path.replace(".log", ".txnindex"))
    assert read(FileReader(["/data"], disk=disk(files)), COMMITTED) == []


class Beside(TopicReader):
    """A broker's answers; it may be unreachable."""

    def __init__(self, *, is_there: bool = True) -> None:
        self.is_there = is_there
        self.is_closed = False

    def topics(self) -> Mapping[str, TopicDescription]:
        self.check()
        return {"b": TopicDescription("b", None, [0])}

    def bounds(
        self, partitions: Iterable[TopicPartition], isolation: IsolationLevel
    ) -> Mapping[TopicPartition, Bounds]:
        self.check()
        return dict.fromkeys(partitions, Bounds(4, 8))

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | None]:
        self.check()
        return dict.fromkeys(times, 5)

    def read(self, wanted: OffsetRange, isolation: IsolationLevel) -> Iterator[FetchedBatches]:
        raise AssertionError("batches come from the files")

    def close(self) -> None:
        self.is_closed = True

    def check(self) -> None:
        if not self.is_there:
            raise LogUnavailable("no broker answers")


def test_a_broker_beside_has_the_offsets() -> None:
    files, _, log = new_store()
    fill(log)
    broker = Beside()
    found = FileReader(["/data"], broker=broker, disk=SimulatedDisk(files))
    assert list(found.topics()) == ["b"]
    assert [record.offset for record in read(found)] == [4, 5, 6, 7]
    assert found.offsets_for_times({PARTITION: 0}) == {PARTITION: 5}
    found.close()
    assert broker.is_closed


def test_without_an_answer_the_files_have_the_offsets() -> None:
    files, _, log = new_store()
    fill(log)
    found = FileReader(["/data"], broker=Beside(is_there=False), disk=SimulatedDisk(files))
    assert list(found.topics()) == ["t"]
    assert bounds(found) == Bounds(0, 60)
    assert found.offsets_for_times({PARTITION: 1003}) == {PARTITION: 6}


@pytest.mark.usefixtures("running")
def test_a_running_broker_that_does_not_answer_is_an_error() -> None:
    files, _, log = new_store()
    fill(log)
    found = FileReader(["/data"], broker=Beside(is_there=False), disk=SimulatedDisk(files))
    for ask in (found.topics, lambda: bounds(found), lambda: found.offsets_for_times({PARTITION: 0})):
        with pytest.raises(LogUnavailable, match="no broker answers"):
            ask()


def test_another_topic_of_the_name_is_refused() -> None:
    files, _, log = new_store()
    fill(log)
    found = FileReader(["/data"], topic_ids={"t": bytes(16)}, disk=SimulatedDisk(files))
    with pytest.raises(LogUnavailable, match="deleted and created again"):
        next(found.read(OffsetRange(PARTITION, 0, 1), UNCOMMITTED))


def test_a_reader_may_be_sent_to_a_task(tmp_path: Path) -> None:
    with Data(tmp_path / "data") as data:
        data.fill()
    found = pickle.loads(pickle.dumps(FileReader([str(data.path)])))
    assert len(read(found)) == 80


def test_no_segment_is_loaded_whole(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=64 * MIB)
    with Data(tmp_path / "data", config, is_clean=False) as data:
        log = data.log()
        made = build([Record(timestamp=NOW_MS, value=os.urandom(MIB // 2))])
        for _ in range(48):
            appending.append(log, memoryview(bytearray(made)), leader_epoch=0, now_ms=NOW_MS, origin=BROKER)
    tracemalloc.start()
    found = FileReader([str(data.path)], piece_bytes=MIB)
    whole = OffsetRange(PARTITION, *bounds(found))
    size = sum(len(piece.batches) for piece in found.read(whole, UNCOMMITTED))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size > 24 * MIB
    assert peak_bytes < 4 * MIB
