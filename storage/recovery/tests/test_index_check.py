"""What is seen of indexes that are lost, cut or spoilt, and what is not taken for it."""

from __future__ import annotations

import struct
from random import Random

import pytest

from headgate.storage.config import LogConfig
from headgate.storage.log import flushing, rolling
from headgate.storage.recovery.index_check import has_indexes
from headgate.storage.segment.segment import Segment
from headgate.storage.tests.builders import NOW_MS, SMALL, TOPIC_ID, append, assert_derived_state, batch, open_store
from headgate.storage.tests.crashing_files import CrashingFiles
from headgate.storage.tests.reopened import KEY, PARTITION, leave_idle, names
from headgate.storage.tests.reopened import reopened as reopened_store
from headgate.storage.tests.segments import INTERVAL, new_segment, reopened


def test_lost_indexes_are_seen() -> None:
    segment = new_segment(batches=20)
    segment.seal()
    files, size = segment.pool.files, segment.size
    assert has_indexes(reopened(segment), INTERVAL, checks_content=True)
    whole = [size, segment.offsets.size, segment.times.size]
    for sizes in ([size, -1, whole[2]], [size, whole[1], -1], [size, 0, whole[2]], [size, whole[1], 0], [size, 9, 12]):
        damaged = Segment(segment.pool, "/d", 100, [*sizes, -1])
        assert not has_indexes(damaged, INTERVAL, checks_content=False)
    files.write(segment.offsets.path, b"\x00\x00\x00\x05\x7f\xff\xff\xff")
    assert not has_indexes(reopened(segment), INTERVAL, checks_content=True)


def test_a_partition_that_was_idle_is_not_scanned_after_a_crash() -> None:
    for power in (False, True):
        files = CrashingFiles()
        leave_idle(files)
        before = {name: bytes(files.file(f"{PARTITION}/{name}").content) for name in names(files, "")}
        again = files.crash(Random(1), power=power)
        made = again.delay(lambda: None, "create", "truncate", "write", path="index")
        log = open_store(again).logs[KEY]
        assert log.end_offset > 200
        assert made.met == 0, "no index is made again"
        if not power:  # snapshots are made again where a power cut takes them
            assert {name: bytes(again.file(f"{PARTITION}/{name}").content) for name in names(again, "")} == before
        assert_derived_state(log)
        append(log, batch())
        assert_derived_state(log)


@pytest.mark.parametrize(
    "damage",
    [
        "time entry lost",
        "first time entry lost",
        "time entry of later",
        "time entry of before",
        "times out of order",
        "offsets lost",
        "offset of before",
        "zeros",
        "appended to",
    ],
)
def test_an_index_that_is_not_as_it_was_left_is_made_again(damage: str) -> None:
    files = CrashingFiles()
    leave_idle(files)
    last = names(files, ".log")[-1].removesuffix(".log")
    times, offsets = (files.file(f"{PARTITION}/{last}{suffix}").content for suffix in (".timeindex", ".index"))
    match damage:
        case "time entry lost":
            del times[-12:]
        case "first time entry lost":
            del times[:12]
        case "time entry of later":
            times += struct.pack(">qi", NOW_MS + 5, 1 << 20)
        case "time entry of before":  # of what was cut off: a power cut brings the index back that told of it
            times[-12:-4] = struct.pack(">q", struct.unpack(">q", times[-12:-4])[0] + 5)
        case "times out of order":
            times[:12], times[12:24] = times[12:24], times[:12]
        case "offsets lost":
            del offsets[8:]
        case "offset of before":
            offsets[-8:-4] = struct.pack(">i", struct.unpack(">i", offsets[-8:-4])[0] - 1)
        case "zeros":
            offsets[8:16] = bytes(8)
        case _:
            files.append(f"{PARTITION}/{last}.log", b"torn")
    log = reopened_store(files).logs[KEY]
    assert_derived_state(log)


@pytest.mark.parametrize(
    "suffix,lost",
    [
        (".index", slice(0, 4)),
        (".index", slice(4, 8)),
        (".index", slice(0, 3)),
        (".timeindex", slice(0, 6)),
        (".timeindex", slice(0, 10)),
    ],
)
def test_a_hole_at_the_beginning_of_an_index_is_found(suffix: str, lost: slice) -> None:
    """Of a segment whose bytes were on the disk before it was sealed: zeros there are in order."""
    files = CrashingFiles()
    config = LogConfig(index_interval_bytes=200)
    store = open_store(files, config)
    log = store.create("t", 0, TOPIC_ID, config, NOW_MS)
    append(log, *(batch(300, timestamp=NOW_MS + number) for number in range(4)))
    flushing.flush(log)
    store.checkpoint({})
    rolling.roll(log, NOW_MS)
    path = log.segments[0].path.removesuffix(".log") + suffix
    whole = files.read(path)
    assert (599).to_bytes(4, "big") in whole[: 8 if suffix == ".index" else 12]
    index = files.file(path).content
    index[lost] = bytes(lost.stop - lost.start)
    log = open_store(files.crash(Random(0), power=False), config).logs["t", 0]
    assert log.pool.files.read(path) == whole
    assert_derived_state(log)


@pytest.mark.parametrize("is_back", [False, True])
@pytest.mark.parametrize(
    "times",
    [
        [(NOW_MS, 0)],
        [(NOW_MS, 3)],  # the same time comes before
        [(NOW_MS - 5, 0), (NOW_MS, 1)],
    ],
)
def test_the_time_index_of_cut_batches_is_not_taken_for_the_next(times: list[tuple[int, int]], is_back: bool) -> None:
    """A cut was killed before it came to the indexes; where it `is_back`, a power cut took what a start did to it."""
    files = CrashingFiles()
    store = open_store(files)
    store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    path, index = f"{PARTITION}/{0:020d}.timeindex", b"".join(struct.pack(">qi", *entry) for entry in times)
    files.write(path, index)
    files.write(f"{PARTITION}/{0:020d}.index", b"")
    files = files.crash(Random(1), power=False)
    store = open_store(files)
    log = store.logs[KEY]
    assert not files.exists(path)
    append(log, batch(2), batch(2))
    flushing.flush(log)
    store.checkpoint({KEY: log.end_offset})
    if is_back:
        files.write(path, index)
        files.write(f"{PARTITION}/{0:020d}.index", b"")
    log = reopened_store(files).logs[KEY]
    assert log.end_offset == 4
    assert_derived_state(log)
