"""The end of a compaction that a crash interrupted: nothing is lost, and nothing comes back."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from random import Random

import pytest

from headgate.protocol.records.batch import read_header
from headgate.storage.disk.pool import SWAP_SUFFIX
from headgate.storage.errors import CorruptLog
from headgate.storage.segment.replacement import CLEANED_SUFFIX
from headgate.storage.segment.tests.test_replacement import EXPECTED, KEY, LARGE, PARTITION, compacting, filled, names
from headgate.storage.tests.builders import open_store
from headgate.storage.tests.compacted import (
    assert_indexes,
    offsets,
    records,
    values,
)
from headgate.storage.tests.crashing_files import CrashingFiles, PowerCut


def batches_in(data: bytes) -> Iterator[tuple[int, int]]:
    """Where each batch begins and ends."""
    position = 0
    while position < len(data):
        end = position + read_header(data, position).size
        yield position, end
        position = end


def test_a_crash_while_a_crash_is_mended() -> None:
    for number in range(200):
        files = CrashingFiles()
        files.mixes_names = number % 2 > 0
        log = filled(files).logs[KEY]
        compacting(files, log)
        files = files.crash(Random(number), power=False)
        files.cut_after = number
        try:
            open_store(files, LARGE)
        except PowerCut:
            files = files.crash(Random(number), power=True)
            log = open_store(files, LARGE).logs[KEY]
            assert values(log) == EXPECTED
            assert_indexes(log)
        else:
            return
    pytest.fail("it never ended")


def test_a_new_segment_that_had_won_is_taken_up_at_the_next_start(caplog: pytest.LogCaptureFixture) -> None:
    files = CrashingFiles()
    log = filled(files).logs[KEY]
    compacting(files, log)
    with caplog.at_level(logging.INFO, "headgate.storage"):
        log = open_store(files.crash(Random(1), power=True), LARGE).logs[KEY]
    assert "up to offset 24" in caplog.text
    assert offsets(records(log)) == [*range(16, 25)]
    assert values(log) == EXPECTED


def test_a_segment_that_was_being_written_is_worth_nothing() -> None:
    files = CrashingFiles()
    filled(files)
    files.write(f"{PARTITION}/{8:020d}.log{CLEANED_SUFFIX}", b"half of a batch")
    files.write(f"{PARTITION}/{8:020d}.index{CLEANED_SUFFIX}", b"")
    files = files.crash(Random(1), power=False)
    log = open_store(files, LARGE).logs[KEY]
    assert len(records(log)) == 25
    assert not names(files, CLEANED_SUFFIX)


def test_a_segment_that_kafka_split_stays_until_all_parts_are_there() -> None:
    files = CrashingFiles()
    filled(files)
    for base in (0, 4):
        data = files.read(f"{PARTITION}/{base // 4 * 8:020d}.log")
        suffix = SWAP_SUFFIX if base else CLEANED_SUFFIX
        files.write(f"{PARTITION}/{base:020d}.log{suffix}", data)
    log = open_store(files.crash(Random(1), power=False), LARGE).logs[KEY]
    assert len(records(log)) == 25


@pytest.mark.parametrize("reaches", [False, True])
def test_only_a_segment_that_reaches_into_a_new_one_undoes_it(reaches: bool) -> None:
    files = CrashingFiles()
    filled(files)
    rest = files.read(f"{PARTITION}/{8:020d}.log")
    if reaches:
        files.append(f"{PARTITION}/{0:020d}.log", rest)
    files.remove(f"{PARTITION}/{8:020d}.log")
    files.write(f"{PARTITION}/{8:020d}.log{SWAP_SUFFIX}", rest)
    files.write(f"{PARTITION}/{0:020d}.log{CLEANED_SUFFIX}", b"")
    files = files.crash(Random(1), power=False)
    log = open_store(files, LARGE).logs[KEY]
    assert offsets(records(log)) == [*range(25)]
    assert [segment.base_offset for segment in log.segments] == ([0, 16, 24] if reaches else [0, 8, 16, 24])
    assert not names(files, CLEANED_SUFFIX)


def test_a_damaged_new_segment_is_ignored_and_nothing_is_touched() -> None:
    files = CrashingFiles()
    log = filled(files).logs[KEY]
    compacting(files, log)
    swap = files.file(f"{PARTITION}/{0:020d}.log{SWAP_SUFFIX}")
    swap.content[90] ^= 1
    files = files.crash(Random(1), power=False)
    store = open_store(files, LARGE)
    assert isinstance(store.failed[KEY], CorruptLog)
    assert "from a copy" in str(store.failed[KEY])
    assert names(files, ".log") != []


@pytest.mark.parametrize("cut_after", range(10, 17))
def test_replaced_segments_do_not_return_with_any_kept_names(cut_after: int) -> None:
    """Neither where it was not yet written down how far the log is safe, so that all of it is looked at."""
    files = CrashingFiles()
    files.mixes_names = True
    compacting(files, filled(files).logs[KEY])
    files.remove("/data/recovery-point-offset-checkpoint")
    files.sync_directory("/data")
    files = files.crash(Random(1), power=False)
    files.cut_after = cut_after  # the old ones are being removed, and the new one gets its name
    with suppress(PowerCut):
        open_store(files, LARGE)
    for seed in range(20):
        log = open_store(deepcopy(files).crash(Random(seed), power=True), LARGE).logs[KEY]
        assert values(log) == EXPECTED


@pytest.mark.parametrize("cut_after", range(3, 14))
def test_the_next_start_takes_up_the_segment_of_one_cut_short(cut_after: int) -> None:
    """The one behind it was made after the last sync, and is lost: what is replaced tells alone where it may end."""
    files = CrashingFiles()
    files.mixes_names = True
    compacting(files, filled(files).logs[KEY])
    files.remove(f"{PARTITION}/{24:020d}.log")
    files.remove("/data/recovery-point-offset-checkpoint")
    files.sync_directory("/data")
    files = files.copy()
    files.mixes_names = True
    files.cut_after = cut_after
    with suppress(PowerCut):
        open_store(files, LARGE)
    for seed in range(20):
        store = open_store(deepcopy(files).crash(Random(seed), power=True), LARGE)
        assert not store.failed
        assert values(store.logs[KEY]) == {key: value for key, value in EXPECTED.items() if key != "head"}


def test_a_new_segment_beyond_the_old_ones_takes_nothing_away() -> None:
    """A bit of the offset of its last batch is wrong, which no checksum covers."""
    files = CrashingFiles()
    log = filled(files).logs[KEY]
    compacting(files, log)
    path = f"{PARTITION}/{0:020d}.log{SWAP_SUFFIX}"
    swap, last = files.file(path), [position for position, _ in batches_in(files.read(path))][-1]
    swap.content[last + 6] ^= 1
    logs = names(files, ".log")
    store = open_store(files.crash(Random(1), power=False), LARGE)
    assert "would end at offset" in str(store.failed[KEY])
    assert names(files, ".log") == logs
