"""Bounds that all logs of a store share."""

from __future__ import annotations

from random import Random

from headgate.storage.disk.pool import Pool
from headgate.storage.files import HeldFiles
from headgate.storage.log import flushing
from headgate.storage.log.log import Log
from headgate.storage.segment.file_slice import FileSlice
from headgate.storage.segment.segment import Segment
from headgate.storage.tests.builders import NOW_MS, SMALL, append, batch, content
from headgate.storage.tests.crashing_files import CrashingFiles


class Holder:
    """Counts how often it was asked to give back."""

    def __init__(self) -> None:
        self.given_back = 0

    def unload(self) -> None:
        self.given_back += 1


def test_the_first_opened_makes_room() -> None:
    pool = Pool(CrashingFiles(), max_open_segments=2)
    first, second, third = Holder(), Holder(), Holder()
    for holder in (first, second, third):
        pool.opened(holder)
    assert (first.given_back, second.given_back, pool.open_segments) == (1, 0, 2)
    pool.closed(second)
    pool.closed(second)
    pool.opened(first)
    assert (third.given_back, pool.open_segments) == (0, 2)


def test_the_longest_unused_index_makes_room() -> None:
    pool = Pool(CrashingFiles(), max_index_bytes=100)
    first, second, third = Holder(), Holder(), Holder()
    pool.used(first, 40)
    pool.used(second, 40)
    pool.used(first, 45)
    pool.used(third, 40)
    assert (first.given_back, second.given_back, third.given_back) == (0, 1, 0)
    pool.unloaded(first)
    pool.used(second, 60)
    assert third.given_back == 0


def test_a_log_works_with_hardly_any_open_files() -> None:
    files = CrashingFiles()
    files.make_directories("/data/t-0")
    pool = Pool(files, max_open_segments=1, max_index_bytes=1)
    log = Log(pool, "/data/t-0", "t", 0, None, SMALL, [Segment.create(pool, "/data/t-0", 0, NOW_MS)], Random(1))
    append(log, *(batch() for _ in range(60)))
    assert len(log.segments) > 2
    pieces = [log.read(segment.base_offset, 1000, log.end_offset, at_least_one=True) for segment in log.segments]
    whole = content(log)
    append(log, batch())
    flushing.flush(log)
    assert files.open_handles <= len(pieces) + 1
    for piece, segment in zip(pieces, log.segments, strict=True):
        assert piece is not None
        assert piece.read() in whole
        assert segment.size
        piece.release()
    assert files.open_handles == 1


def test_pieces_keep_no_more_files_open_than_they_may() -> None:
    files, held = CrashingFiles(), HeldFiles(3)
    logs: list[Log] = []
    for number in range(12):
        directory = f"/{'ab'[number % 2]}/t-{number}"
        files.make_directories(directory)
        pool = logs[number - 2].pool if number >= 2 else Pool(files, max_open_segments=1, held=held)  # two share `held`
        log = Log(pool, directory, "t", number, None, SMALL, [Segment.create(pool, directory, 0, NOW_MS)], Random(1))
        append(log, batch())
        logs.append(log)
    answers: list[list[FileSlice]] = []
    for _ in range(5):  # slow readers, each of all logs
        rows = [log.read(0, 1000, log.end_offset, at_least_one=not number) for number, log in enumerate(logs)]
        answers.append([piece for piece in rows if piece is not None])
    assert all(answers), "the first always comes"
    assert [len(pieces) for pieces in answers] == [3, 2, 2, 2, 2], (
        "of two pools, each has one file that is lent already"
    )
    assert files.open_handles <= held.limit + len(answers) + 2
    for piece in answers[0]:
        piece.release()
    assert not held.is_full
    answers.clear()  # who hangs up releases nothing
    rows.clear()
    assert held.count == 0
    assert files.open_handles == 2, "those of the two pools"


def test_a_file_that_is_lent_already_costs_nothing_more() -> None:
    files, held = CrashingFiles(), HeldFiles(1)
    files.make_directories("/data/t-0")
    pool = Pool(files, held=held)
    log = Log(pool, "/data/t-0", "t", 0, None, SMALL, [Segment.create(pool, "/data/t-0", 0, NOW_MS)], Random(1))
    append(log, batch(), batch())
    pieces = [log.read(0, 1000, log.end_offset, at_least_one=False) for _ in range(3)]
    assert all(pieces)
    assert (held.count, held.is_full) == (1, True)
    log.segments.active.unload()
    assert log.read(0, 1000, log.end_offset, at_least_one=False) is None, "it would be opened once more"
    pieces.clear()
    assert log.read(0, 1000, log.end_offset, at_least_one=False) is not None
