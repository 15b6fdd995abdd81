"""Batches that are decompressed in pieces."""

from random import Random

import pytest

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import batch, compression
from headgate.protocol.records.batch import HEADER_SIZE, Record
from headgate.spark.records import blocks
from headgate.spark.records.columns import UnreadableRecords
from headgate.spark.records.large_batches import pieces
from headgate.spark.records.tests.topics import EVERYTHING, expected, random_records, rows

RECORDS = [Record(index, index, b"k", b"v" * (index % 90)) for index in range(500)]


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("piece_bytes, piece_records", [(1, 1000), (64, 1000), (5000, 7), (1 << 20, 1000)])
def test_pieces_are_whole_records(codec: int, piece_bytes: int, piece_records: int) -> None:
    body = batch.build(RECORDS, compression=codec)[HEADER_SIZE:]
    plain = bytes(compression.decompress(codec, body))
    found = list(pieces(codec, body, len(RECORDS), piece_bytes, piece_records))
    assert b"".join(one.data[: one.size] for one in found) == plain
    assert sum(one.records_count for one in found) == len(RECORDS)
    assert max(one.records_count for one in found) <= piece_records


@pytest.mark.slow
@pytest.mark.parametrize("large_bytes", [3000, 1 << 20])
@pytest.mark.parametrize("codec", range(5))
def test_rows_of_large_batches_are_the_same(codec: int, large_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "LARGE_BYTES", large_bytes)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 3000)
    random = Random(codec)
    small = bytes(batch.build([Record(0, 1, b"a", b"b")], base_offset=0))
    data = small + bytes(batch.build(random_records(random, 1, 40), base_offset=1, compression=codec))
    data += bytes(batch.build([Record(-1, 1, b"a", b"b")], base_offset=20_000))
    wanted = expected(data)
    assert rows(data) == wanted
    middle = wanted[20]["offset"]
    inside = EVERYTHING._replace(start_offset=middle, end_offset=middle + 200)
    assert rows(data, wanted=inside) == [row for row in wanted if middle <= row["offset"] < middle + 200]


@pytest.mark.parametrize("codec", range(5))
def test_damage_is_told(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    body = bytes(batch.build(RECORDS, compression=codec)[HEADER_SIZE:])
    for count in (len(RECORDS) - 1, len(RECORDS) + 1):
        with pytest.raises(KafkaError, match="records"):
            list(pieces(codec, body, count, 1000, 1000))
    with pytest.raises(KafkaError):
        list(pieces(codec, body[: len(body) // 2], len(RECORDS), 1000, 1000))
    monkeypatch.setattr(blocks, "LARGE_BYTES", 100)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 5000)
    cut = batch.build(RECORDS, compression=codec)
    del cut[-20:]
    cut[8:12] = (len(cut) - batch.LOG_OVERHEAD).to_bytes(4, "big")
    batch.set_crc(cut)
    with pytest.raises(UnreadableRecords):
        rows(bytes(cut))
