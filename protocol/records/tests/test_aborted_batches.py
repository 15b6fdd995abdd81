"""Which batches of a piece belong to aborted transactions."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.protocol.records import batch, control
from headgate.protocol.records.aborted_batches import AbortedBatches
from headgate.protocol.records.batch import Record
from headgate.protocol.records.control import Marker
from headgate.protocol.records.legacy import down_convert_steps
from headgate.protocol.records.tests.sets import down_convert, theirs
from headgate.protocol.steps import finish

ALL = 1 << 30
COMMIT, ABORT = True, False


class Piece:
    """Batches one behind the other, each of one record with its offset for a value."""

    def __init__(self) -> None:
        self.batches: list[bytearray] = []

    def write(self, producer_id: int, *, is_transactional: bool = True) -> Piece:
        offset = len(self.batches)
        numbers: dict[str, Any] = (
            {} if producer_id < 0 else {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
        )
        record = Record(timestamp=1_000, value=b"%d" % offset)
        self.batches.append(batch.build([record], base_offset=offset, is_transactional=is_transactional, **numbers))
        return self

    def end(self, producer_id: int, is_commit: bool) -> Piece:
        made = control.build(Marker(is_commit, 0), producer_id=producer_id, producer_epoch=0, timestamp=1_000)
        batch.patch(memoryview(made), len(self.batches), 0)
        self.batches.append(made)
        return self

    def left(self, *aborted: tuple[int, int], start: int = 0) -> list[int]:
        """The offsets of the batches that are neither aborted nor markers."""
        found = AbortedBatches(aborted)
        left = []
        for data in self.batches[start:]:
            header = batch.read_header(data)
            if not found.includes(header, data) and not header.is_control:
                left.append(header.base_offset)
        return left


def test_a_transaction_is_aborted_up_to_its_marker() -> None:
    piece = Piece().write(7).write(8).write(7).end(7, ABORT).write(7).end(8, COMMIT).end(7, COMMIT)
    assert piece.left((7, 0)) == [1, 4]
    assert piece.left((7, 0), start=2) == [4], "the piece begins within the transaction"
    assert piece.left() == [0, 1, 2, 4]


def test_a_producer_may_abort_again() -> None:
    piece = Piece().write(7).end(7, ABORT).write(7).end(7, COMMIT).write(7).end(7, ABORT).write(7)
    assert piece.left((7, 4), (7, 0)) == [2, 6]


def test_other_batches_of_the_same_producer_count() -> None:
    piece = Piece().write(7, is_transactional=False).write(7).end(7, ABORT).write(-1, is_transactional=False)
    assert piece.left((7, 1)) == [0, 3]


def test_the_marker_of_another_producer_ends_nothing() -> None:
    piece = Piece().write(7).write(8).end(8, ABORT).write(7).end(7, ABORT)
    assert piece.left((7, 0), (8, 1)) == []


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("first_offset", range(7))
def test_message_sets_leave_aborted_records_out_and_keep_offsets(magic: int, first_offset: int) -> None:
    piece = Piece().write(7).write(8).write(7).end(7, ABORT).write(7).end(8, COMMIT).end(7, COMMIT)
    data = b"".join(piece.batches)
    converted = finish(down_convert_steps(data, magic, first_offset, ALL, [(7, 0)]))
    assert [(one.offset, one.value) for one in theirs(converted.data)] == [
        (offset, b"%d" % offset) for offset in (1, 4) if offset >= first_offset
    ]
    assert converted.next_offset == 7
    assert [one.offset for one in theirs(down_convert(data, magic, 0, ALL).data)] == [0, 1, 2, 4]
