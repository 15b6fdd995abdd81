"""Both conversions together: against kafka-python, against each other, and against damage."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record, iterate, split
from headgate.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from headgate.protocol.records.legacy import build, is_legacy
from headgate.protocol.records.legacy import iterate as iterate_set
from headgate.protocol.records.tests.sets import (
    built_by_kafka_python,
    down_convert,
    expected,
    magics,
    records,
    theirs,
    up_convert,
    up_convert_stored,
)
from headgate.protocol.tests.examples import share

quick = settings(max_examples=share(25), deadline=None)
codecs = st.sampled_from([NONE, GZIP, SNAPPY, LZ4])


@pytest.mark.parametrize(
    "magic,codec", [(0, NONE), (0, GZIP), (0, SNAPPY), (1, NONE), (1, GZIP), (1, SNAPPY), (1, LZ4)]
)
@quick
@given(some=records)
def test_sets_of_kafka_python_become_batches(magic: int, codec: int, some: list[Record]) -> None:
    ((header, view),) = split(up_convert(built_by_kafka_python(some, magic, codec)))
    assert header.compression == codec
    assert batch.check_crc(view)
    assert list(iterate(view)) == expected(some, magic)


@quick
@given(some=records, magic=magics, codec=codecs)
def test_sets_become_batches(some: list[Record], magic: int, codec: int) -> None:
    ((header, view),) = split(up_convert(build(some, magic, codec=codec)))
    assert (header.compression, header.base_offset) == (codec, 0)
    assert header.max_timestamp == max(one.timestamp for one in expected(some, magic))
    assert list(iterate(view)) == expected(some, magic)


@quick
@given(some=records, magic=magics, codec=codecs, base=st.integers(0, 1 << 60), step=st.integers(1, 1 << 20))
def test_stored_sets_are_read_at_their_offsets(
    some: list[Record], magic: int, codec: int, base: int, step: int
) -> None:
    wanted = expected(some, magic, base, step)
    stored = build([one._replace(offset=base + step * n) for n, one in enumerate(some)], magic, codec=codec)
    assert is_legacy(stored)
    assert list(iterate_set(stored)) == wanted
    converted = up_convert_stored(stored)
    assert list(iterate(converted.data)) == wanted
    assert converted.next_offset == wanted[-1].offset + 1


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@quick
@given(some=records, base=st.integers(0, 1 << 60), step=st.integers(1, 1 << 20), left_out=st.integers(0, 6))
def test_kafka_python_reads_down_converted_batches(
    magic: int, codec: int, some: list[Record], base: int, step: int, left_out: int
) -> None:
    stored = batch.build(
        [one._replace(offset=base + step * n) for n, one in enumerate(some)], base_offset=base, compression=codec
    )
    first = base + step * left_out
    data, next_offset = down_convert(stored, magic, first, 1 << 30)
    assert theirs(data) == expected(some, magic, base, step)[left_out:]
    assert next_offset == max(first, base + step * (len(some) - 1) + 1)


@quick
@given(
    several=st.lists(records, min_size=1, max_size=4),
    magic=magics,
    codec=st.sampled_from([NONE, SNAPPY, LZ4]),
    max_bytes=st.integers(0, 2000),
)
def test_a_reader_with_any_limit_gets_every_record_once(
    several: list[list[Record]], magic: int, codec: int, max_bytes: int
) -> None:
    stored, end = bytearray(), 0
    for some in several:
        stored += batch.build(some, base_offset=end, compression=codec)
        end += len(some)
    seen: list[Record] = []
    while len(seen) < end:
        data, next_offset = down_convert(stored, magic, len(seen), max_bytes)
        given_now = theirs(data)
        assert given_now
        assert len(data) <= max_bytes or len(given_now) == 1
        assert next_offset == len(seen) + len(given_now)
        seen += given_now
    assert seen == expected([*chain(*several)], magic)


@quick
@given(some=records, magic=magics, codec=codecs)
def test_up_and_down_conversion_keep_the_records(some: list[Record], magic: int, codec: int) -> None:
    first = build(some, magic, codec=codec)
    again = down_convert(up_convert_stored(first).data, magic, 0, 1 << 30).data
    assert theirs(again) == expected(some, magic)
    if codec == NONE:
        assert again == first


@quick
@given(data=st.binary(max_size=200), magic=magics)
def test_any_bytes_are_converted_or_refused(data: bytes, magic: int) -> None:
    for call in (up_convert, up_convert_stored, lambda some: down_convert(some, magic, 0, 100)):
        with suppress(KafkaError):
            call(data)


@quick
@given(some=records, magic=magics, codec=codecs, position=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_damaged_bytes_are_converted_or_refused(
    some: list[Record], magic: int, codec: int, position: int, flip: int
) -> None:
    for data in (build(some, magic, codec=codec), batch.build(some, compression=codec)):
        data[position % len(data)] ^= flip
        for call in (up_convert, up_convert_stored, lambda some: down_convert(some, magic, 0, 100)):
            with suppress(KafkaError):
                call(data)


def test_the_first_magic_tells_the_format() -> None:
    assert is_legacy(build([Record()], 0))
    assert is_legacy(build([Record()], 1))
    assert not is_legacy(batch.build([Record()]))
    assert not is_legacy(b"")
