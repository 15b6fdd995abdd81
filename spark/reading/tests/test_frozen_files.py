"""The names of a directory stay as they were; what is done to them stays in memory."""

from __future__ import annotations

import pytest

from headgate.spark.reading.frozen_files import DirectoryChanges, FrozenFiles
from headgate.spark.reading.tests.simulated_disk import SimulatedDisk
from headgate.storage.tests.crashing_files import CrashingFiles


@pytest.fixture
def files() -> CrashingFiles:
    files = CrashingFiles()
    files.make_directories("/d")
    for name in ("a", "b", "c"):
        files.write(f"/d/{name}", name.encode() * 4)
    return files


def test_names_are_those_of_one_moment(files: CrashingFiles) -> None:
    frozen = FrozenFiles(SimulatedDisk(files), "/d")
    files.rename("/d/a", "/d/e")
    files.write("/d/f", b"")
    assert frozen.list("/d") == {"a": 4, "b": 4, "c": 4}
    with pytest.raises(FileNotFoundError):
        frozen.open("/d/a")


def test_changes_are_seen_by_the_reader_alone(files: CrashingFiles) -> None:
    writes = files.writes
    frozen = FrozenFiles(SimulatedDisk(files), "/d")
    frozen.rename("/d/a", "/d/b")
    frozen.remove("/d/c")
    frozen.write("/d/n", b"new")
    assert frozen.list("/d") == {"b": 4, "n": 3}
    file = frozen.open("/d/b")
    assert file.read_at(10, 0) == b"aaaa"
    file.release()
    assert files.writes == writes


def test_quarantined_bytes_are_not_kept(files: CrashingFiles) -> None:
    frozen = FrozenFiles(SimulatedDisk(files), "/d")
    frozen.append("/d/a.0.torn", b"x" * 100)
    frozen.append("/d/a.index", b"x")
    assert not frozen.exists("/d/a.0.torn")
    assert frozen.size("/d/a.index") == 1


class Renaming(SimulatedDisk):
    """A broker renames a file while another program lists the directory, which then sees neither name."""

    times = 1

    def list(self, path: str) -> dict[str, int]:
        names = super().list(path)
        if self.times:
            self.times -= 1
            del names["a"]
            self.files.rename("/d/a", f"/d/a{self.times}")
            self.files.rename(f"/d/a{self.times}", "/d/a")
        return names


def test_a_file_that_is_renamed_meanwhile_is_found(files: CrashingFiles) -> None:
    assert FrozenFiles(Renaming(files), "/d").list("/d") == {"a": 4, "b": 4, "c": 4}


def test_a_directory_that_never_rests_is_given_up(files: CrashingFiles) -> None:
    class Restless(SimulatedDisk):
        number = 0

        def list(self, path: str) -> dict[str, int]:
            self.number += 1
            return {str(self.number): 1}

    with pytest.raises(DirectoryChanges, match="faster than"):
        FrozenFiles(Restless(files), "/d")
