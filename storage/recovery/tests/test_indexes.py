"""Indexes, and what else is derived, made again where they are lost or spoilt."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from random import Random

import pytest

from headgate.storage.config import LogConfig
from headgate.storage.log import flushing, rolling
from headgate.storage.tests.builders import (
    NOW_MS,
    SMALL,
    TOPIC_ID,
    append,
    append_own,
    assert_derived_state,
    batch,
    content,
    marker,
    numbered,
    open_store,
    transactional,
)
from headgate.storage.tests.crashing_files import CrashingFiles, PowerCut
from headgate.storage.tests.reopened import KEY, PARTITION, filled, killed, names, reopened


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_lost_block_of_the_index_of_a_synced_segment_is_rebuilt(suffix: str) -> None:
    """A roll leaves the indexes to the next flush; the bytes may have been on the disk, and the checkpoint too."""
    files = CrashingFiles()
    store = open_store(files)
    config = LogConfig(index_interval_bytes=0)
    log = store.create("t", 0, TOPIC_ID, config, NOW_MS)
    for number in range(20):
        append(log, batch(timestamp=NOW_MS + number))
    flushing.flush(log)
    store.checkpoint({KEY: log.end_offset})
    rolling.roll(log, NOW_MS)
    path = f"{log.directory}/{0:020d}{suffix}"
    whole = bytes(files.file(path).content)
    width = 8 if suffix == ".index" else 12
    files.file(path).content[5 * width : 9 * width] = bytes(4 * width)
    again = open_store(killed(files), config).logs[KEY]
    assert again.end_offset == 20
    assert again.pool.files.read(path) == whole


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"])
def test_what_is_derived_is_made_again(suffix: str, clean: bool) -> None:
    files = CrashingFiles()
    store = filled(files)
    before = content(store.logs[KEY])
    producers = dict(store.logs[KEY].producers.by_id)
    if clean:
        store.close()
    for name in names(files, suffix):
        files.remove(f"{PARTITION}/{name}")
    log = reopened(files).logs[KEY]
    assert (content(log), log.producers.by_id) == (before, producers)
    assert_derived_state(log)
    append(log, numbered(1, producer_id=1))
    assert_derived_state(log)


def test_a_damaged_snapshot_or_index_is_not_believed() -> None:
    files = CrashingFiles()
    store = filled(files)
    producers = dict(store.logs[KEY].producers.by_id)
    store.close()
    for name in names(files, ".snapshot"):
        files.file(f"{PARTITION}/{name}").content[-1:] = b"\xff"
    for name in names(files, "index"):
        files.append(f"{PARTITION}/{name}", b"x")
    log = reopened(files).logs[KEY]
    assert log.producers.by_id == producers
    assert_derived_state(log)


@pytest.mark.parametrize("cut_after", range(1, 14))
def test_a_power_cut_during_an_index_rebuild_leaves_no_wrong_one(cut_after: int) -> None:
    """The next start looks no closer at segments that were on the disk before."""
    files = CrashingFiles()
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    append(log, *(batch(size=100, timestamp=NOW_MS + number) for number in range(40)))
    flushing.flush(log)
    store.checkpoint({("t", 0): log.end_offset})
    for path in log.segments[0].sealed_indexes:
        files.truncate(path, 0)
        files.sync(path)
    killed = files.crash(Random(0), power=False)
    for seed in range(20):
        files = deepcopy(killed)
        files.short_writes = Random(seed)
        files.cut_after = cut_after
        with suppress(PowerCut):
            open_store(files)
        assert_derived_state(open_store(files.crash(Random(seed), power=True)).logs["t", 0])


@pytest.mark.parametrize("cut_after", range(10, 20))
def test_a_kill_during_an_index_rebuild_loses_no_aborted_transaction(cut_after: int) -> None:
    files = CrashingFiles()
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    for number in range(40):
        append_own(log, transactional(number, size=100), marker(is_commit=False))
    store.close()
    expected = log.aborted(0, log.end_offset)
    files.remove("/data/.kafka_cleanshutdown")
    files.remove(log.segments[1].times.path)
    files.cut_after = cut_after
    with suppress(PowerCut):
        open_store(files)
    again = open_store(killed(files)).logs["t", 0]
    assert again.aborted(0, again.end_offset) == expected
