"""What paths mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.storage.files import Files
from headgate.tools.log.data_directory import (
    DataDirectory,
    PartitionDirectory,
    Selection,
    partition_of,
    resolve_paths,
)
from headgate.tools.output import UsageError


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """As Apache Kafka leaves one: three partitions, one being deleted, one that moves, one that nobody wants."""
    for name in (
        "a-0",
        "a-10",
        "b-with-dash-1",
        "a-2.0123456789abcdef0123456789abcdef-delete",
        "a-3.0123456789abcdef0123456789abcdef-future",
        "c-0.AAECAwQFBgcICQoLDA0ODw-stray",
        "other",
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020}.log").touch()
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=3\ncluster.id=x\n")
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\na 0 7\n")
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\na 0 5\n")
    return tmp_path


def place(path: Path, topics: list[str] | None = None, partitions: list[int] | None = None) -> Selection:
    (found,) = resolve_paths(Files(), [str(path)], topics or [], partitions or [])
    assert isinstance(found, Selection)
    return found


def test_a_data_directory_is_read_with_its_partitions(data: Path) -> None:
    found = place(data)
    assert [(str(one), one.state) for one in found.partitions] == [
        ("a-0", ""),
        ("a-2", "delete"),
        ("a-3", "future"),
        ("a-10", ""),
        ("b-with-dash-1", ""),
        ("c-0", "stray"),
    ]
    assert found.data.recovery_points == {("a", 0): 7}
    assert found.data.cleaner_offsets == {("a", 0): 5}
    assert (found.data.is_clean, found.data.problems) == (False, [])


def test_topics_and_partitions_narrow_a_data_directory(data: Path) -> None:
    assert [one.partition for one in place(data, ["a"], [0, 2]).partitions] == [0, 2]
    with pytest.raises(UsageError, match="no partition of z"):
        place(data, ["a", "z"])


def test_missing_topics_and_partitions_are_refused(data: Path) -> None:
    with pytest.raises(UsageError, match=r"has no partition 7, 9; `headgate log ls "):
        place(data, [], [0, 9, 7])
    with pytest.raises(UsageError, match=r"has no partition 1 of a; "):
        place(data, ["a"], [1])


def test_a_topic_is_in_one_of_several_data_directories(data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "z-0").mkdir(parents=True)
    (other / "meta.properties").write_text("version=1\nnode.id=3\ncluster.id=x\n")
    paths = [str(data), str(other)]
    found = [one for one in resolve_paths(Files(), paths, ["z", "b-with-dash"], []) if isinstance(one, Selection)]
    assert [[str(one) for one in place.partitions] for place in found] == [["b-with-dash-1"], ["z-0"]]
    with pytest.raises(UsageError, match=r" have no partition of y; `headgate log ls \S+ \S+` lists all"):
        list(resolve_paths(Files(), paths, ["z", "y"], []))


def test_paths_in_one_data_directory_share_it(data: Path) -> None:
    """Else what one repair says of the recovery points would be undone by the next one."""
    (data.parent / "link").symlink_to(data)
    paths = [data, data / "a-0", data.parent / "link" / "a-10"]
    found = [one for one in resolve_paths(Files(), list(map(str, paths)), [], []) if isinstance(one, Selection)]
    assert len(found) == 3
    assert len({id(one.data) for one in found}) == 1


def test_a_partition_is_found_from_within_and_by_a_link(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its data directory is where it really is: there the lock is."""
    (data.parent / "a-0").symlink_to(data / "a-0")
    assert place(data.parent / "a-0").data.recovery_points == {("a", 0): 7}
    monkeypatch.chdir(data / "a-0")
    assert place(Path()).data.path == str(data.resolve())


def test_a_partitions_path_selects_one_partition(data: Path) -> None:
    found = place(data / "a-0")
    assert found.partitions == [PartitionDirectory(str(data / "a-0"), "a", 0)]
    assert found.data.recovery_points == {("a", 0): 7}


def test_a_files_path_stays_a_path(data: Path) -> None:
    path = str(data / "a-0" / f"{0:020}.log")
    assert list(resolve_paths(Files(), [path], [], [])) == [path]
    assert str(partition_of(path)) == "a-0"
    assert partition_of(str(data / "other" / "x")) is None


def test_any_other_directory_is_refused(data: Path) -> None:
    with pytest.raises(UsageError, match="neither a data directory nor"):
        place(data / "other")


def test_a_directory_that_is_only_called_like_a_partition(data: Path) -> None:
    (data / "holiday-24").mkdir()
    (data / "holiday-24" / "beach.log").touch()
    (data / "empty-0").mkdir()
    assert {one.topic for one in place(data).partitions} == {"a", "b-with-dash", "c", "empty"}
    with pytest.raises(UsageError, match="neither a data directory nor"):
        place(data / "holiday-24")


def test_unreadable_files_are_problems(data: Path) -> None:
    (data / "replication-offset-checkpoint").write_text("1\n0\n")
    (data / "meta.properties").write_text("version=1\n")
    (data / ".kafka_cleanshutdown").touch()
    found = DataDirectory.read(Files(), str(data))
    assert found.is_clean
    assert ["has version '1'" in found.problems[0], "names no node.id" in found.problems[1]] == [True, True]
