"""What counts as too far behind, and what is read and written on this machine."""

import argparse
from pathlib import Path

import pytest

from headgate.tools.groups import actions
from headgate.tools.groups.actions import Said, judge
from headgate.tools.groups.cluster import TopicPartition
from headgate.tools.groups.lag import GONE, UNKNOWN, Place
from headgate.tools.groups.offsets import Committed
from headgate.tools.groups.target import Badly
from headgate.tools.tests.model_cluster import ModelCluster, ModelGroup, opened

A0 = TopicPartition("a", 0)


def place(records: int | None, seconds: float | None, status: str = "ok", committed: int = 5) -> Place:
    return Place("g", A0, Committed(committed), 10, 90, records, seconds, status, 0, None)


@pytest.mark.parametrize(
    "row, records, seconds, behind",
    [
        (place(101, 1.0), 100, None, ["g in a-0: 101 records behind"]),
        (place(100, 1.0), 100, None, []),
        (place(1, 0.0), 0, None, ["g in a-0: 1 records behind"]),
        (place(1, 60.04), None, 60.0, ["g in a-0: 60.0 s behind"]),
        (place(1, 60.0), None, 60.0, []),
        (place(101, 61.0), 100, 60.0, ["g in a-0: 101 records behind"]),
        (place(5, 0.0, "below the start"), 100, None, ["g in a-0: offset 5 is below the start (10 to 90)"]),
        (place(0, 0.0, "beyond the end", 99), None, 1.0, ["g in a-0: offset 99 is beyond the end (10 to 90)"]),
        (place(101, 99.0, "below the start"), None, None, []),  # nobody asked
        (place(None, None, "no offset"), 0, 0.0, []),
        (place(None, None, GONE), 0, 0.0, []),
        (place(None, None, UNKNOWN), 0, 0.0, []),  # a failure of its own
    ],
)
def test_what_is_too_far_behind(row: Place, records: int | None, seconds: float | None, behind: list[str]) -> None:
    assert judge([row], records, seconds) == (behind, [])


def test_an_age_that_nobody_knows_is_not_passed_over() -> None:
    unclear = ["g in a-0: the age of what is to be read is not known"]
    assert judge([place(5, None)], None, 60.0) == ([], unclear)
    assert judge([place(5, None)], 100, None) == ([], [])
    assert judge([place(0, 0.0)], None, 60.0) == ([], [])


@pytest.mark.parametrize(
    "said, code",
    [(Said(), 0), (Said(failures=["x"]), 1), (Said(failures=["x"], is_behind=True), 3), (Said(notes=["x"]), 0)],
)
def test_exit_codes(said: Said, code: int) -> None:
    assert said.code == code


def export(model: ModelCluster, path: Path) -> Said:
    with opened() as cluster:
        return actions.exporting(cluster, argparse.Namespace(groups=[], output=str(path)))


def test_an_export_is_whole_or_not_at_all(model: ModelCluster, tmp_path: Path) -> None:
    model.groups = {"g": ModelGroup(offsets={("a", 0): (1, -1, "")}), "h": ModelGroup(coordinator=2)}
    file = tmp_path / "offsets.json"
    assert export(model, file).notes == [f"1 offsets of 2 groups are in {file}"]
    before = file.read_text()
    model.dead = {2}
    said = export(model, file)
    assert said.code == 1
    assert said.failures[-1] == "nothing is exported"
    assert file.read_text() == before
    assert list(tmp_path.iterdir()) == [file]


def test_files_that_cannot_be_used(model: ModelCluster, tmp_path: Path) -> None:
    with pytest.raises(Badly, match=r"cannot write .*nowhere/x: .*No such file"):
        export(model, tmp_path / "nowhere" / "x")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("missing", "binary"):
        options = argparse.Namespace(file=str(tmp_path / name), group=[])
        with opened() as cluster, pytest.raises(Badly, match=f"cannot read .*{name}: "):
            actions.importing(cluster, options)
