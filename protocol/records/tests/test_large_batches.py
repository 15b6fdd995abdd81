"""Batches whose records are not copied after the decompression: readers get the codec's buffer, and find the same."""

from __future__ import annotations

import pytest

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import batch, compression, legacy
from headgate.protocol.records.batch import MAX_TIMESTAMP, MIN_TIMESTAMP, Record, build
from headgate.protocol.records.compression import GZIP, LZ4, SNAPPY, ZSTD
from headgate.protocol.records.record_validation import RecordValidator
from headgate.protocol.records.tests.sets import down_convert, up_convert

NOW_MS = 1_700_000_000_000
RECORDS = [Record(number, NOW_MS + number, b"key %d" % number, bytes(number * 90)) for number in range(100)]
RECORDS += [Record(100, NOW_MS, None, None), Record(101, NOW_MS, b"last", bytes(70_000))]


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on every decompressed batch counts as large."""
    monkeypatch.setattr("headgate.protocol.records.compression._MAPPED_BYTES", 0)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_large_output_is_not_copied(codec: int) -> None:
    plain = compression.decompress_records(codec, compression.compress(codec, b"records"))
    assert isinstance(plain, memoryview)
    assert bytes(plain) == b"records"


def test_a_small_output_is_bytes() -> None:
    assert compression.decompress_records(ZSTD, compression.compress(ZSTD, b"records")) == b"records"
    assert isinstance(compression.decompress_records(ZSTD, compression.compress(ZSTD, b"records")), bytes)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [GZIP, SNAPPY])
def test_a_large_batch_is_converted_as_a_small_one(magic: int, codec: int) -> None:
    stored = build(RECORDS, compression=codec)
    made = down_convert(stored, magic, 0, 1 << 20)
    expected = [record._replace(timestamp=record.timestamp if magic else -1, headers=[]) for record in RECORDS]
    assert list(legacy.iterate(made.data)) == expected
    assert list(batch.iterate(up_convert(made.data))) == expected


@pytest.mark.usefixtures("large")
def test_a_large_batch_is_validated_as_a_small_one() -> None:
    header = batch.read_header(build(RECORDS, compression=ZSTD))
    plain = compression.decompress_records(ZSTD, memoryview(build(RECORDS, compression=ZSTD))[batch.HEADER_SIZE :])
    validator = RecordValidator(header, plain, needs_keys=True, earliest=MIN_TIMESTAMP, latest=MAX_TIMESTAMP)
    while validator.left:
        validator.validate_next(1_000)
    assert [number for number, _, _ in validator.errors] == [100]
    cut = RecordValidator(header, plain[:-1], needs_keys=False, earliest=MIN_TIMESTAMP, latest=MAX_TIMESTAMP)
    with pytest.raises(KafkaError) as caught:
        cut.validate_next(1 << 20)
    assert caught.value.code is ErrorCode.INVALID_RECORD
