"""Batches of the bench against kio, which checks framing, CRC and the length of every record."""

import pytest
from kio.records.readers import read_batch

from headgate.tools.bench.requests import frames
from headgate.tools.bench.rows.row import BATCH_1M, BATCH_4K, BATCH_16K, BATCH_TINY, BatchShape


@pytest.mark.parametrize("shape", [BATCH_TINY, BATCH_4K, BATCH_16K, BATCH_1M])
def test_kio_reads_every_record(shape: BatchShape) -> None:
    data = shape.build()
    batch, size = read_batch(data, 0)
    assert size == len(data)
    assert [record.offset for record in batch.records] == list(range(shape.records))
    assert {len(record.value or b"") for record in batch.records} == {shape.value_bytes}
    assert (batch.producer_id, batch.base_sequence, batch.attributes) == (-1, -1, 0)
    assert batch.last_offset_delta == shape.records - 1


def test_sizes_are_what_the_rows_say() -> None:
    assert 15_000 < len(BATCH_16K.build()) <= 16 * 1024
    assert 900_000 < len(BATCH_1M.build()) <= 1024 * 1024
    assert 3_500 < len(BATCH_4K.build()) <= 4 * 1024


def test_the_time_is_the_one_given() -> None:
    batch, _ = read_batch(frames.batch([b"v"], timestamp_ms=1_234_000), 0)
    assert batch.records[0].timestamp.timestamp() == 1_234
