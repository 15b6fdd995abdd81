"""Batches for readers without zstd."""

from __future__ import annotations

import pytest

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record, iterate, read_header
from headgate.protocol.records.compression import GZIP, LZ4, NONE, ZSTD
from headgate.protocol.records.zstd_to_gzip import zstd_to_gzip_steps
from headgate.protocol.steps import finish

SOME = [Record(timestamp=1000 + number, key=b"k", value=b"v" * number, headers=[("h", b"")]) for number in range(5)]
ZSTD_BATCH = batch.build(SOME, base_offset=10, compression=ZSTD, producer_id=4, producer_epoch=1, base_sequence=9)
OTHERS = [batch.build(SOME, base_offset=5 * number, compression=codec) for number, codec in enumerate([NONE, LZ4])]


def converted(data: bytes | bytearray) -> bytearray:
    return finish(zstd_to_gzip_steps(data))


def test_zstd_becomes_gzip_and_nothing_else_changes() -> None:
    made = converted(ZSTD_BATCH)
    assert batch.check_crc(made)
    before, after = read_header(ZSTD_BATCH), read_header(made)
    assert after.compression == GZIP
    assert after._replace(batch_length=0, crc=0, attributes=0) == before._replace(batch_length=0, crc=0, attributes=0)
    assert list(iterate(made)) == list(iterate(ZSTD_BATCH))


def test_other_batches_stay_unchanged() -> None:
    first, second = OTHERS
    assert converted(first + second) == first + second
    assert converted(first + ZSTD_BATCH + second) == first + converted(ZSTD_BATCH) + second


def test_a_cut_tail_is_left_out() -> None:
    for end in range(len(OTHERS[0]), len(OTHERS[0] + ZSTD_BATCH), 9):
        assert converted((OTHERS[0] + ZSTD_BATCH)[:end]) == OTHERS[0]
    assert converted(ZSTD_BATCH[:70]) == b""


def test_a_fault_ends_the_result_and_raises_at_the_start() -> None:
    faulty = batch.assemble(5, ZSTD, 0, 0, 0, 1, b"no zstd")
    assert converted(OTHERS[0] + faulty) == OTHERS[0]
    with pytest.raises(KafkaError) as caught:
        converted(faulty)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_an_empty_batch_stays_unchanged() -> None:
    empty = batch.assemble(0, ZSTD, 4, -1, 1000, 0, b"")
    assert converted(empty) == empty


def test_each_call_of_a_codec_follows_a_yield() -> None:
    assert list(zstd_to_gzip_steps(OTHERS[0])) == []
    assert len(list(zstd_to_gzip_steps(ZSTD_BATCH))) == 2
    large = batch.build([Record(value=bytes(1_000_000))], compression=ZSTD)
    assert len(list(zstd_to_gzip_steps(large))) > 15
