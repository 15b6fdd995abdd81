"""What counts as too far behind, and what is read and written on this machine."""

import argparse
from pathlib import Path

import pytest

from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.groups import actions
from headgate.tools.groups.actions import check_lag_limits
from headgate.tools.groups.lag import NO_SUCH_PARTITION, UNKNOWN, PartitionLag
from headgate.tools.groups.offsets import OffsetAndMetadata
from headgate.tools.output import CommandResult, UsageError
from headgate.tools.tests.model_cluster import ModelCluster, ModelGroup, opened

A0 = TopicPartition("a", 0)


def place(records: int | None, seconds: float | None, status: str = "ok", committed: int = 5) -> PartitionLag:
    return PartitionLag("g", A0, OffsetAndMetadata(committed), 10, 90, records, seconds, status, 0, None)


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
        (place(None, None, NO_SUCH_PARTITION), 0, 0.0, []),
        (place(None, None, UNKNOWN), 0, 0.0, []),  # a failure of its own
    ],
)
def test_a_lag_above_a_limit_is_reported(
    row: PartitionLag, records: int | None, seconds: float | None, behind: list[str]
) -> None:
    assert check_lag_limits([row], records, seconds) == (behind, [])


def test_an_unknown_age_is_reported() -> None:
    unclear = ["g in a-0: the age of the oldest unread record is not known"]
    assert check_lag_limits([place(5, None)], None, 60.0) == ([], unclear)
    assert check_lag_limits([place(5, None)], 100, None) == ([], [])
    assert check_lag_limits([place(0, 0.0)], None, 60.0) == ([], [])


def export(model: ModelCluster, path: Path) -> CommandResult:
    with opened() as cluster:
        return actions.run_export(cluster, argparse.Namespace(groups=[], format="json", output=str(path)))


def test_an_export_is_complete_or_keeps_the_old_file(model: ModelCluster, tmp_path: Path) -> None:
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


def test_files_that_cannot_be_read_or_written_are_named(model: ModelCluster, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*nowhere/x: .*No such file"):
        export(model, tmp_path / "nowhere" / "x")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("missing", "binary"):
        options = argparse.Namespace(file=str(tmp_path / name), group=[])
        with opened() as cluster, pytest.raises(UsageError, match=f"cannot read .*{name}: "):
            actions.run_import(cluster, options)
