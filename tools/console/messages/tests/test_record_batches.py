"""The messages of a piece: whole batches, cut ends, damage."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record
from headgate.protocol.tests.examples import share
from headgate.tools.console.messages.record_batches import FetchedPiece, PieceReader

FIRST = bytes(batch.build([Record(-1, 5, b"a", b"1"), Record(-1, 6, b"b", b"2")], base_offset=10))
SECOND = bytes(batch.build([Record(-1, 7, b"c", b"3")], base_offset=12))


def reader(data: bytes, offset: int = 10, start_offset: int = 0) -> PieceReader:
    return PieceReader(0, FetchedPiece(offset, data, (), start_offset, 13, 13))


def test_messages_come_from_an_offset_on() -> None:
    piece = reader(FIRST + SECOND)
    assert [message.record.offset for message in piece.messages(11)] == [11, 12]
    assert (piece.first_offset, piece.next_offset) == (10, 13)


@pytest.mark.parametrize("cut", range(1, len(SECOND)))
def test_a_cut_batch_at_the_end_is_left_out(cut: int) -> None:
    piece = reader(FIRST + SECOND[:-cut])
    assert len(list(piece.messages(0))) == 2
    assert piece.next_offset == 12


def test_a_deleted_start_moves_the_next_read() -> None:
    assert reader(b"", offset=3, start_offset=9).next_offset == 9


def test_records_that_cannot_be_read_are_one_message() -> None:
    damaged = bytearray(FIRST)
    damaged[61] = 0xFF
    piece = reader(bytes(damaged) + SECOND)
    found = list(piece.messages(11))
    assert [(message.record.offset, message.fault is None) for message in found] == [(11, False), (12, True)]
    assert piece.next_offset == 13


@given(st.binary(max_size=200), st.integers(0, len(FIRST) + len(SECOND)))
@settings(max_examples=share(300))
def test_any_bytes_are_messages_or_an_error_of_kafka(noise: bytes, at: int) -> None:
    whole = FIRST + SECOND
    for data in (noise, whole[:at] + noise + whole[at:], whole[:at] + noise + whole[at + len(noise) :]):
        with suppress(KafkaError):
            assert all(message.record is not None for message in reader(data).messages(0))


def test_a_header_name_that_is_not_utf_8_has_escapes() -> None:
    records = [Record(-1, 5, None, b"a", [("good", b"1"), ("XXname", b"2")]), Record(-1, 6, None, b"b")]
    data = batch.build(records, base_offset=10)
    at = data.index(b"XX")
    data[at : at + 2] = b"\xff\xfe"
    batch.set_crc(data)
    first, second = reader(bytes(data)).messages(10)
    assert first.record.headers == [("good", b"1"), (r"\xff\xfename", b"2")]
    assert (first.fault, second.fault, second.record.value) == (None, None, b"b")
    with pytest.raises(KafkaError, match="cannot be read"):
        list(batch.iterate(data))
