"""The three ends of a scan, and what becomes of a log that has them. Random histories are in `test_histories.py`."""

from __future__ import annotations

import contextlib
import logging
import struct
import zlib
from itertools import product
from random import Random

import pytest

from headgate.protocol.errors import KafkaError
from headgate.storage.errors import CorruptLog, UnsupportedLog
from headgate.storage.log import flushing
from headgate.storage.log.log import Log
from headgate.storage.recovery.quarantine import TORN_SUFFIX
from headgate.storage.recovery.scan import Clean, Corrupt, Torn, classify
from headgate.storage.segment.batch_iterator import BatchIterator
from headgate.storage.tests.builders import (
    NOW_MS,
    SMALL,
    TOPIC_ID,
    append,
    assert_derived_state,
    batch,
    content,
    open_store,
)
from headgate.storage.tests.crashing_files import CrashingFiles, PowerCut
from headgate.storage.tests.reopened import FIRST, KEY, PARTITION, filled, killed, names, reopened

LOST = b"\1" * 100
"""Neither a batch nor the beginning of one."""


def walk_of(log: Log, damage: int | None = None) -> BatchIterator:
    segment = log.segments[0]
    if damage is not None:
        segment.file.write_at(b"\xff" * 8, damage)
    iterator = segment.iterate()
    iterator.check_crc_from = 0
    for _ in iterator:
        pass
    return iterator


def test_judge() -> None:
    log = filled(CrashingFiles(), batches=6).logs[KEY]
    assert classify(walk_of(log), 0) == Clean()
    assert classify(walk_of(log), log.end_offset) == Clean()
    assert isinstance(classify(walk_of(log), log.end_offset + 1), Corrupt)
    second = log.segments[0].locate(1)
    for damage in (second + 8, second + 16, second + 30, second + 70):
        log = filled(CrashingFiles(), batches=6).logs[KEY]
        assert isinstance(verdict := classify(walk_of(log, damage), 1), Torn)
        assert verdict.at == second
        assert isinstance(classify(walk_of(log), 2), Corrupt)


def test_a_torn_tail_is_cut_and_kept_aside(caplog: pytest.LogCaptureFixture) -> None:
    files = CrashingFiles()
    log = filled(files).logs[KEY]
    before, end = content(log), log.end_offset
    last = log.segments[-1]
    last.file.write_at(b"not a batch", last.size)
    size = last.size
    with caplog.at_level(logging.WARNING):
        store = reopened(files)
    log = store.logs[KEY]
    assert (log.end_offset, content(log)) == (end, before)
    kept = store.pool.files.read(f"{last.path}.{size}{TORN_SUFFIX}")
    assert kept == b"not a batch"
    assert f"cut at byte {size} of {last.path}, offset {end}" in caplog.text
    append(log, batch())
    assert_derived_state(log)


def test_no_power_cut_takes_what_was_on_the_disk_and_is_cut_off() -> None:
    """It is in the segment or beside it, whenever the power fails while the log is opened."""
    files = CrashingFiles()
    log = filled(files).logs[KEY]
    path = log.segments[-1].path
    log.segments[-1].file.write_at(LOST, log.segments[-1].size)
    left = killed(files)
    left.sync(path)
    left.sync_directory(PARTITION)
    for cut_after, seed in product(range(12), range(10)):
        files = left.copy()
        files.cut_after = cut_after
        with contextlib.suppress(PowerCut):
            open_store(files)
            assert cut_after > 4
        files = files.crash(Random(seed), power=True)
        kept = [f"{PARTITION}/{name}" for name in names(files, TORN_SUFFIX)]
        assert any(LOST in files.read(one) for one in (path, *kept)), (cut_after, seed)


def test_what_lies_behind_a_torn_place_is_kept_aside_too() -> None:
    files = CrashingFiles()
    log = filled(files, batches=80, flush_at=5).logs[KEY]
    log.segments[1].file.write_at(b"\xff" * 40, log.segments[1].locate(log.segments[1].base_offset + 5))
    later = log.segments[2:]
    assert later
    store = reopened(files)
    assert len(store.logs[KEY].segments) == 2
    for segment in later:
        assert not store.pool.files.exists(segment.path)
        assert store.pool.files.read(f"{segment.path}.0{TORN_SUFFIX}")
    append(store.logs[KEY], batch())
    assert_derived_state(store.logs[KEY])


def test_zeros_are_cut_and_not_kept() -> None:
    files = CrashingFiles()
    log = filled(files).logs[KEY]
    before = content(log)
    log.segments[-1].file.write_at(bytes(500), log.segments[-1].size)
    store = reopened(files)
    assert content(store.logs[KEY]) == before
    assert not names(files, TORN_SUFFIX)


def test_a_lost_segment_cuts_the_log() -> None:
    files = CrashingFiles()
    log = filled(files, batches=60, flush_at=5).logs[KEY]
    lost = log.segments[-2]
    files.remove(lost.path)
    store = reopened(files)
    assert store.logs[KEY].end_offset == lost.base_offset
    assert len(names(files, TORN_SUFFIX)) == 1


@pytest.mark.parametrize("position", [0, 8, 16, 23])
def test_damage_below_the_recovery_point_stops_that_partition_only(position: int) -> None:
    files = CrashingFiles()
    store = filled(files)
    store.create("other", 0, bytes(16), SMALL, NOW_MS)
    log = store.logs[KEY]
    flushing.flush(log)
    store.checkpoint({KEY: 3})
    file = files.file(log.segments[-1].path)
    damaged = log.segments[-1].offsets.last_position + position
    file.content[damaged : damaged + 8] = b"\xff" * 8
    before = bytes(file.content)
    store = reopened(files)
    assert list(store.logs) == [("other", 0)]
    assert isinstance(store.failed[KEY], CorruptLog)
    assert bytes(file.content) == before, "nothing is touched"
    with pytest.raises(
        KafkaError, match=r"damaged.*run `headgate log repair \S+/t-0`, or restore the file from a copy"
    ):
        store.create("t", 0, TOPIC_ID, SMALL)
    store.close()
    again = reopened(store.pool.files)  # type: ignore[arg-type]
    assert KEY in again.failed, "a clean stop does not hide it"
    assert again.high_watermarks()[KEY] == 3
    again.delete("t", 0)
    assert again.create("t", 0, TOPIC_ID, SMALL).end_offset == 0


def test_old_messages_are_not_taken_for_damage() -> None:
    files = CrashingFiles()
    filled(files)
    message = b"\x00\x00" + struct.pack(">i", -1) + struct.pack(">i", 3) + b"old"
    files.write(FIRST, struct.pack(">qiI", 0, len(message) + 4, zlib.crc32(message)) + message)
    files.remove("/data/recovery-point-offset-checkpoint")
    for segment in names(files, ".log")[1:]:
        files.remove(f"{PARTITION}/{segment}")
    assert isinstance(reopened(files).failed[KEY], UnsupportedLog)
