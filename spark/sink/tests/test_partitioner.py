"""The hash against that of one key, and against values that Kafka's own tests state."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from headgate.protocol.client.key_partitioner import murmur2 as murmur2_of_key
from headgate.spark.sink.encoding import binary_parts
from headgate.spark.sink.partitioner import choose, murmur2

# From Kafka's UtilsTest
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def hashes(keys: Sequence[bytes | None]) -> list[int]:
    data, starts, lengths = binary_parts(pa.array(keys, pa.binary()))
    return [int(one) for one in murmur2(data, starts, np.maximum(lengths, 0))]


def test_known_hashes() -> None:
    assert hashes(list(KNOWN)) == [value & 0xFFFFFFFF for value in KNOWN.values()]


@pytest.mark.parametrize("seed", range(5))
def test_keys_of_all_lengths_together(seed: int) -> None:
    rng = random.Random(seed)
    keys = [rng.randbytes(rng.choice([0, 1, 2, 3, 4, 5, 7, 8, 31, 300])) for _ in range(500)]
    assert hashes(keys) == [murmur2_of_key(key) for key in keys]


def test_no_keys_at_all() -> None:
    assert hashes([]) == []
    assert hashes([None, b""]) == [murmur2_of_key(b"")] * 2


def test_equal_keys_share_a_partition_and_rows_without_a_key_fill_all() -> None:
    keys: list[bytes | None] = [b"a", None, b"a", None, b"b", None, None]
    data, starts, lengths = binary_parts(pa.array(keys, pa.binary()))
    chosen = choose(murmur2(data, starts, np.maximum(lengths, 0)), lengths >= 0, 4, first=3).tolist()
    expected = [(murmur2_of_key(key) & 0x7FFFFFFF) % 4 for key in (b"a", b"b")]
    assert [chosen[0], chosen[2], chosen[4]] == [expected[0], expected[0], expected[1]]
    assert [chosen[index] for index in (1, 3, 5, 6)] == [3, 0, 1, 2]
