"""What is read of segments: damage ends it."""

from __future__ import annotations

import pytest

from headgate.storage.cleanup.compaction.compaction_job import Damaged
from headgate.storage.tests.builders import NOW_MS
from headgate.storage.tests.compacted import compact, filled, keyed


def test_a_wrong_crc_ends_the_compaction_and_nothing_is_changed() -> None:
    log = filled(keyed(("a", "1"), ("a", "2")), keyed(("b", "1")))
    file = log.segments[0].file
    file.write_at(b"\xff", 70)
    before = log.pool.files.list(log.directory)
    with pytest.raises(Damaged, match="CRC"):
        compact(log, NOW_MS)
    assert log.pool.files.list(log.directory) == before
