"""What the commands tell, in order: rows and failures of many partitions, one of which is damaged."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headgate.storage.files import Files
from headgate.tools.log import actions
from headgate.tools.log.actions import ErrorMessage
from headgate.tools.log.data_directory import DataDirectory, PartitionDirectory
from headgate.tools.log.overlay import Overlay
from headgate.tools.log.verification import partition_check
from headgate.tools.log.verification.partition_check import PartitionReport
from headgate.tools.tests.log_data import Data, change, positions


@pytest.fixture
def data(tmp_path: Path) -> Data:
    with Data(tmp_path / "data") as made:
        for topic in "abc":
            made.fill(topic)
    log = made.segments("b")[0]
    change(log, positions(log)[2] + 16)
    return made


def options(data: Data | None, **more: object) -> argparse.Namespace:
    defaults = {
        "paths": [str(data.path)] if data else [],
        "topics": [],
        "partitions": [],
        "batches": False,
        "gaps": False,
        "from_offset": 0,
        "to_offset": None,
        "limit": None,
        "index_interval_bytes": 4096,
        "dry_run": False,
        "segments": False,
    }
    return argparse.Namespace(**{**defaults, **more})


def test_a_dump_continues_after_a_damaged_partition(data: Data) -> None:
    told = list(actions.dump(options(data, batches=True)))
    failures = [one for one in told if isinstance(one, ErrorMessage)]
    assert len(failures) == 1
    assert f"{data.segments('b')[0]}: byte " in failures[0]
    before = told[: told.index(failures[0])]
    assert [len([one for one in part if not isinstance(one, ErrorMessage)]) for part in (before, told)] == [42, 82]


def test_limits_hold_for_each(data: Data) -> None:
    told = list(actions.dump(options(data, limit=3)))
    assert [one["topic"] for one in told if not isinstance(one, ErrorMessage)] == ["a"] * 3 + ["b"] * 3 + ["c"] * 3


def test_a_failure_stands_behind_its_row(data: Data) -> None:
    told = list(actions.verify(options(data)))
    assert [isinstance(one, ErrorMessage) for one in told] == [False, False, True, False]


def test_files_deleted_meanwhile_fail_their_partition_only(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that runs deletes segments."""
    check = partition_check.verify_partition

    def checked(
        place: DataDirectory, partition: PartitionDirectory, advance: partition_check.Advance, interval_bytes: int
    ) -> PartitionReport:
        if partition.topic == "a":
            for path in data.segments("a"):
                path.unlink()
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return check(place, partition, advance, interval_bytes)

    monkeypatch.setattr(partition_check, "verify_partition", checked)
    told = list(actions.verify(options(data, topics=["a", "c"])))
    assert [isinstance(one, ErrorMessage) for one in told] == [True, False]
    assert str(told[0]).startswith("a-0: ")


def not_a_directory(data: Data, monkeypatch: pytest.MonkeyPatch) -> str:
    data.directory("b").rename(data.path / "elsewhere")
    data.directory("b").touch()
    return f"{data.directory('b')}: Not a directory"


def broken_link(data: Data, monkeypatch: pytest.MonkeyPatch) -> str:
    data.directory("b").rename(data.path / "elsewhere")
    data.directory("b").symlink_to(data.path / "nowhere")
    return f"{data.directory('b')}: No such file or directory"


def no_rights(data: Data, monkeypatch: pytest.MonkeyPatch) -> str:
    refuse(monkeypatch, "list", str(data.directory("b")), PermissionError(13, "Permission denied"))
    return f"{data.directory('b')}: Permission denied"


def failing_disk(data: Data, monkeypatch: pytest.MonkeyPatch) -> str:
    path = str(data.segments("b")[-1])
    refuse(monkeypatch, "open", path, OSError(5, "Input/output error", path), Overlay)
    return f"{path}: Input/output error"


def refuse(monkeypatch: pytest.MonkeyPatch, method: str, path: str, error: OSError, kind: type[Files] = Files) -> None:
    whole = getattr(kind, method)

    def called(self: Files, given: str, *others: object, **more: object) -> object:
        if given == path:
            raise error
        return whole(self, given, *others, **more)

    monkeypatch.setattr(kind, method, called)


Refusal = Callable[[Data, pytest.MonkeyPatch], str]


