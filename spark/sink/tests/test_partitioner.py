"""The hash against its definition, byte by byte, and against values that Kafka's own tests state."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

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


def one_hash(key: bytes) -> int:
    """The definition, for one key."""
    mask, multiplier = 0xFFFFFFFF, 0x5BD1E995
    found = 0x9747B28C ^ len(key)
    whole = len(key) - len(key) % 4
    for start in range(0, whole, 4):
        word = int.from_bytes(key[start : start + 4], "little") * multiplier & mask
        word = (word ^ word >> 24) * multiplier & mask
        found = found * multiplier & mask ^ word
    if rest := key[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * multiplier & mask
    found = (found ^ found >> 13) * multiplier & mask
    return found ^ found >> 15


def test_known_hashes() -> None:
    assert hashes(list(KNOWN)) == [value & 0xFFFFFFFF for value in KNOWN.values()]


@pytest.mark.parametrize("seed", range(5))
def test_keys_of_all_lengths_together(seed: int) -> None:
    rng = random.Random(seed)
    keys = [rng.randbytes(rng.choice([0, 1, 2, 3, 4, 5, 7, 8, 31, 300])) for _ in range(500)]
    assert hashes(keys) == [one_hash(key) for key in keys]


def test_no_keys_at_all() -> None:
    assert hashes([]) == []
    assert hashes([None, b""]) == [one_hash(b"")] * 2


def test_equal_keys_share_a_partition_and_rows_without_a_key_fill_all() -> None:
    keys: list[bytes | None] = [b"a", None, b"a", None, b"b", None, None]
    data, starts, lengths = binary_parts(pa.array(keys, pa.binary()))
    chosen = choose(murmur2(data, starts, np.maximum(lengths, 0)), lengths >= 0, 4, first=3).tolist()
    expected = [(one_hash(key) & 0x7FFFFFFF) % 4 for key in (b"a", b"b")]
    assert [chosen[0], chosen[2], chosen[4]] == [expected[0], expected[0], expected[1]]
    assert [chosen[index] for index in (1, 3, 5, 6)] == [3, 0, 1, 2]
