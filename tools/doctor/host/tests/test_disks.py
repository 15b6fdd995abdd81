from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.tools.doctor.check_result import NOTE, OK, WRONG
from headgate.tools.doctor.host.disks import DiskFacts, check_disks, file_system_of, read_disk

GIB = 1 << 30
SOUND = DiskFacts("/data", None, 100 * GIB, 50 * GIB, 10**6, is_read_only=False, kind="ext4", device=7)
MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:20 / /data rw - nfs4 server:/x rw
24 22 0:21 / /data/of\\040kafka rw - xfs /dev/sdb rw
25 22 0:22 / /databases rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    "changed, states",
    [
        ({}, [OK]),
        ({"usable_bytes": 10 << 20}, [WRONG]),
        ({"is_read_only": True}, [WRONG]),
        ({"problem": "this user may not write to /data"}, [WRONG]),
        ({"free_inodes": 3}, [WRONG]),
        ({"free_inodes": None}, [OK]),
        ({"kind": "nfs4"}, [OK, WRONG]),
        ({"kind": "tmpfs"}, [OK, NOTE]),
    ],
)
def test_disks(changed: dict[str, Any], states: list[str]) -> None:
    rows = list(check_disks([SOUND._replace(**changed)], 64 << 20))
    assert [row.state for row in rows] == states
    assert all(row.cure for row in rows if row.state != OK)


def test_two_directories_on_one_volume_are_a_note() -> None:
    rows = list(check_disks([SOUND, SOUND._replace(directory="/data2")], 0))
    assert rows[-1].found == "/data2 and /data are on one volume"
    assert len(list(check_disks([SOUND, SOUND._replace(device=8)], 0))) == 2


@pytest.mark.parametrize(
    "path, kind",
    [("/", "ext4"), ("/data", "nfs4"), ("/data/x", "nfs4"), ("/data/of kafka/y", "xfs"), ("/databases", "tmpfs")],
)
def test_the_file_system_of_a_path(path: str, kind: str) -> None:
    assert file_system_of(path, MOUNTS) == kind


def test_a_directory_that_does_not_exist_yet(tmp_path: Path) -> None:
    found = read_disk(str(tmp_path / "a" / "b"))
    assert (found.problem, found.device) == (None, tmp_path.stat().st_dev)
    assert found.total_bytes > 0
    (tmp_path / "file").touch()
    assert "is no directory" in (read_disk(str(tmp_path / "file")).problem or "")
