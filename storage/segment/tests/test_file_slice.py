"""A planned piece of a file: its bytes, how long they are to be had, what is remembered of them."""

from __future__ import annotations

import pytest

from headgate.protocol.steps import finish
from headgate.storage.segment.file_slice import FileSlice
from headgate.storage.tests.builders import NOW_MS, SMALL, append, batch, content, open_store
from headgate.storage.tests.crashing_files import CrashingFiles
from headgate.storage.tests.segments import new_segment


def piece_of(position: int, length: int) -> tuple[FileSlice, bytes]:
    """A piece, and the bytes that it should have."""
    segment = new_segment(batches=4)
    return segment.slice(position, length), segment.file.read_at(length, position)


def test_a_part_of_it_ends_where_it_does() -> None:
    piece, data = piece_of(10, 50)
    assert len(piece) == 50
    assert (piece.read(), piece.read(40, 100), piece.read(5, 3)) == (data, data[40:], data[5:8])
    assert finish(piece.read_steps(40, 100)) == data[40:]
    assert bytes(piece.read_cached(5, 3) or b"") == data[5:8]


def test_what_a_reader_passed_is_known_to_the_next_one_of_that_file() -> None:
    segment = new_segment(batches=4)
    first = segment.slice(10, 50)
    first.note_passed(20)
    assert first.passed == (0, 20)
    behind = segment.slice(30, 50)
    assert behind.passed == (-20, 0)
    behind.note_passed(15)
    assert first.passed == (0, 35), "it goes on where the first ended"
    segment.slice(12, 50).note_passed(3)
    assert first.passed == (0, 35), "less is nothing new"
    segment.slice(100, 50).note_passed(5)
    assert first.passed == (90, 95), "there is a gap between them"


def test_a_slice_outlives_its_segment() -> None:
    files = CrashingFiles()
    store = open_store(files)
    log = store.create("t", 0, bytes(16), SMALL, NOW_MS)
    append(log, batch(2))
    expected = content(log)
    piece = log.read(0, 1000, 2, at_least_one=True)
    assert piece is not None
    store.delete("t", 0)
    assert piece.read() == expected
    assert files.open_handles == 1
    piece.release()
    piece.release()
    assert files.open_handles == 0
    with pytest.raises(ValueError, match="released"):
        piece.read()


def test_who_was_released_is_of_no_use() -> None:
    piece, _ = piece_of(10, 50)
    piece.release()
    for use in (piece.read, lambda: piece.is_cached(0, 1), lambda: piece.warm(0, 1), lambda: piece.read_cached(0, 1)):
        with pytest.raises(ValueError, match="released"):
            use()
