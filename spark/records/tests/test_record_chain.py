"""Where records begin: chains in step give what a loop gives, and damage is found at its record."""

from random import Random
from typing import Any

import numpy as np
import pytest

from headgate.protocol.records.varint import encode_varint
from headgate.spark.records import record_chain
from headgate.spark.records.record_chain import InvalidRecord, follow_chain, record_bounds
from headgate.spark.records.varints import PADDING


def chains(random: Random, batches: int, sizes: tuple[int, ...]) -> tuple[bytes, Any, Any, list[int]]:
    """Batches of records that have lengths only: their bytes, begins, counts, and the positions of all records."""
    data, begins, counts, starts = bytearray(), [], [], []
    for _ in range(batches):
        begins.append(len(data))
        counts.append(random.choice((1, 2, 3, 50, 200)))
        for _ in range(counts[-1]):
            starts.append(len(data))
            size = random.choice(sizes)
            data += encode_varint(size) + bytes(size)
    return bytes(data) + PADDING, np.array([*begins, len(data)]), np.array(counts), [*starts, len(data)]


@pytest.mark.parametrize("batches", [1, 5, 60, 200])
@pytest.mark.parametrize("sizes", [(6,), (6, 63, 64, 100), (10, 10, 10, 9000)])
def test_all_records_are_found(batches: int, sizes: tuple[int, ...]) -> None:
    data, begins, counts, starts = chains(Random(batches), batches, sizes)
    assert record_bounds(data, begins, counts).tolist() == starts


def test_a_chain_is_followed_in_parts() -> None:
    data, _, _, starts = chains(Random(1), 4, (6, 100, 9000))
    count = len(starts) - 1
    first, position = follow_chain(data, 0, count // 2)
    rest, end = follow_chain(data, position, count - count // 2)
    assert [*first, *rest, end] == starts


@pytest.mark.parametrize("batches", [3, 150])
def test_a_batch_with_other_lengths_is_named_by_its_records(batches: int) -> None:
    data, begins, counts, starts = chains(Random(7), batches, (6, 100))
    assert batches < record_chain.CHAINS_IN_STEP or batches > 2 * record_chain.CHAINS_IN_STEP
    number = batches // 2
    spoilt = bytearray(data)
    spoilt[begins[number]] = 2 * 5 if data[begins[number]] != 2 * 5 else 2 * 4
    with pytest.raises(InvalidRecord) as caught:
        record_bounds(bytes(spoilt), begins, counts)
    first = int(counts[:number].sum())
    assert first <= caught.value.index < first + counts[number]
    assert starts[first] == begins[number]


@pytest.mark.parametrize("length", [encode_varint(-1), encode_varint(-9000), b"\xff" * 11])
@pytest.mark.parametrize("batches", [1, 100])
def test_a_length_that_is_none_is_refused(batches: int, length: bytes) -> None:
    data, begins, counts, _ = chains(Random(9), batches, (20,))
    spoilt = data[: begins[-2]] + length + data[begins[-2] + len(length) :]
    with pytest.raises(InvalidRecord):
        record_bounds(spoilt, begins, counts)


def test_a_chain_beyond_the_data_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="behind the end"):
        follow_chain(encode_varint(100) + PADDING, 0, 2)