@pytest.mark.parametrize("refusal", [not_a_directory, broken_link, no_rights, failing_disk])
@pytest.mark.parametrize("run", [actions.listing, actions.dump, actions.verify, actions.repair])
def test_an_unreadable_partition_ends_no_other(
    run: Callable[[argparse.Namespace], actions.CommandOutput],
    refusal: Refusal,
    data: Data,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = data.segments("c")[0]
    if run is actions.repair:
        change(log, positions(log)[2] + 16)
    sentence = refusal(data, monkeypatch)
    told = list(run(options(data, limit=1)))
    (failure,) = (one for one in told if isinstance(one, ErrorMessage))
    assert sentence in failure
    assert [one["topic"] for one in told if not isinstance(one, ErrorMessage)] == (
        ["c"] if run is actions.repair else ["a", "c"]
    )


def test_segments_are_listed_beside_an_unreadable_partition(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    no_rights(data, monkeypatch)
    told = list(actions.listing(options(data, segments=True)))
    assert {one["topic"] for one in told if not isinstance(one, ErrorMessage)} == {"a", "c"}
    assert isinstance(told[-1], ErrorMessage)


@pytest.mark.parametrize("run", [actions.listing, actions.dump, actions.verify, actions.repair])
def test_an_unreadable_data_directory_ends_no_other(
    run: Callable[[argparse.Namespace], actions.CommandOutput],
    data: Data,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "other").mkdir()
    iterdir = Path.iterdir

    def refused(self: Path) -> Iterator[Path]:
        if self.name == "other":
            raise PermissionError(13, "Permission denied", str(self))
        return iterdir(self)

    monkeypatch.setattr(Path, "iterdir", refused)
    told = list(run(options(data, paths=[str(tmp_path / "other"), str(data.path)], limit=1)))
    assert f"{tmp_path / 'other'}: Permission denied" in str(told[0])
    assert {one["topic"] for one in told if not isinstance(one, ErrorMessage)} >= {"b"}


def test_an_unreadable_file_ends_no_other(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    failing, other = data.segments("b")[-1], data.segments("a")[-1]
    sentence = failing_disk(data, monkeypatch)
    told = list(actions.dump(options(None, paths=[str(failing), str(other)])))
    assert told[0] == ErrorMessage(sentence)
    assert {one["topic"] for one in told[1:] if not isinstance(one, ErrorMessage)} == {"a"}


def test_unreadable_checkpoints_prevent_a_repair(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be written anew without what they say of other partitions."""
    path = str(data.path / "recovery-point-offset-checkpoint")
    refuse(monkeypatch, "read", path, OSError(5, "Input/output error", path))
    assert list(actions.repair(options(data))) == [ErrorMessage(f"{path}: Input/output error")]
    assert len(list(actions.listing(options(data)))) == 4


def test_a_failed_repair_ends_no_other(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    log = data.segments("c")[0]
    change(log, positions(log)[2] + 16)
    temporary = f"{data.segments('b')[0]}.tmp"
    refuse(monkeypatch, "write", temporary, OSError(28, "No space left on device", temporary))
    told = list(actions.repair(options(data)))
    assert told[0] == ErrorMessage(f"{temporary}: No space left on device")
    assert [one["topic"] for one in told[1:] if not isinstance(one, ErrorMessage)] == ["c"]


def test_a_locked_directory_keeps_no_other_from_repair(data: Data, tmp_path: Path) -> None:
    with Data(tmp_path / "other") as other:
        other.fill("d")
    lock = Files().lock(str(other.path / ".lock"))
    told = list(actions.repair(options(data, paths=[str(other.path), str(data.path)])))
    lock.release()
    assert "is in use by process" in str(told[0])
    assert [one["topic"] for one in told[1:] if not isinstance(one, ErrorMessage)] == ["b"]


def test_a_repair_releases_the_lock(data: Data) -> None:
    for _ in range(2):
        list(actions.repair(options(data)))
    assert [one for one in actions.verify(options(data)) if isinstance(one, ErrorMessage)] == []


def test_partitions_of_one_directory_are_repaired_together(tmp_path: Path) -> None:
    """One lock, and the recovery points of all of them are kept."""
    with Data(tmp_path / "data", is_clean=False) as data:
        for topic in "ab":
            data.fill(topic)
    for topic in "ab":
        log = data.segments(topic)[0]
        change(log, positions(log)[2] + 16)
    told = list(actions.repair(options(None, paths=[str(data.directory("a")), str(data.directory("b"))])))
    assert not [one for one in told if isinstance(one, ErrorMessage)]
    assert DataDirectory.read(Files(), str(data.path)).recovery_points == {("a", 0): 80, ("b", 0): 80}
    assert not [one for one in actions.verify(options(data)) if isinstance(one, ErrorMessage)]


def test_an_interrupted_compaction_is_left_to_the_next_start(data: Data) -> None:
    log = data.segments("b")[0]
    log.with_suffix(".log.swap").write_bytes(log.read_bytes())
    (failure,) = actions.repair(options(data, topics=["b"]))
    assert isinstance(failure, ErrorMessage)
    assert "a compaction was interrupted" in failure


def test_a_copy_of_a_partition_is_repaired_where_it_lies(data: Data, tmp_path: Path) -> None:
    """Without a data directory around it: no lock, and no checkpoint, is made there."""
    copy = tmp_path / "elsewhere" / "b-0"
    copy.parent.mkdir()
    data.directory("b").rename(copy)
    (row,) = actions.repair(options(data, paths=[str(copy)]))
    assert not isinstance(row, ErrorMessage)
    assert (row["lost_from"], row["lost_to"]) == (4, 5)
    assert [path.name for path in copy.parent.iterdir()] == ["b-0"]
