"""Gathered appends: one write for many batches, and nothing of them left if it fails."""

import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import CRC_START, HEADER, BatchHeader, Record, build, iterate, read_header, split
from headgate.protocol.steps import finish
from headgate.storage.config import LogConfig
from headgate.storage.disk.pool import Pool
from headgate.storage.files import File, Files
from headgate.storage.log import appending, closing, flushing, rolling, validation
from headgate.storage.log.log import Log
from headgate.storage.log.pending_write import MAX_STAGED_BYTES, PendingWrite
from headgate.storage.log.producers import Producer, Producers
from headgate.storage.log.validation import BROKER, CLIENT, BatchOrigin
from headgate.storage.recovery.recovery_input import RecoveryInput
from headgate.storage.recovery.recovery_steps import open_log_steps
from headgate.storage.segment.segment import Segment

NOW_MS = 1_700_000_000_000
GATHER = 4096


class CountedFile(File):
    """Counts its writes, and fails the next one if told to."""

    __slots__ = ()
    writes = 0
    fails = False

    def write_at(self, data: memoryview | bytearray | bytes, position: int) -> None:
        CountedFile.writes += 1
        if CountedFile.fails:
            CountedFile.fails = False
            super().write_at(memoryview(data)[: len(data) // 2], position)
            raise OSError(28, "No space left on device")
        super().write_at(data, position)


class CountedFiles(Files):
    def open(self, path: str, *, create: bool = False) -> File:
        opened = super().open(path, create=create)
        counted = CountedFile(opened.fileno)
        opened.references = 0  # the descriptor is the other's now
        return counted


@pytest.fixture
def log(tmp_path: Path) -> Log:
    CountedFile.writes, CountedFile.fails = 0, False
    pool = Pool(CountedFiles())
    made = Log(
        pool, str(tmp_path), "t", 0, None, LogConfig(), [Segment.create(pool, str(tmp_path), 0, NOW_MS)], Random(0)
    )
    appending.append(made, batch(b"first"), leader_epoch=1, now_ms=NOW_MS)
    CountedFile.writes = 0
    return made


def batch(*values: bytes, timestamp: int = NOW_MS, **numbers: Any) -> memoryview:
    return memoryview(build([Record(timestamp=timestamp, value=value) for value in values], **numbers))


def stage(log: Log, data: memoryview, now_ms: int = NOW_MS, leader_epoch: int = 1, origin: BatchOrigin = CLIENT) -> Any:
    return appending.stage(log, data, leader_epoch, now_ms, GATHER, origin=origin)


def content(log: Log) -> list[tuple[int, bytes | None]]:
    """Offset and value of every record, as a consumer would read them."""
    piece = log.read(log.start_offset, 1 << 30, log.end_offset, at_least_one=True)
    if piece is None:
        return []
    data = memoryview(piece.read())
    piece.release()
    position, found = 0, []
    while position < len(data):
        header = read_header(data, position)
        part = data[position : position + header.size]
        found += [(record.offset, record.value) for record in iterate(part)]
        position += header.size
    return found


def test_many_small_batches_are_one_write(log: Log) -> None:
    for number in range(100):
        assert stage(log, batch(b"%d" % number)).first_offset == 1 + number
    assert CountedFile.writes == 0
    appending.write_staged(log)
    assert CountedFile.writes == 1
    assert content(log) == [(0, b"first"), *((1 + number, b"%d" % number) for number in range(100))]


@pytest.mark.parametrize("kind", ["times of the log", "several batches"])
def test_what_has_to_be_looked_at_closely_is_written_together_too(log: Log, kind: str) -> None:
    if kind == "times of the log":
        log.configure(replace(log.config, message_timestamp_type="LogAppendTime"))
    data = [batch(b"%d" % number) for number in range(20)]
    if kind == "several batches":
        data = [memoryview(bytearray().join(data[at : at + 4])) for at in range(0, 20, 4)]
    for part in data:
        stage(log, part, origin=BROKER)
    appending.write_staged(log)
    assert CountedFile.writes == 1
    assert content(log) == [(0, b"first"), *((1 + number, b"%d" % number) for number in range(20))]


def test_what_is_staged_is_a_copy(log: Log) -> None:
    data = batch(b"once")
    stage(log, data)
    data[:] = b"\xdd" * len(data)
    appending.write_staged(log)
    assert content(log)[-1] == (1, b"once")


def test_without_anything_staged_nothing_is_written(log: Log) -> None:
    appending.write_staged(log)
    assert CountedFile.writes == 0


def test_a_failed_write_takes_everything_back(log: Log) -> None:
    stage(log, batch(b"kept", producer_id=7, producer_epoch=0, base_sequence=0))
    appending.write_staged(log)
    before = (log.end_offset, log.segments.size, log.segments[-1].max_timestamp, log.producers.by_id[7].copy())
    CountedFile.fails = True
    stage(log, batch(b"lost", timestamp=NOW_MS + 5, producer_id=7, producer_epoch=0, base_sequence=1))
    stage(log, batch(b"lost too", producer_id=8, producer_epoch=0, base_sequence=0))
    staged = log.staged
    assert staged is not None
    with pytest.raises(KafkaError) as caught:
        appending.write_staged(log)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert staged.error is not None
    assert (str(staged.error), staged.error.__traceback__) == (str(caught.value), None)
    assert (log.end_offset, log.segments.size, log.segments[-1].max_timestamp, log.producers.by_id[7]) == before
    assert 8 not in log.producers.by_id
    assert stage(log, batch(b"again", producer_id=7, producer_epoch=0, base_sequence=1)).first_offset == 2
    appending.write_staged(log)
    assert content(log) == [(0, b"first"), (1, b"kept"), (2, b"again")]


def test_the_error_of_a_failed_write_holds_no_batches(log: Log) -> None:
    CountedFile.fails = True
    stage(log, batch(b"lost"))
    with pytest.raises(KafkaError) as caught:
        appending.write_staged(log)
    cause = caught.value.__cause__
    assert isinstance(cause, OSError)
    frames = [frame for frame, _ in traceback.walk_tb(cause.__traceback__)]
    assert frames, "the log may show the lines"
    assert [frame.f_locals for frame in frames] == [{}] * len(frames)


def test_a_threads_write_stays_when_the_file_is_closed_and_reopened(tmp_path: Path) -> None:
    """Other logs need the descriptor, a consumer opens the file again, and only then the loop hears of the write."""
    pool = Pool(Files(), max_open_segments=1)
    logs = []
    for name in ("written", "other"):
        directory = tmp_path / name
        directory.mkdir()
        segments = [Segment.create(pool, str(directory), 0, NOW_MS)]
        logs.append(Log(pool, str(directory), name, 0, None, LogConfig(), segments, Random(0)))
    log, other = logs
    appending.append(log, batch(b"first"), leader_epoch=1, now_ms=NOW_MS)
    stage(log, batch(b"second"))
    staged = appending.begin_write(log)
    assert staged is not None
    staged.write()
    appending.append(other, batch(b"x"), leader_epoch=1, now_ms=NOW_MS)
    piece = log.read(0, 1 << 20, 1, at_least_one=True)
    assert piece is not None
    piece.release()
    appending.end_write(log, staged, None)
    assert content(log) == [(0, b"first"), (1, b"second")]


def test_an_index_that_cannot_be_written_waits_in_memory(tmp_path: Path) -> None:
    class FullFiles(Files):
        is_full = False

        def write(self, path: str, data: bytes | bytearray, *, sync: bool = False) -> None:
            if self.is_full and path.endswith("index"):
                raise OSError(28, "No space left on device")
            super().write(path, data, sync=sync)

    files, directory = FullFiles(), str(tmp_path)
    pool, config = Pool(files), LogConfig(index_interval_bytes=1)
    log = Log(pool, directory, "t", 0, None, config, [Segment.create(pool, directory, 0, NOW_MS)], Random(0))
    files.is_full = True
    for _ in range(512):  # as many entries as are kept in memory
        appending.append(log, batch(bytes(100)), leader_epoch=1, now_ms=NOW_MS)
    for _ in range(512):
        appending.append(log, batch(bytes(100)), leader_epoch=1, now_ms=NOW_MS)
    assert not Path(log.segments[-1].offsets.path).exists()
    with pytest.raises(KafkaError, match="No space left"):
        closing.finish(log)
    files.is_full = False
    end_offset = appending.append(log, batch(b"shorter"), leader_epoch=1, now_ms=NOW_MS).first_offset + 1
    closing.close(log)
    partition = RecoveryInput("t", 0, directory, recovery_point=end_offset, is_clean=True)
    again = finish(open_log_steps(Pool(Files()), partition, config, Random(0), NOW_MS))
    assert again.end_offset == end_offset
    assert content(again)[-1] == (end_offset - 1, b"shorter")
    closing.close(again)


def test_a_flush_makes_safe_only_what_was_written_when_it_began(log: Log) -> None:
    stage(log, batch(b"being written"))
    staged = appending.begin_write(log)
    assert staged is not None
    flush = flushing.begin(log)
    flush.run()
    staged.write()
    appending.end_write(log, staged, None)
    flushing.end(log, flush)
    assert (log.recovery_point, log.end_offset) == (1, 2)


def test_what_threads_write_leaves_the_blocks_of_indexes_in_memory(tmp_path: Path) -> None:
    """They would be written by the loop, to a disk that is slow."""
    pool = Pool(Files())
    segment = Segment.create(pool, str(tmp_path), 0, NOW_MS)
    log = Log(pool, str(tmp_path), "t", 0, None, LogConfig(index_interval_bytes=0), [segment], Random(0))
    for _ in range(600):
        stage(log, batch(b"a"))
        staged = appending.begin_write(log)
        assert staged is not None
        staged.write()
        appending.end_write(log, staged, None)
    path = Path(log.segments[0].offsets.path)
    assert not path.exists()
    for _ in range(600):
        appending.append(log, batch(b"b"), leader_epoch=1, now_ms=NOW_MS)
    assert path.stat().st_size >= 4096
    rolling.roll(log, NOW_MS)
    assert path.stat().st_size == 8 * 1199
    closing.close(log)


def test_a_batch_sent_twice_before_the_write_is_staged_once(log: Log) -> None:
    numbered = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    first = stage(log, batch(b"once", **numbered))
    again = stage(log, batch(b"once", **numbered))
    assert (again.is_duplicate, again.first_offset) == (True, first.first_offset)
    appending.write_staged(log)
    assert content(log) == [(0, b"first"), (1, b"once")]


@pytest.mark.parametrize(
    "config, data",
    [
        (LogConfig(segment_bytes=600), lambda number: batch(bytes(100))),
        (LogConfig(segment_ms=50), lambda number: batch(b"x", timestamp=NOW_MS + 20 * number)),
        (LogConfig(segment_index_bytes=24, index_interval_bytes=1), lambda number: batch(b"x")),
    ],
    ids=["by size", "by time", "by index"],
)
def test_segments_roll_where_they_would_without_gathering(
    tmp_path: Path, config: LogConfig, data: Callable[[int], memoryview]
) -> None:
    rolled = []
    for name, gathers in (("apart", False), ("together", True)):
        directory = tmp_path / name
        directory.mkdir()
        pool = Pool(Files())
        log = Log(
            pool, str(directory), "t", 0, None, config, [Segment.create(pool, str(directory), 0, NOW_MS)], Random(0)
        )
        for number in range(30):
            stage(log, data(number))
            if not gathers:
                appending.write_staged(log)
        appending.write_staged(log)
        rolled.append([(segment.base_offset, segment.size, segment.offsets.content()) for segment in log.segments])
        assert len(content(log)) > 0
    assert rolled[0] == rolled[1]
    assert len(rolled[0]) > 2


def test_a_new_leader_epoch_begins_with_a_new_write(log: Log) -> None:
    stage(log, batch(b"old"))
    stage(log, batch(b"new"), leader_epoch=2)
    appending.write_staged(log)
    assert log.epochs.entries == [(1, 0), (2, 2)]
    assert CountedFile.writes == 2


def test_what_is_staged_is_bounded(log: Log) -> None:
    for _ in range(3 * MAX_STAGED_BYTES // 1000):
        stage(log, batch(bytes(930)))
        assert log.staged is not None
        assert log.staged.size <= MAX_STAGED_BYTES
    appending.write_staged(log)
    assert CountedFile.writes in (3, 4)


def test_batches_know_of_an_earlier_failed_write_of_their_turn(log: Log) -> None:
    stage(log, batch(b"lost"))
    staged = log.staged
    assert staged is not None
    CountedFile.fails = True
    with pytest.raises(KafkaError):
        stage(log, batch(b"refused"), leader_epoch=2)
    assert staged.error is not None
    assert log.end_offset == 1
    assert content(log) == [(0, b"first")]


def test_staged_remembers_a_producer_once() -> None:
    producers = Producers()
    producers.by_id[1] = Producer(4)
    staged = PendingWrite(0, 0)
    staged.remember(producers, 1)
    producers.by_id[1].epoch = 5
    staged.remember(producers, 1)
    staged.restore(producers)
    assert producers.by_id[1].epoch == 4


headers = st.fixed_dictionaries(
    {},
    optional={
        "base_offset": st.sampled_from([0, 1]),
        "magic": st.sampled_from([2, 1]),
        "attributes": st.sampled_from([0, 1, 4, 5, 8, 16, 32, -1]),
        "last_offset_delta": st.integers(-1, 3),
        "records_count": st.integers(-1, 4),
        "max_timestamp": st.sampled_from([-1, NOW_MS, NOW_MS + 10**9, 0]),
        "producer_id": st.sampled_from([-1, 0, 5]),
        "base_sequence": st.sampled_from([-1, 0, 7]),
        "batch_length": st.integers(40, 90),
        "crc": st.just(1),
    },
)


@pytest.mark.slow
@given(headers, st.sampled_from([LogConfig(), LogConfig(max_message_bytes=70)]))
def test_a_plain_batch_is_one_in_which_no_check_finds_a_fault(changes: dict[str, int], config: LogConfig) -> None:
    view = batch(b"value")
    header = read_header(view)._replace(**changes)
    HEADER.pack_into(view, 0, *header)
    if "crc" not in changes:
        header = header._replace(crc=crc32c(view[CRC_START:]))
        HEADER.pack_into(view, 0, *header)

    def checked() -> BatchHeader | None:
        try:
            ((found, part),) = split(view)
            validation.prepare(part, config, NOW_MS)
        except (KafkaError, ValueError):
            return None
        return found

    plain = validation.sound_batch(view, config, NOW_MS)
    if plain is not None:
        assert plain == checked()
    elif not header.is_log_append_time:  # such a batch is looked at closely, and found good
        assert checked() is None


def test_no_part_of_a_header_is_a_plain_batch() -> None:
    whole = batch(b"value")
    for size in range(len(whole)):
        assert validation.sound_batch(whole[:size], replace(LogConfig()), NOW_MS) is None
