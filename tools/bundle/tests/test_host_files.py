from __future__ import annotations

import json
from pathlib import Path

from headgate.tools.bundle.host_files import limits, listing, versions


def test_versions_are_those_of_the_packages() -> None:
    found = json.loads(versions())
    assert found["packages"]["trio"]
    assert found["headgate"]


def test_a_listing_has_names_and_sizes_and_no_content(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "0.log").write_bytes(b"a record")
    (tmp_path / "meta.properties").write_text("cluster.id=x\n")
    shown = listing([str(tmp_path), str(tmp_path / "none")])
    assert f"{tmp_path}:\n  meta.properties 13 uid=" in shown
    assert "  orders-0/ " in shown
    assert "    0.log 8 uid=" in shown
    assert "(No such file or directory)" in shown
    assert "a record" not in shown
    assert "cluster.id" not in shown


def test_a_listing_is_bounded(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / str(number)).touch()
    assert len(listing([str(tmp_path)], 5).splitlines()) == 6


def test_limits_of_processes_and_disks(tmp_path: Path) -> None:
    (tmp_path / "7" / "fd").mkdir(parents=True)
    (tmp_path / "7" / "limits").write_text("Max open files  1024  4096  files\n")
    (tmp_path / "7" / "status").write_text("Name:\tx\nVmRSS:\t 10 kB\n")
    shown = limits([7], [str(tmp_path), "/no/such"], tmp_path)
    assert "Max open files  1024" in shown
    assert "VmRSS:" in shown
    assert "Name:" not in shown
    assert "/no/such: No such file or directory" in shown
    assert "bytes free" in shown
