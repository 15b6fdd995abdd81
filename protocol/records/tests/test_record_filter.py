"""Keys of records, and batches without some of them: as a loop over the records says, for all shapes of records."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import record_filter
from headgate.protocol.records.batch import HEADER_SIZE, BatchHeader, Record, build, iterate, read_header, with_records
from headgate.protocol.records.record_filter import ENTRY_BYTES, MAX_KEY_BYTES, offset_map_key
from headgate.protocol.steps import finish
from headgate.protocol.tests.examples import first_in_unit, share

NOW_MS = 1_700_000_000_000
# Lengths around where varints grow, and where a digest takes the place of a key
KEYS = st.sampled_from([None, b"", b"a", b"b", b"k" * 30, b"k" * 31, b"k" * 32, b"k" * 63, b"k" * 64, b"k" * 9000])
VALUES = st.sampled_from([None, b"", b"v", b"v" * 63, b"v" * 64, b"v" * 200, b"v" * 8192])
HEADERS = st.lists(
    st.tuples(st.sampled_from(["", "h", "n" * 70]), st.sampled_from([None, b"", b"x" * 100])), max_size=3
)
TIMES = st.sampled_from([0, 1, 62, 63, 64, 8191, 8192, -1, -64, -65, 10**9, -(10**9)])


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """A batch at offset 1000, with gaps between its records as an earlier compaction leaves them."""
    count = draw(st.integers(1, 20))
    offsets, offset = [], 1000
    for _ in range(count):
        offset += draw(st.sampled_from([0, 0, 0, 1, 70, 9000]))
        offsets.append(offset)
        offset += 1
    records = [Record(offset, NOW_MS + draw(TIMES), draw(KEYS), draw(VALUES), draw(HEADERS)) for offset in offsets]
    return bytes(build(records, base_offset=1000))


def parts(data: bytes) -> tuple[BatchHeader, bytes]:
    return read_header(data), data[HEADER_SIZE:]


@pytest.mark.slow
@given(batches())
def test_each_key_has_its_last_offset(data: bytes) -> None:
    expected = {offset_map_key(record.key): record.offset for record in iterate(data) if record.key is not None}
    keys = finish(record_filter.key_offsets_steps(*parts(data)))
    assert keys.table == expected
    assert keys.is_plain == all(None not in (record.key, record.value) for record in iterate(data))


@pytest.mark.slow
@given(batches(), st.dictionaries(KEYS.filter(lambda key: key is not None), st.integers(990, 30_000)), st.booleans())
def test_superseded_records_are_removed(data: bytes, later: dict[bytes, int], keeps_tombstones: bool) -> None:
    header, body = parts(data)
    table = {offset_map_key(key): offset for key, offset in later.items()}
    kept = finish(record_filter.filter_steps(header, body, table, keeps_tombstones=keeps_tombstones))
    expected = [
        record
        for record in iterate(data)
        if record.key is not None
        and later.get(record.key, -1) <= record.offset
        and (record.value is not None or keeps_tombstones)
    ]
    assert kept.count == len(expected)
    assert kept.tombstones == sum(record.value is None for record in expected)
    made = with_records(header._replace(records_count=kept.count), b"".join(kept.parts))
    assert list(iterate(made)) == expected
    if expected:
        newest = record_filter.max_timestamp(header, b"".join(kept.parts), kept.count)
        assert newest == max(record.timestamp for record in expected)


@pytest.mark.slow
@given(batches(), st.data())
def test_records_are_retained_by_their_offsets(data: bytes, choice: st.DataObject) -> None:
    header, body = parts(data)
    records = list(iterate(data))
    wanted = choice.draw(st.lists(st.sampled_from(records), min_size=1, unique_by=lambda record: record.offset))
    offsets = sorted(record.offset for record in wanted)
    kept = finish(record_filter.retain_offsets_steps(header, body, offsets))
    made = with_records(header._replace(records_count=kept.count), b"".join(kept.parts))
    assert list(iterate(made)) == [record for record in records if record.offset in offsets]


@pytest.mark.slow
@given(batches())
def test_all_records_are_retained_without_a_table(data: bytes) -> None:
    header, body = parts(data)
    kept = finish(record_filter.filter_steps(header, body, None, keeps_tombstones=False))
    assert (b"".join(kept.parts), kept.count) == (body, header.records_count)
    assert kept.tombstones == sum(record.value is None for record in iterate(data))


@pytest.mark.slow
@given(batches(), st.sampled_from([0, 1, -1, 64, 10**12, -(10**12)]))
def test_shifted_deltas_and_base_give_the_same_timestamps(data: bytes, shift_ms: int) -> None:
    header, body = parts(data)
    moved = finish(record_filter.shift_timestamps_steps(body, header.records_count, shift_ms))
    made = with_records(header._replace(base_timestamp=header.base_timestamp - shift_ms), moved)
    assert list(iterate(made)) == list(iterate(data))


@pytest.mark.slow
@settings(max_examples=share(200))
@given(batches(), st.data())
def test_a_damaged_batch_is_refused_or_read_like_a_consumer(data: bytes, choice: st.DataObject) -> None:
    """Never anything in between: else the keys of what nobody can read would stand for others."""
    header, body = parts(data)
    place = choice.draw(st.integers(0, len(body) - 1))
    byte = choice.draw(st.integers(0, 255))
    damaged = body[:place] + bytes([byte]) + body[place + 1 :]
    try:
        keys, _ = finish(record_filter.key_offsets_steps(header, damaged))
        kept = finish(record_filter.filter_steps(header, damaged, {}, keeps_tombstones=True))
    except KafkaError:
        return
    made = with_records(header, damaged)
    fault = fault_of(made)
    if fault:  # what is in a name of a header, or how far a time is off, is not looked at
        assert "codec" in fault or "timestamp" in fault
        return
    records = list(iterate(made))
    assert keys == {offset_map_key(record.key): record.offset for record in records if record.key is not None}
    assert kept.count == sum(record.key is not None for record in records)


def fault_of(data: bytes | bytearray) -> str:
    """What a consumer finds wrong."""
    try:
        list(iterate(data))
    except KafkaError as error:
        return error.message
    return ""


@pytest.mark.parametrize("cut", [1, 3, 10])
def test_missing_and_further_bytes_are_refused(cut: int) -> None:
    header, body = parts(bytes(build([Record(-1, NOW_MS, b"key", b"value")])))
    for wrong in (body[:-cut], body + bytes(cut)):
        with pytest.raises(KafkaError):
            finish(record_filter.key_offsets_steps(header, wrong))
        with pytest.raises(KafkaError):
            finish(record_filter.filter_steps(header, wrong, {}, keeps_tombstones=True))


def test_offsets_that_go_back_are_refused() -> None:
    data = bytes(build([Record(5, NOW_MS, b"a"), Record(7, NOW_MS, b"b")], base_offset=5))
    header, body = parts(data)
    swapped = body[len(body) // 2 :] + body[: len(body) // 2]
    with pytest.raises(KafkaError, match="offset delta"):
        finish(record_filter.key_offsets_steps(header, swapped))


def test_two_keys_never_share_an_entry() -> None:
    long = b"k" * (MAX_KEY_BYTES + 1)
    assert offset_map_key(b"k" * MAX_KEY_BYTES) == b"k" * MAX_KEY_BYTES
    assert offset_map_key(long) != long
    assert len(offset_map_key(long)) == len(offset_map_key(long * 100)) == MAX_KEY_BYTES + 1


@pytest.mark.slow
@pytest.mark.parametrize("key_bytes", list(first_in_unit([100, 30, 8])))
def test_an_entry_takes_at_most_entry_bytes(key_bytes: int) -> None:
    """At the worst moment: the table has just grown, and had its old and its new form in memory."""
    tracemalloc.start()
    try:
        table: record_filter.OffsetMap = {}
        worst = 0.0
        for number in range(100_000):
            table[offset_map_key(b"%0*d" % (key_bytes, number))] = number + 1_000_000
            if not number % 1000 and number > 40_000:
                _, peak = tracemalloc.get_traced_memory()
                worst = max(worst, peak / len(table))
                tracemalloc.reset_peak()
    finally:
        tracemalloc.stop()
    assert worst <= ENTRY_BYTES
