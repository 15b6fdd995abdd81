"""Index files of a segment that was gone through: the same as appends make, written as a whole or not at all."""

from __future__ import annotations

import errno

import pytest

from headgate.storage.log.log import Log
from headgate.storage.segment import index_finalization
from headgate.storage.segment.segment import Segment
from headgate.storage.tests.builders import NOW_MS, SMALL, TOPIC_ID, append, batch, open_store
from headgate.storage.tests.crashing_files import CrashingFiles


def rolled(files: CrashingFiles) -> Log:
    log = open_store(files).create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    append(log, *(batch(size=100, timestamp=NOW_MS + number) for number in range(20)))
    return log


def gone_through(log: Log) -> Segment:
    """The first segment, with its indexes in memory."""
    first = log.segments[0]
    for _ in first.rebuild(SMALL.index_interval_bytes, in_memory=True):
        pass
    return first


def test_they_hold_what_appends_and_a_roll_would_have_written() -> None:
    files = CrashingFiles()
    log = rolled(files)
    expected = {path: files.read(path) for path in log.segments[0].sealed_indexes}
    assert all(expected.values())
    segment = gone_through(log)
    assert not any(files.read(path) for path in expected), "nothing is written before all is known"
    index_finalization.write(files, segment)
    index_finalization.note_written(segment)
    assert {path: files.read(path) for path in expected} == expected
    assert segment.is_sealed
    assert not segment.seal(), "there is nothing left to be written"


@pytest.mark.parametrize("operation", ["write", "rename"])
def test_one_that_cannot_be_written_is_not_there_in_part(operation: str) -> None:
    files = CrashingFiles()
    log = rolled(files)
    segment = gone_through(log)
    files.fail(errno.EIO, operation, path=".timeindex")
    with pytest.raises(OSError, match="EIO"):
        index_finalization.write(files, segment)
    files.heal()
    assert files.read(segment.times.path) == b""
    assert not [name for name in files.list(log.directory) if name.endswith(".tmp")]
    index_finalization.write(files, segment)
    assert files.read(segment.times.path) == index_finalization.content_of(segment)[".timeindex"]
