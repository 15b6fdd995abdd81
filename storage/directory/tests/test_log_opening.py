"""Opening a log apart from its store: in slices, broken off, while others are open already."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.steps import finish
from headgate.protocol.tests.examples import share
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.log import closing, flushing
from headgate.storage.tests.builders import (
    DIRECTORY,
    NOW_MS,
    SMALL,
    TOPIC_ID,
    append,
    assert_derived_state,
    batch,
    content,
    numbered,
    open_all,
    open_store,
)
from headgate.storage.tests.crashing_files import CrashingFiles
from headgate.storage.tests.truncating import truncate_to

KEYS = [("t", 0), ("t", 1), ("u", 0)]
seeds = st.integers(0, 1 << 32)


def filled() -> CrashingFiles:
    """A directory with the logs of KEYS: 60, 40 and 20 records, all but the first ten of each after the flush."""
    files = CrashingFiles()
    store = open_store(files)
    for number, key in enumerate(KEYS):
        log = store.create(*key, TOPIC_ID, SMALL, NOW_MS)
        append(log, *(batch() for _ in range(10)))
        flushing.flush(log)
        append(log, *(batch() for _ in range(50 - 20 * number)))
    store.checkpoint(dict.fromkeys(KEYS, 10))
    return files


def taken(files: CrashingFiles) -> LogDirectory:
    return LogDirectory.take(DIRECTORY, files=files, node_id=0, config=SMALL, random=Random(1)).claim()


def crashed(files: CrashingFiles) -> LogDirectory:
    return taken(files.crash(Random(1), power=False))


def cleanly_left(files: CrashingFiles) -> CrashingFiles:
    files = files.crash(Random(1), power=False)
    open_store(files).close()
    return files


def test_logs_are_opened_one_by_one() -> None:
    store = crashed(filled())
    assert (list(store.unopened), store.logs) == (KEYS, {})
    opening = store.begin_opening(KEYS[1], SMALL, NOW_MS)
    opening.run()
    assert store.logs == {}, "the store takes it back first"
    store.end_opening(opening)
    assert list(store.unopened) == [KEYS[0], KEYS[2]]
    assert store.logs[KEYS[1]].end_offset == 40
    assert all(key in store for key in KEYS)
    assert len(store) == 3


def test_what_is_opened_apart_belongs_to_the_store_afterwards() -> None:
    """Its files count among those that the store may have open, and recovery points are written before it is cut."""
    store = crashed(filled())
    for key in KEYS:
        assert store.open_now(key, SMALL, NOW_MS) is not None
    assert store.pool.open_segments == 0
    log = store.logs[KEYS[0]]
    assert len(content(log)) > 0
    assert store.pool.open_segments == len(log.segments)
    flushing.flush(log)
    truncate_to(log, 20, store.write_recovery_points)
    points = store.pool.files.read(f"{DIRECTORY}/recovery-point-offset-checkpoint").decode()
    assert "t 0 20\n" in points


def test_slices_are_short_and_tell_how_far_it_is() -> None:
    store = crashed(filled())
    expected = store.bytes_to_scan(KEYS[0])
    opening = store.begin_opening(KEYS[0], SMALL, NOW_MS)
    seen = [opening.recovery.bytes_scanned for _ in opening.steps()]
    size = len(batch())
    assert all(0 <= later - earlier <= size for earlier, later in pairwise(seen)), seen
    assert opening.recovery.bytes_scanned == expected > 50 * size


@pytest.mark.parametrize("flushed", [0, 35, 90])
@pytest.mark.parametrize("lost", ["", "first", "last", "all"])
def test_the_producers_of_a_scan_are_those_of_the_log(flushed: int, lost: str) -> None:
    files = CrashingFiles()
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    for number in range(120):
        append(log, numbered(number // 3, producer_id=number % 3 + 1))
        if number == flushed:
            flushing.flush(log)
            store.checkpoint({})
    snapshots = sorted(name for name in files.list("/data/t-0") if name.endswith(".snapshot"))
    assert len(snapshots) > 4
    for name in {"": [], "first": snapshots[:1], "last": snapshots[-1:], "all": snapshots}[lost]:
        files.remove(f"/data/t-0/{name}")
    again = crashed(files).open_now(("t", 0), SMALL, NOW_MS)
    assert again is not None
    scanned = again.producers
    assert len(scanned) == 3
    finish(again.reload_producers_steps(()))
    assert scanned.to_snapshot() == again.producers.to_snapshot(), "made from all batches"
    closing.close(again)
    files = again.pool.files  # type: ignore[assignment]
    assert f"{again.end_offset:020d}.snapshot" in files.list("/data/t-0")


def test_a_clean_stop_leaves_no_work() -> None:
    store = taken(cleanly_left(filled()))
    assert [store.bytes_to_scan(key) for key in KEYS] == [0, 0, 0]


def test_what_is_not_open_is_neither_made_nor_lost() -> None:
    files = filled()
    store = crashed(files)
    with pytest.raises(KafkaError) as caught:
        store.create(*KEYS[0], TOPIC_ID, SMALL, NOW_MS)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    store.open_now(KEYS[1], SMALL, NOW_MS)
    store.checkpoint({KEYS[1]: 40})
    assert store.high_watermarks() == {KEYS[0]: 10, KEYS[1]: 40, KEYS[2]: 10}
    assert b"t 0 10\n" in store.pool.files.read(f"{DIRECTORY}/recovery-point-offset-checkpoint")


def test_an_unopened_log_is_deleted_unless_a_thread_has_it() -> None:
    store = crashed(filled())
    store.delete(*KEYS[2])
    assert KEYS[2] not in store
    opening = store.begin_opening(KEYS[0], SMALL, NOW_MS)
    with pytest.raises(KafkaError):
        store.delete(*KEYS[0])
    opening.run()
    store.end_opening(opening)
    store.delete(*KEYS[0])
    assert list(store.pool.files.list(DIRECTORY)).count("t-0") == 0


def test_a_stop_before_all_is_open_is_clean_if_the_one_before_was() -> None:
    files = cleanly_left(filled())
    store = taken(files)
    store.open_now(KEYS[1], SMALL, NOW_MS)
    store.close()
    assert files.exists(f"{DIRECTORY}/.kafka_cleanshutdown")
    assert [log.end_offset for log in open_store(files).logs.values()] == [60, 40, 20]


def test_a_stop_before_all_is_scanned_is_not_clean() -> None:
    files = filled().crash(Random(1), power=False)
    store = taken(files)
    store.open_now(KEYS[1], SMALL, NOW_MS)
    store.close()
    assert not files.exists(f"{DIRECTORY}/.kafka_cleanshutdown")
    store = taken(files)
    assert store.bytes_to_scan(KEYS[0]) > 0
    open_all(store, NOW_MS)
    assert sorted(log.end_offset for log in store.logs.values()) == [20, 40, 60]


@pytest.mark.parametrize("steps", [0, 1, 5, 40])
def test_an_opening_that_was_broken_off_is_begun_again(steps: int) -> None:
    """A thread stops where it is when the broker does: the next start scans, whatever the stop before was."""
    files = filled().crash(Random(1), power=False)
    store = taken(files)
    opening = store.begin_opening(KEYS[0], SMALL, NOW_MS)
    half_done = opening.steps()
    for _ in range(steps):
        next(half_done)
    half_done.close()
    store.close()
    assert not files.exists(f"{DIRECTORY}/.kafka_cleanshutdown")
    store = open_store(files)
    assert [log.end_offset for log in store.logs.values()] == [60, 40, 20]
    store.close()
    assert files.exists(f"{DIRECTORY}/.kafka_cleanshutdown")


@pytest.mark.slow
@given(steps=st.lists(st.integers(0, 80), max_size=3), tail=st.binary(max_size=200), power=st.booleans(), seed=seeds)
@settings(max_examples=share(60), deadline=None)
def test_crashes_while_a_log_is_opened(steps: list[int], tail: bytes, power: bool, seed: int) -> None:
    """Whatever an opening had done already, the next one finds what was flushed, and derives the same from it."""
    random = Random(seed)
    files = filled()
    last = max(name for name in files.list(f"{DIRECTORY}/t-0") if name.endswith(".log"))
    files.append(f"{DIRECTORY}/t-0/{last}", tail)
    before = content(crashed(files).open_now(KEYS[0], SMALL, NOW_MS))  # type: ignore[arg-type]
    flushed = before[: 10 * len(batch())]
    for count in steps:
        files = files.crash(random, power=power)
        half_done = taken(files).begin_opening(KEYS[0], SMALL, NOW_MS).steps()
        for _ in range(count):
            next(half_done, None)
        half_done.close()
    log = taken(files.crash(random, power=power)).open_now(KEYS[0], SMALL, NOW_MS)
    assert log is not None
    found = content(log)
    assert found.startswith(flushed)
    assert before.startswith(found)
    assert power or found == before
    assert_derived_state(log)


def test_a_damaged_log_fails_alone() -> None:
    files = filled()
    file = files.file(f"{DIRECTORY}/t-0/{0:020d}.log")
    file.content[100:108] = b"\xff" * 8
    store = crashed(files)
    open_all(store, NOW_MS)
    assert list(store.failed) == [KEYS[0]]
    assert sorted(store.logs) == [KEYS[1], KEYS[2]]
    store.close()
    assert not store.pool.files.exists(f"{DIRECTORY}/.kafka_cleanshutdown")


@pytest.mark.parametrize("power", [False, True])
def test_after_a_stop_that_was_not_in_order_records_may_be_missing(
    power: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a file that is shorter than it was nobody sees that: but where a checkpoint knew more, it is told."""
    files = filled()
    files = files.copy(only_durable=True) if power else files.crash(Random(1), power=False)
    files.write(f"{DIRECTORY}/replication-offset-checkpoint", b"0\n3\nt 0 25\nt 1 25\nu 0 25\n")
    store = taken(files)
    assert not store.was_clean
    opening = store.begin_opening(KEYS[0], SMALL, NOW_MS)
    opening.run()
    assert opening.may_lack_records
    assert opening.log is not None
    assert opening.log.end_offset == (10 if power else 60)
    assert ("t-0: records from offset 10 to 24 are lost; clients may have read them" in caplog.text) == power


def test_after_a_stop_in_order_nothing_is_missing() -> None:
    store = taken(cleanly_left(filled()))
    assert store.was_clean
    opening = store.begin_opening(KEYS[0], SMALL, NOW_MS)
    opening.run()
    assert not opening.may_lack_records
