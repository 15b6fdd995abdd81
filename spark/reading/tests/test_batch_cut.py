"""Whole batches are cut out of bytes, whatever part of a file these are."""

from __future__ import annotations

import struct

import pytest

from headgate.protocol.records import legacy
from headgate.protocol.records.batch import Record, build, patch
from headgate.protocol.records.compression import GZIP
from headgate.spark.reading.batch_cut import cut
from headgate.storage.segment import legacy_messages


def some(base_offset: int, count: int = 2, **settings: bool) -> bytearray:
    made = build([Record(value=b"v" * 10)] * count, **settings)
    patch(made, base_offset, 0)
    return made


BATCHES = [some(0), some(2, 3), some(9, 1), some(10)]
DATA = bytes(b"".join(BATCHES))
END = 12


def test_all_batches_of_a_file() -> None:
    found = cut(DATA, 0, END)
    assert (found.start, found.end, found.first_offset, found.next_offset) == (0, len(DATA), 0, END)
    assert found.is_done
    assert not found.has_transactions


@pytest.mark.parametrize(
    "start, end, batches", [(1, 2, [0]), (2, 3, [1]), (3, 9, [1]), (5, 10, [2]), (4, 12, [1, 2, 3])]
)
def test_a_range_has_the_batches_that_reach_into_it(start: int, end: int, batches: list[int]) -> None:
    found = cut(DATA, start, end)
    assert DATA[found.start : found.end] == b"".join(BATCHES[number] for number in batches)
    assert found.is_done


def test_a_gap_without_batches_is_done_at_the_next_batch() -> None:
    found = cut(DATA, 5, 8)
    assert found.start == found.end == len(BATCHES[0] + BATCHES[1])
    assert found.is_done
    assert found.next_offset == 5


def test_pieces_of_any_length_give_the_same_batches() -> None:
    for length in range(len(DATA)):
        first = cut(DATA[:length], 1, END)
        assert first.problem is None
        assert not first.is_done
        assert not first.needed or first.end + first.needed > length
        rest = cut(DATA[first.end :], first.next_offset, END)
        assert DATA[first.start : first.end] + DATA[first.end :][rest.start : rest.end] == DATA
        assert rest.is_done


def test_the_size_of_a_batch_that_is_too_long_is_known() -> None:
    found = cut(DATA[:40], 0, END)
    assert (found.start, found.end, found.needed) == (0, 0, len(BATCHES[0]))
    assert cut(DATA[:20], 0, END).needed == 0


def test_transactional_batches_are_noticed() -> None:
    data = DATA + some(12, is_transactional=True)
    assert cut(data, 0, 14).has_transactions
    assert not cut(data, 0, 12).has_transactions


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, GZIP])
def test_messages_come_before_batches(magic: int, codec: int) -> None:
    records = [Record(offset=number, timestamp=-1 if magic == 0 else 5, value=b"v") for number in range(4)]
    messages = b"".join(bytes(legacy.build(records[at : at + 2], magic, codec=codec)) for at in (0, 2))
    data = messages + bytes(some(4))
    found = cut(data, 1, 6)
    assert found.next_offset == 6
    assert found.is_done
    kept = data[found.start : found.end]
    assert [record.offset for record in legacy.iterate(kept)][-4:] == [2, 3, 4, 5]
    assert legacy_messages.whole_bytes(kept) == len(kept)


def test_the_smallest_message_at_the_end_is_whole() -> None:
    message = bytes(legacy.build([Record(offset=0)], 0))
    assert len(message) == 26
    found = cut(message, 0, 1)
    assert (found.end, found.next_offset) == (26, 1)


@pytest.mark.parametrize(
    "position, form, value, problem",
    [(16, "b", 3, "magic 3"), (16, "b", -1, "magic 255"), (8, ">i", 5, "no batch"), (8, ">i", -1, "no batch"),
     (23, ">i", -3, "offsets 2 to -1"), (0, ">q", 0, "offsets 0 to 2 follow 1")],
)  # fmt: skip
def test_other_bytes_are_named(position: int, form: str, value: int, problem: str) -> None:
    data = bytearray(DATA)
    struct.pack_into(form, data, len(BATCHES[0]) + position, value)
    found = cut(bytes(data), 0, END)
    assert problem in str(found.problem)
    assert found.end == len(BATCHES[0])
    assert found.next_offset == 2
