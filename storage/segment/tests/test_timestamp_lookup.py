"""Records by time, in order and out of it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.records import control
from headgate.protocol.records.batch import Record, build, patch, read_header, set_crc
from headgate.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from headgate.protocol.records.control import Marker
from headgate.protocol.steps import Steps, finish
from headgate.protocol.tests.examples import share
from headgate.storage.config import LOG_APPEND_TIME, LogConfig
from headgate.storage.files import WouldBlock
from headgate.storage.log import appending, closing, rolling
from headgate.storage.log.log import Log
from headgate.storage.log.tests.test_log import BOUNDARIES, LOG
from headgate.storage.segment.timestamp_lookup import RECORDS_AT_ONCE, SEGMENTS_AT_ONCE, Found, More, TimestampOffset
from headgate.storage.tests.builders import NOW_MS, TOPIC_ID, append, batch, new_log, no_checkpoint, open_store
from headgate.storage.tests.crashing_files import CrashingFiles, OpenFile
from headgate.storage.tests.truncating import truncate_to


@given(timestamp=st.integers(NOW_MS - 5, NOW_MS + 905), up_to=st.integers(0, 59))
@settings(max_examples=share(60), deadline=None)
def test_offset_for_time(timestamp: int, up_to: int) -> None:
    expected = max(0, -(-(timestamp - NOW_MS) // 10))
    found = finish(LOG.offset_for_time(timestamp, BOUNDARIES[up_to]))
    if expected >= BOUNDARIES[up_to]:
        assert found is None
    else:
        assert found == (expected, NOW_MS + 10 * expected, 0)


def test_time_lookup_survives_unreadable_records() -> None:
    log = new_log()
    data = bytearray(batch(2))
    data[-30:] = bytes(30)
    set_crc(data)
    append(log, memoryview(data))
    assert finish(log.offset_for_time(NOW_MS, log.end_offset)) == (0, NOW_MS, 0)


def lying(*timestamps: int, claim: int, codec: int = NONE) -> memoryview:
    """A batch whose header claims another maximum timestamp than its records have."""
    data = build([Record(timestamp=timestamp) for timestamp in timestamps], compression=codec)
    struct.pack_into(">q", data, 35, claim)
    set_crc(data)
    return memoryview(data)


def test_a_header_that_promises_too_much_is_passed_over() -> None:
    log = new_log(config=LogConfig(segment_bytes=100))
    for number in range(2 * SEGMENTS_AT_ONCE + 1):
        append(log, lying(NOW_MS + number, claim=NOW_MS + 1_000))
    append(log, batch(1, timestamp=NOW_MS + 500))
    steps = log.offset_for_time(NOW_MS + 500, log.end_offset)
    assert finish(steps) == More(SEGMENTS_AT_ONCE), "so many files are held open at once"
    assert by_time(log, NOW_MS + 500) == (2 * SEGMENTS_AT_ONCE + 1, NOW_MS + 500, 0)
    assert by_time(log, NOW_MS) == (0, NOW_MS, 0)
    assert by_time(log, NOW_MS + 501) is None
    assert the_newest(log) == (2 * SEGMENTS_AT_ONCE + 1, NOW_MS + 500, 0)


def test_of_records_just_as_new_the_first_is_told() -> None:
    log = new_log(config=LogConfig(segment_bytes=100))
    append(log, batch(1, timestamp=NOW_MS + 500), lying(NOW_MS + 500, claim=NOW_MS + 501))
    assert the_newest(log) == (0, NOW_MS + 500, 0)


def test_what_is_deleted_between_two_plans_is_not_found() -> None:
    log = new_log(config=LogConfig(segment_bytes=100))
    for number in range(SEGMENTS_AT_ONCE + 3):
        append(log, lying(NOW_MS + number, claim=NOW_MS + 1_000))
    more = finish(log.offset_for_time(NOW_MS + SEGMENTS_AT_ONCE, log.end_offset))
    assert isinstance(more, More)
    log.advance_start(SEGMENTS_AT_ONCE + 1)
    found = finish(log.offset_for_time(NOW_MS + SEGMENTS_AT_ONCE, log.end_offset, more))
    assert found == (SEGMENTS_AT_ONCE + 1, NOW_MS + SEGMENTS_AT_ONCE + 1, 0)


@pytest.mark.slow
@given(
    steps_ms=st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=5), min_size=1, max_size=20),
    codec=st.sampled_from([NONE, LZ4, ZSTD]),
)
@settings(max_examples=share(100), deadline=None)
def test_times_in_order_are_found_where_headers_have_the_base(steps_ms: list[list[int]], codec: int) -> None:
    """Some producers write the base timestamp as the maximum. Apache Kafka reads the records, and stores their own."""
    log, time, times = new_log(config=LogConfig(segment_bytes=400, index_interval_bytes=100)), NOW_MS, list[int]()
    for steps in steps_ms:
        first = len(times)
        for step in steps:
            time += step
            times.append(time)
        append(log, lying(*times[first:], claim=times[first], codec=codec))
    for wanted in range(NOW_MS, time + 1, 2):
        offset = next(offset for offset, its in enumerate(times) if its >= wanted)
        assert by_time(log, wanted) == (offset, times[offset], 0)
    assert by_time(log, time + 1) is None
    assert the_newest(log) == (len(times) - 1, time, 0)


def test_no_record_stands_for_a_time_that_no_header_claims() -> None:
    """The records of the batch cannot be read, and its header may claim too little."""
    log = new_log()
    data = bytearray(batch(2))
    data[-30:] = bytes(30)
    set_crc(data)
    append(log, memoryview(data))
    assert by_time(log, NOW_MS + 1) is None
    assert by_time(log, NOW_MS) == (0, NOW_MS, 0)


# Every shape of batch, beside a model


def by_time(log: Log, timestamp_ms: int, up_to: int | None = None) -> TimestampOffset | None:
    """What a search finds in the end."""
    found: Found = More(0)
    while isinstance(found, More):
        found = finish(log.offset_for_time(timestamp_ms, log.end_offset if up_to is None else up_to, found))
    return found


def the_newest(log: Log, up_to: int | None = None) -> TimestampOffset | None:
    up_to, more = log.end_offset if up_to is None else up_to, None
    while isinstance(found := finish(log.max_timestamp(up_to, more)), More):
        more = found
    return found


class Shape(NamedTuple):
    """A batch: times of its records, its codec, what its header claims beyond them, and what else is special."""

    times: list[int]
    codec: int
    claim: int
    kind: str


def nearly_in_order(some: list[Shape]) -> list[Shape]:
    """So that there are many entries in the time indexes."""
    return [shape._replace(times=[time % 5 + at for time in shape.times]) for at, shape in enumerate(some)]


KINDS = ["plain"] * 4 + ["append time", "gap", "emptied", "marker"]
shapes = st.builds(
    Shape,
    st.lists(st.integers(-1, 40), min_size=1, max_size=4),
    st.sampled_from([NONE, NONE, GZIP, LZ4, SNAPPY, ZSTD]),
    st.sampled_from([0, 0, 0, 1, 30]),
    st.sampled_from(KINDS),
)


def bytes_of(shape: Shape, offset: int) -> tuple[bytearray, list[tuple[int, int]]]:
    """The batch at an offset, and (offset, time) of the records in it."""
    times, base = shape.times, offset
    if shape.kind == "marker":
        return control.build(Marker(True, 0), producer_id=1, producer_epoch=0, timestamp=times[0]), [(base, times[0])]
    if shape.kind == "append time":
        made = build([Record(timestamp=1)] * len(times), compression=shape.codec, log_append_time_ms=max(0, times[0]))
        return made, [(base + number, max(0, times[0])) for number in range(len(times))]
    records = [Record(offset=number, timestamp=time) for number, time in enumerate(times)]
    kept = records
    if shape.kind == "gap":  # as compaction leaves it: the last offset of the batch stays
        kept = records[1::2]
    elif shape.kind == "emptied":
        kept = []
    made = build(kept, compression=shape.codec)
    struct.pack_into(">i", made, 23, len(records) - 1)
    highest = max([record.timestamp for record in kept], default=-1)
    struct.pack_into(">q", made, 35, highest + shape.claim)
    set_crc(made)
    return made, [(base + record.offset, record.timestamp) for record in kept]


def written(log: Log, some: list[Shape]) -> list[tuple[int, int]]:
    """Put them into the log as they are, which no client could; (offset, time) of all records."""
    records: list[tuple[int, int]] = []
    for shape in some:
        offset = log.end_offset
        data, there = bytes_of(shape, offset)
        limits = len(data), read_header(data).max_timestamp, offset + len(shape.times)
        staged = appending.make_room(log, *limits, NOW_MS, 0, None)
        patch(data, offset, 0)
        header = read_header(data)
        staged.add(bytes(data), len(data), header.last_offset, header.max_timestamp)
        log.end_offset = header.last_offset + 1
        appending.write_staged(log)
        records += there
    return records


@pytest.mark.slow
@given(
    some=st.lists(shapes, max_size=40) | st.lists(shapes, min_size=12, max_size=40).map(nearly_in_order),
    wanted=st.integers(0, 40),
    start=st.integers(0, 5) | st.integers(0, 80),
    up_to=st.just(1000) | st.integers(0, 130),
    way=st.sampled_from(["as written", "rolled", "reopened", "killed", "rebuilt", "cut"]),
    segment_bytes=st.sampled_from([200, 700, 5000, 5000]),
)
@settings(max_examples=share(60, soak=150), deadline=None)
def test_all_shapes_are_found_exactly(
    some: list[Shape], wanted: int, start: int, up_to: int, way: str, segment_bytes: int
) -> None:
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=1)
    files = CrashingFiles()
    store = open_store(files, config)
    log = store.create("t", 0, bytes(16), config, NOW_MS)
    records = written(log, some)
    if way == "rolled" and log.segments[-1].size:
        rolling.roll(log, NOW_MS)
    elif way == "cut" and some:
        end = [header.base_offset for header in log.segments.headers(0)][len(some) // 2]
        truncate_to(log, end, no_checkpoint)
        records = [record for record in records if record[0] < end]
    elif way in ("reopened", "killed", "rebuilt"):
        if way != "killed":
            store.close()
        files = files if way != "killed" else files.crash(Random(1), power=False)
        for name in list(files.list("/data/t-0")):
            if way == "rebuilt" and name.endswith("index"):
                files.remove(f"/data/t-0/{name}")
        log = open_store(files, config).logs["t", 0]
    start, up_to = min(start, log.end_offset), min(up_to, log.end_offset)
    log.advance_start(start)
    records = [record for record in records if record[0] >= start]
    first = next(((offset, time) for offset, time in records if time >= wanted), None)
    assert _pair(by_time(log, wanted, up_to)) == (first if first and first[0] < up_to else None)
    newest = max(records, key=lambda record: (record[1], -record[0]), default=(0, -1))
    expected = newest if newest[1] >= 0 and newest[0] < up_to else None
    assert _pair(the_newest(log, up_to)) == expected


def _pair(found: TimestampOffset | None) -> tuple[int, int] | None:
    return None if found is None else found[:2]


@pytest.mark.parametrize("codec", [NONE, GZIP, ZSTD])
def test_a_long_search_goes_in_slices(codec: int) -> None:
    """Also where the log is closed meanwhile."""
    log = new_log(config=LogConfig())
    records = 10 * RECORDS_AT_ONCE
    append(log, lying(*[NOW_MS] * records, claim=NOW_MS + 2, codec=codec))
    append(log, batch(1, timestamp=NOW_MS + 1))
    steps = log.offset_for_time(NOW_MS + 1, log.end_offset)
    for _ in range(9):
        next(steps)
    closing.close(log)
    assert finish(steps) == (records, NOW_MS + 1, 0)


@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_log_append_time_is_that_of_all_records(codec: int) -> None:
    log = new_log()
    append(log, batch(3))
    data = build([Record(timestamp=1), Record(timestamp=2)], compression=codec)
    log.configure(LogConfig(message_timestamp_type=LOG_APPEND_TIME))
    appending.append(log, memoryview(data), leader_epoch=0, now_ms=NOW_MS + 100)
    assert finish(log.offset_for_time(NOW_MS + 50, log.end_offset)) == (3, NOW_MS + 100, 0)


def test_what_is_below_the_start_of_the_log_is_not_found() -> None:
    log = new_log()
    append(log, memoryview(build([Record(timestamp=NOW_MS + number) for number in range(4)])))
    log.advance_start(2)
    assert finish(log.offset_for_time(NOW_MS, log.end_offset)) == (2, NOW_MS + 2, 0)


def test_segments_below_the_start_of_the_log_are_not_searched() -> None:
    """They stay until retention comes by, and must not be counted as searched, nor have the newest record."""
    log = new_log(config=LogConfig(segment_bytes=100))
    for _ in range(SEGMENTS_AT_ONCE):
        append(log, batch(1, timestamp=NOW_MS + 1_000))
    append(log, batch(1, timestamp=NOW_MS + 500))
    log.advance_start(SEGMENTS_AT_ONCE)
    assert len(log.segments) == SEGMENTS_AT_ONCE + 1
    expected = (SEGMENTS_AT_ONCE, NOW_MS + 500, 0)
    assert finish(log.offset_for_time(NOW_MS, log.end_offset)) == expected
    assert finish(log.max_timestamp(log.end_offset)) == expected


@pytest.mark.parametrize(
    "search,found,read",
    [
        (
            lambda log: log.offset_for_time(NOW_MS + 1, log.end_offset, blocking=False),
            1,
            [".timeindex", ".index", "2.timeindex", "2.index", "4.timeindex", "4.index"],
        ),
        (
            lambda log: log.max_timestamp(log.end_offset, blocking=False),
            5,
            [".timeindex", "2.timeindex", "4.timeindex"],
        ),
    ],
    ids=["first from a time", "newest"],
)
def test_an_impatient_plan_leaves_each_look_at_an_index_to_a_thread(
    search: Callable[[Log], Steps[Found]], found: int, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, brought = CrashingFiles(), list[tuple[str, int]]()
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, LogConfig(segment_bytes=200, index_interval_bytes=0), NOW_MS)
    for number in range(6):
        append(log, batch(1, timestamp=NOW_MS + number))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    store.close()
    log = open_store(files).logs["t", 0]

    def read_cached(file: OpenFile, length: int, position: int) -> bytes | None:
        is_there = (file.path, position) in brought or file.path.endswith(".log")
        return bytes(file.node.content[position : position + length]) if is_there else None

    monkeypatch.setattr(OpenFile, "read_cached", read_cached)
    steps, before = None, files.reads
    while steps is None:
        try:
            steps = search(log)
        except WouldBlock as cold:
            brought.append(cold.place)
            cold.release()
        assert files.reads == before
    assert [path.rpartition("/")[2].lstrip("0") for path, _ in brought] == read
    result = finish(steps)
    assert isinstance(result, TimestampOffset)
    assert result.offset == found
