"""The batches that fill a topic."""

from random import Random

import pytest

from headgate.protocol.records import batch, compression
from headgate.spark.bench.topics import BATCH_BYTES, batches, values


@pytest.mark.slow
@pytest.mark.parametrize("size, codec", [(100, compression.NONE), (1024, compression.ZSTD)])
def test_batches_have_the_size_of_a_producer(size: int, codec: int) -> None:
    made, count = batches(size, codec)
    for one in made[:3]:
        header = batch.read_header(one)
        assert (header.records_count, header.compression) == (count, codec)
        assert {len(record.value or b"") for record in batch.iterate(one)} == {size}
        assert BATCH_BYTES / 2 < len(one) < 2 * BATCH_BYTES


def test_documents_compress_about_four_times() -> None:
    plain = b"".join(values(1024, 60, Random(1), compressible=True))
    assert 3 < len(plain) / len(compression.compress(compression.ZSTD, plain)) < 6
