"""Which batches come into blocks, and how large blocks are."""

from random import Random

import pytest

from headgate.protocol.records import Buffer, batch, compression
from headgate.protocol.records.batch import Record, read_header
from headgate.spark.reading.log_reader import FetchedBatches
from headgate.spark.records import blocks as module
from headgate.spark.records.blocks import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE, Block, BlockReader, TimeRange
from headgate.spark.records.tests.topics import EVERYTHING, random_messages
from headgate.spark.records.varints import PADDING


def of(offset: int, *values: bytes, codec: int = 0, time: int = 5) -> bytes:
    return bytes(batch.build([Record(-1, time, None, one) for one in values], base_offset=offset, compression=codec))


def blocks_of(*pieces: bytes, start: int = 0, end: int = 1 << 40) -> list[Block]:
    wanted = EVERYTHING._replace(start_offset=start, end_offset=end)
    return list(BlockReader(wanted).blocks(FetchedBatches(one, (), 0) for one in pieces))


@pytest.mark.parametrize("codec", range(5))
def test_batches_of_several_pieces_share_a_block(codec: int) -> None:
    (block,) = blocks_of(of(0, b"a", codec=codec) + of(1, b"b"), of(2, b"c", b"d", codec=codec))
    assert block.records_count == 4
    assert [(one.base_offset, one.last_offset, one.records_count) for one in block.batches] == [
        (0, 0, 1),
        (1, 1, 1),
        (2, 3, 2),
    ]
    assert len(block.data) == block.size + len(PADDING)


def test_only_batches_of_the_range_are_in_blocks() -> None:
    data = b"".join(of(offset, b"x", b"y") for offset in range(0, 10, 2))
    (block,) = blocks_of(data, start=3, end=6)
    assert [one.base_offset for one in block.batches] == [2, 4]
    assert blocks_of(data, start=10) == []


def test_nothing_behind_the_range_is_read() -> None:
    def pieces() -> object:
        yield FetchedBatches(of(0, b"x") + of(5, b"y"), (), 6)
        raise AssertionError

    wanted = EVERYTHING._replace(end_offset=3)
    assert len(list(BlockReader(wanted).blocks(pieces()))) == 1  # type: ignore[arg-type]


def test_a_block_is_closed_before_it_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_RECORDS", 3)
    found = blocks_of(b"".join(of(offset, b"x", b"y") for offset in range(0, 6, 2)) + of(6, *[b"z"] * 9))
    assert [block.records_count for block in found] == [2, 2, 2, 9]
    monkeypatch.setattr(module, "BLOCK_BYTES", 50)
    assert [len(block.batches) for block in blocks_of(of(0, b"x" * 30) + of(1, b"x" * 30) + of(2, b"y"))] == [1, 2]


def test_old_messages_keep_their_timestamp_type() -> None:
    random = Random(1)
    (block,) = blocks_of(bytes(random_messages(random, 0, 0)))
    assert {one.timestamp_type for one in block.batches} == {NO_TIMESTAMP_TYPE}
    (block,) = blocks_of(of(0, b"x"))
    assert {one.timestamp_type for one in block.batches} == {CREATE_TIME}


def test_log_append_time_is_the_time_of_all_records() -> None:
    data = bytes(batch.build([Record(0, 1), Record(1, 2)], log_append_time_ms=77))
    (block,) = blocks_of(data)
    assert (block.batches[0].time, block.batches[0].timestamp_type) == (77, LOG_APPEND_TIME)


@pytest.mark.parametrize(
    "times, is_excluded",
    [
        (TimeRange(None, None), False),
        (TimeRange(31, None), True),
        (TimeRange(30, None), False),
        (TimeRange(None, 9), False),  # the header does not have the smallest time
    ],
)
def test_headers_exclude_what_cannot_match(times: TimeRange, is_excluded: bool) -> None:
    header = read_header(batch.build([Record(-1, one) for one in (20, 30, 10)]))
    assert times.excludes(header) is is_excluded


def test_a_delete_horizon_is_no_time_of_a_record() -> None:
    header = read_header(batch.build([Record(-1, 20)]))
    assert TimeRange(None, 10).excludes(header)
    assert not TimeRange(None, 10).excludes(header._replace(attributes=batch.DELETE_HORIZON, base_timestamp=20))


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_that_does_not_fit_begins_the_next_block(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 1000)
    data = b"".join(of(offset, b"x" * size, codec=codec) for offset, size in enumerate((10, 400, 700, 10, 960, 10)))
    wanted = EVERYTHING._replace(end_offset=6)
    seen = [
        (len(block.batches), block.data[: block.size].tobytes())  # type: ignore[union-attr]
        for block in BlockReader(wanted).blocks([FetchedBatches(data, (), 6)])
    ]
    assert sum(count for count, _ in seen) == 6
    assert all(len(records) <= 1000 for _, records in seen)
    assert b"".join(records for _, records in seen).count(b"x") == 2090


@pytest.mark.parametrize("size", [2100, 4100, 6000])
def test_batches_of_equal_size_are_decompressed_once(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 8000)
    into, calls = compression.decompress_into, list[int]()

    def counted(codec: int, data: Buffer, output: memoryview) -> int | None:
        calls.append(len(output))
        return into(codec, data, output)

    monkeypatch.setattr(compression, "decompress_into", counted)
    found = blocks_of(b"".join(of(offset, b"x" * size, codec=4) for offset in range(30)))
    assert sum(len(block.batches) for block in found) == 30
    assert len(calls) <= 31


def test_a_large_batch_does_not_make_blocks_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 8000)
    data = of(0, b"x" * 7900, codec=4) + b"".join(of(offset, b"y" * 50, codec=4) for offset in range(1, 101))
    assert [len(block.batches) for block in blocks_of(data)] == [1, 100]


@pytest.mark.parametrize("claimed,count,is_excluded", [(-1, 2, False), (9, 1, False), (10, 2, False), (10, 1, True)])
def test_no_batch_is_excluded_by_a_doubtful_maximum(claimed: int, count: int, is_excluded: bool) -> None:
    """Some producers write -1, or the base timestamp; the format `kafka` compares the records."""
    header = batch.read_header(batch.build([Record(timestamp=10), Record(timestamp=40)][:count]))
    assert TimeRange(20, None).excludes(header._replace(max_timestamp=claimed)) is is_excluded
