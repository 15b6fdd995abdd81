"""The oldest unread record: exact in every kind of batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.protocol.lag.measurement import UNKNOWN_TIMESTAMP
from headgate.protocol.lag.oldest_unread import UnreadResult, first_record, time_by_header
from headgate.protocol.records import batch
from headgate.protocol.records.compression import GZIP, LZ4, SNAPPY, ZSTD

END = 100


def batch_of(*offsets_and_times: tuple[int, int], base_offset: int, last_offset: int = -1, **options: bool) -> bytes:
    """A batch as compaction leaves it: some records, and the range that it had."""
    records = [batch.Record(offset, timestamp, b"k", b"v") for offset, timestamp in offsets_and_times]
    data = batch.build(records, base_offset=base_offset, **options)
    if last_offset >= 0:
        header = batch.read_header(data)
        batch.HEADER.pack_into(data, 0, *header._replace(last_offset_delta=last_offset - base_offset))
        batch.set_crc(data)
    return bytes(data)


TEN_TO_TWELVE = batch_of((10, 1000), (11, 1100), (12, 900), base_offset=10)


@pytest.mark.parametrize("offset, timestamp", [(10, 1000), (11, 1100), (12, 900), (3, 1000)])
def test_a_record_in_the_middle_of_a_batch_is_found(offset: int, timestamp: int) -> None:
    """The record's own time, whatever the order of times; before the batch there is a gap."""
    assert first_record(TEN_TO_TWELVE, offset, END) == (timestamp, -1)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_record_in_a_compressed_batch_is_found(codec: int) -> None:
    data = batch.build([batch.Record(-1, 1000), batch.Record(-1, 2000)], base_offset=5, compression=codec)
    assert first_record(data, 6, END) == (2000, -1)


def test_log_append_time_counts() -> None:
    data = batch.build([batch.Record(-1, 1000)], base_offset=5, log_append_time_ms=7777)
    assert first_record(data, 5, END) == (7777, -1)


def test_records_removed_by_compaction_are_skipped() -> None:
    """Of the batch 20 to 29 the record 22 is left; the next is 30."""
    data = batch_of((22, 2200), base_offset=20, last_offset=29) + batch_of((30, 3000), base_offset=30)
    assert first_record(data, 20, END) == (2200, -1)
    assert first_record(data, 23, END) == (3000, -1)


def test_markers_and_empty_batches_are_no_records() -> None:
    marker = batch_of((20, 1), base_offset=20, is_control=True, is_transactional=True)
    empty = batch_of(base_offset=21, last_offset=25)
    assert first_record(marker + empty + batch_of((26, 2600), base_offset=26), 20, END) == (2600, -1)
    assert first_record(marker + empty, 20, END) == (None, 26), "go on behind them"
    assert first_record(marker + empty, 20, 26) == (None, -1), "that is all there is"


def test_records_behind_the_end_are_not_unread() -> None:
    """The end was asked for before the fetch."""
    assert first_record(batch_of((30, 3000), base_offset=30), 20, 30) == (None, -1)


def test_an_incomplete_batch_is_not_read() -> None:
    assert first_record(TEN_TO_TWELVE[:-1], 10, END) is None
    assert first_record(TEN_TO_TWELVE[:40], 10, END) is None
    assert first_record(b"", 10, END) is None
    assert first_record(TEN_TO_TWELVE + TEN_TO_TWELVE[:-1], 13, END) == (UNKNOWN_TIMESTAMP, -1), "older than asked"


@pytest.mark.parametrize("spoilt", [bytes(16) + b"\1", TEN_TO_TWELVE[:60] + b"\xff"], ids=["magic", "count"])
def test_an_unreadable_batch_has_no_known_time(spoilt: bytes) -> None:
    """Magic 1, or a count of records that are not there."""
    data = spoilt + TEN_TO_TWELVE[len(spoilt) :]
    assert first_record(data, 13, END) == (UNKNOWN_TIMESTAMP, -1)


@given(
    times=st.lists(st.integers(0, 50), min_size=1, max_size=6),
    offset=st.integers(0, 20),
    end=st.integers(5, 20),
    is_append_time=st.booleans(),
    is_control=st.booleans(),
    removed=st.integers(-1, 5),
)
def test_a_header_tells_what_the_records_tell(
    times: list[int], offset: int, end: int, is_append_time: bool, is_control: bool, removed: int
) -> None:
    """Or it tells nothing, where a record was removed, or the offset is among records of their own times."""
    rows = [(5 + number, time) for number, time in enumerate(times) if number != removed]
    data = batch.build(
        [batch.Record(at, time) for at, time in rows],
        base_offset=5,
        log_append_time_ms=77 if is_append_time else -1,
        is_control=is_control,
    )
    header = batch.read_header(data)._replace(last_offset_delta=len(times) - 1)
    batch.HEADER.pack_into(data, 0, *header)
    found = time_by_header(header, offset, end)
    if found is not None:
        expected = first_record(data, offset, end)
        passed = UnreadResult(UNKNOWN_TIMESTAMP)  # only a broker's answer is suspicious if its batches are too old
        assert found == expected or (expected == passed and header.last_offset < offset)
    else:
        assert offset > 5 or removed >= 0


def test_a_batch_before_the_offset_is_passed() -> None:
    header = batch.read_header(TEN_TO_TWELVE)
    assert time_by_header(header, 13, END) == UnreadResult(None, 13)
    assert time_by_header(header, 13, 13) == UnreadResult(None)
