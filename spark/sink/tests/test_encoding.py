"""Encoded columns, read back by the reader of batches that the broker uses."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from headgate.protocol.records import batch, compression
from headgate.protocol.records.batch import Record
from headgate.spark.sink.encoding import MAX_SEQUENCE, EncodedBatch, Rows, advance, as_binary, encode, stamp

pa.array([])  # imports pandas where it is installed: no test's own time
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def columns(records: list[Record]) -> Rows:
    headers = [None if not one.headers else [{"key": k, "value": v} for k, v in one.headers] for one in records]
    return Rows(
        pa.array([one.key for one in records], pa.binary()),
        pa.array([one.value for one in records], pa.binary()),
        pa.array(headers, HEADERS),
        np.array([one.timestamp for one in records], np.int64),
    )


def read(found: EncodedBatch) -> list[Record]:
    """The records of a batch after a stamp, without their offsets, and each check that a broker makes."""
    stamp(found.data, 5, 7, 11)
    [(header, view)] = batch.split(found.data)
    assert batch.check_crc(view)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 7, 11)
    assert header.is_transactional
    assert header.records_count == found.records
    records = list(batch.iterate(view))
    assert [one.offset for one in records] == list(range(found.records))
    assert header.max_timestamp == max(one.timestamp for one in records)
    return [one._replace(offset=-1, headers=tuple(one.headers)) for one in records]


def generate(rng: random.Random, count: int) -> list[Record]:
    sizes = [0, 1, 3, 63, 64, 127, 8191, 8192]
    return [
        Record(
            timestamp=rng.choice([-1, 0, 1, 1_700_000_000_000, 1_700_000_000_000 + rng.randrange(10**7), (1 << 62)]),
            key=rng.choice([None, rng.randbytes(rng.choice(sizes[:6]))]),
            value=rng.choice([None, rng.randbytes(rng.choice(sizes))]),
            headers=tuple(
                ("n" * rng.choice([0, 1, 200]), rng.choice([None, rng.randbytes(rng.choice([0, 70]))]))
                for _ in range(rng.choice([0, 0, 1, 3]))
            ),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("seed", range(3))
def test_rows_come_back_in_order_by_target(seed: int, codec: int) -> None:
    rng = random.Random(f"{seed} {codec}")
    records = generate(rng, 150)
    targets = np.array([rng.randrange(4) for _ in records], np.int32)
    found: dict[int, list[Record]] = {}
    for one in encode(columns(records), targets, 20_000, codec):
        assert one.records == 1 or codec or len(one.data) <= 20_000 + batch.HEADER_SIZE
        found.setdefault(one.target, []).extend(read(one))
    assert found == {
        target: [record for record, its in zip(records, targets, strict=True) if its == target]
        for target in sorted(set(targets.tolist()))
    }


def test_slices_of_columns_are_encoded_from_their_start() -> None:
    records = generate(random.Random(9), 60)
    whole = columns(records)
    sliced = Rows(whole.keys[20:], whole.values[20:], whole.headers[20:], whole.timestamps_ms[20:])
    [one] = encode(sliced, np.zeros(40, np.int32), 1 << 30)
    assert read(one) == records[20:]


def test_no_headers_and_wide_columns() -> None:
    rows = Rows(
        as_binary(pa.array(["a", None], pa.large_string())),
        as_binary(pa.array([b"b", b""], pa.large_binary())),
        None,
        np.zeros(2, np.int64),
    )
    [one] = encode(rows, np.zeros(2, np.int32), 100, compression.NONE)
    assert read(one) == [Record(-1, 0, b"a", b"b"), Record(-1, 0, None, b"")]
    assert list(encode(rows, np.zeros(0, np.int32), 100)) == []


@pytest.mark.parametrize(
    "before, records, after",
    [(0, 5, 5), (MAX_SEQUENCE, 1, 0), (MAX_SEQUENCE - 1, 3, 1), (0, MAX_SEQUENCE, MAX_SEQUENCE)],
)
def test_sequences_begin_again_behind_the_largest(before: int, records: int, after: int) -> None:
    assert advance(before, records) == after


@pytest.mark.sockets
@pytest.mark.slow
def test_columns_do_not_import_pandas() -> None:
    """Its import takes each worker more than a second."""
    program = """
import sys, numpy, pyarrow
from headgate.spark.sink.tasks import TaskIdentity, WriteTarget, encode_rows
keys = pyarrow.nulls(2, pyarrow.binary())
rows = pyarrow.RecordBatch.from_arrays([keys, keys], names=["key", "value"])
target = WriteTarget("", "t", {"t": 2}, 0, 100, 0, 1.0)
assert list(encode_rows(target, [rows], lambda: TaskIdentity(0, 0)))
sys.exit("pandas" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
