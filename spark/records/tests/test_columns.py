"""The columns of random batches, sound and damaged, beside their records as `protocol` reads them."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import batch, control, legacy
from headgate.protocol.records.batch import Record
from headgate.protocol.records.control import Marker
from headgate.protocol.tests.examples import first_in_unit
from headgate.spark.reading.log_reader import FetchedBatches
from headgate.spark.records import blocks
from headgate.spark.records import columns as module
from headgate.spark.records.columns import COLUMNS, Hidden, TimeRange, UnreadableRecords, columns
from headgate.spark.records.tests.topics import (
    EVERYTHING,
    batches_of,
    expected,
    random_batch,
    random_messages,
    random_records,
    rows,
)


def random_log(random: Random, batches: int) -> bytes:
    data, offset = bytearray(), random.randrange(1000)
    for _ in range(batches):
        data += random_batch(random, offset)
        offset = list(batches_of(bytes(data)))[-1][0].last_offset + random.choice((1, 1, 50))
    return bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize("seed", list(first_in_unit(range(40), some=12)))
def test_columns_have_the_records_that_protocol_reads(seed: int) -> None:
    random = Random(seed)
    data = random_log(random, 8)
    wanted = expected(data)
    assert rows(data) == wanted
    names = random.sample(COLUMNS, random.randrange(1, len(COLUMNS)))
    assert rows(data, names=names) == [{name: one[name] for name in names} for one in wanted]
    first, end = sorted(random.randrange(wanted[-1]["offset"] + 2) for _ in range(2))
    inside = [one for one in wanted if first <= one["offset"] < end]
    assert rows(data, wanted=EVERYTHING._replace(start_offset=first, end_offset=end)) == inside


@pytest.mark.slow
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("seed", list(first_in_unit(range(20), some=6)))
def test_messages_of_old_formats_have_their_records(seed: int, magic: int) -> None:
    random = Random(seed)
    data, wanted, offset = b"", [], 5
    for _ in range(8):
        messages = bytes(random_messages(random, offset, magic))
        has_append_time = magic and messages[17] & 8
        data += messages
        wanted += expected(messages, 1 if has_append_time else 0 if magic else -1)
        offset = wanted[-1]["offset"] + 1
    batch_after = bytes(random_batch(random, offset))
    assert rows(data + batch_after) == wanted + expected(batch_after)
    middle = wanted[len(wanted) // 2]["offset"]
    after = [one for one in wanted if one["offset"] >= middle]
    assert rows(data, wanted=EVERYTHING._replace(start_offset=middle)) == after


@pytest.mark.slow
def test_small_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = random_log(Random(5), 3)
    for module_of_limits in (blocks, module):
        monkeypatch.setattr(module_of_limits, "BLOCK_BYTES", 500)
        monkeypatch.setattr(module_of_limits, "BLOCK_RECORDS", 7)
    assert rows(data) == expected(data)


def test_control_and_aborted_batches_are_hidden() -> None:
    def of(offset: int, **options: Any) -> bytes:
        return bytes(batch.build([Record(offset, 0, None, b"%d" % offset)], base_offset=offset, **options))

    def marker(offset: int, producer_id: int, *, is_commit: bool) -> bytes:
        made = control.build(Marker(is_commit, 0), producer_id=producer_id, producer_epoch=0, timestamp=0)
        batch.patch(made, offset, 0)
        return bytes(made)

    transactional = {"is_transactional": True, "producer_epoch": 0}
    data = b"".join(
        (
            of(0, producer_id=1, **transactional),
            of(1, producer_id=2, **transactional),
            marker(2, 1, is_commit=False),
            of(3),
            of(4, producer_id=1, **transactional),
            marker(5, 1, is_commit=True),
            marker(6, 2, is_commit=True),
        )
    )
    hidden = []
    found = rows(FetchedBatches(data, [(1, 0)], 7), on_hidden=lambda *of: hidden.append(of))
    assert [one["offset"] for one in found] == [1, 3, 4]
    assert hidden == [(0, 0, Hidden.ABORTED)] + [(offset, offset, Hidden.CONTROL) for offset in (2, 5, 6)]
    from_one = EVERYTHING._replace(start_offset=2)
    assert [one["offset"] for one in rows(FetchedBatches(data, [(1, 0)], 7), wanted=from_one)] == [3, 4]


def test_a_range_of_times_leaves_out_only_batches_that_cannot_match() -> None:
    def of(offset: int, *times: int, **options: Any) -> bytes:
        return bytes(batch.build([Record(-1, one, None, b"") for one in times], base_offset=offset, **options))

    data = of(0, 10, 50, 20) + of(3, 5) + of(4, 60, 70, log_append_time_ms=65) + of(6, -1)
    assert [one["offset"] for one in rows(data, times=TimeRange(51, None))] == [4, 5, 6]
    assert [one["offset"] for one in rows(data, times=TimeRange(None, 4))] == [0, 1, 2, 6]
    assert [one["offset"] for one in rows(data, times=TimeRange(5, 65))] == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.slow
@pytest.mark.parametrize("seed", list(first_in_unit(range(20), some=6)))
def test_damaged_batches_are_refused_or_read_as_protocol_reads_them(seed: int) -> None:
    random = Random(seed)
    records = random_records(random, 40, 8, largest=130)
    for _ in range(100):
        one = batch.build(records, base_offset=40)
        for _ in range(random.choice((1, 1, 3))):
            one[random.randrange(batch.CRC_START, len(one))] = random.randrange(256)
        batch.set_crc(one)
        try:
            wanted = expected(bytes(one))
        except (KafkaError, OverflowError):
            wanted = None
        try:
            found = rows(bytes(one))
        except UnreadableRecords:
            found = None
        if wanted is None and found is not None:
            names = [header["key"] for row in found for header in row["headers"] or ()]
            found = None if any("\ufffd" in name for name in names) or batch.read_header(one).is_control else found
        if not batch.read_header(one).is_control:
            assert found == wanted


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:-1],
        lambda data: data[:30],
        lambda data: data[:-1] + b"\x01",
        lambda data: data[:16] + b"\x03" + data[17:],
        lambda data: data[:8] + b"\x00\x00\x00\x01" + data[12:],
    ],
)
def test_damage_is_named_with_its_place(spoil: Callable[[bytes], bytes]) -> None:
    data = bytes(batch.build([Record(7, 0, b"k", b"v")], base_offset=7))
    with pytest.raises(UnreadableRecords, match=r"orders-3: the records from offset [07] on cannot be read"):
        rows(spoil(data))


def test_a_time_beyond_microseconds_is_refused_where_it_is_wanted() -> None:
    data = bytes(batch.build([Record(0, 1 << 62, None, b"v")]))
    assert rows(data, names=["value"]) == [{"value": b"v"}]
    with pytest.raises(UnreadableRecords, match="microseconds"):
        rows(data)


def test_unknown_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="there are key, value"):
        list(columns([], EVERYTHING, ["values"]))


@pytest.mark.slow
def test_legacy_damage_is_refused() -> None:
    data = bytearray(legacy.build([Record(0, 5, b"k", b"v"), Record(1, 5, b"k", b"v")], 1))
    data[-1] ^= 1
    with pytest.raises(UnreadableRecords, match="CRC"):
        rows(bytes(data))


def test_rows_stay_when_the_next_block_takes_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_RECORDS", 10)
    random = Random(5)
    each = [random_records(random, first, 10, largest=100) for first in range(0, 20_000, 4000)]
    data = b"".join(bytes(batch.build(records, base_offset=records[0].offset)) for records in each)
    found = list(columns([FetchedBatches(data, (), 0)], EVERYTHING, COLUMNS))
    assert len(found) == len(each)
    assert [row for one in found for row in one.to_pylist()] == rows(data) == expected(data)
