"""The `.log` file of a segment: its names, and the file of another log at its path."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.storage.disk.pool import Pool
from headgate.storage.files import Files
from headgate.storage.segment.segment import Segment


def test_a_deleted_logs_segment_does_not_touch_what_has_its_path_now(tmp_path: Path) -> None:
    pool = Pool(Files())
    old = Segment.create(pool, str(tmp_path), 0, 0)
    old.retire()
    Path(old.path).write_bytes(b"another log's")
    with pytest.raises(OSError, match="may be another's by now"):
        old.hold()
    assert Path(old.path).read_bytes() == b"another log's"
