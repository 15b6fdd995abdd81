"""Checkpoint files: form, atomic replacement, damage."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.storage.disk import checkpoint
from headgate.storage.disk.checkpoint import OffsetCheckpoint
from headgate.storage.errors import BadFile
from headgate.storage.files import Files
from headgate.storage.tests.crashing_files import CrashingFiles, PowerCut

PATH = "/d/recovery-point-offset-checkpoint"


def new_files() -> CrashingFiles:
    files = CrashingFiles()
    files.make_directories("/d")
    files.sync_directory("/")
    return files


def test_the_form_is_kafkas() -> None:
    files = new_files()
    checkpoint.write_offsets(files, PATH, {("t-x", 10): 5, ("a", 0): 1 << 40})
    assert files.read(PATH) == b"0\n2\na 0 1099511627776\nt-x 10 5\n"
    assert checkpoint.read_offsets(files, PATH) == {("a", 0): 1 << 40, ("t-x", 10): 5}
    assert list(files.list("/d")) == ["recovery-point-offset-checkpoint"]
    assert checkpoint.read_offsets(files, "/d/none") == {}


@given(cut_after=st.integers(0, 8), seed=st.integers(0, 1 << 16))
@settings(max_examples=60)
def test_a_crash_leaves_the_old_or_the_new(cut_after: int, seed: int) -> None:
    files = new_files()
    checkpoint.write_offsets(files, PATH, {("t", 0): 1})
    files.cut_after = cut_after
    expected = [{("t", 0): 2}]
    try:
        checkpoint.write_offsets(files, PATH, {("t", 0): 2})
    except PowerCut:
        expected.append({("t", 0): 1})
    assert checkpoint.read_offsets(files.crash(Random(seed), power=True), PATH) in expected


@pytest.mark.parametrize(
    "content",
    [
        b"0\n",
        b"1\n0\n",
        b"0\nx\n",
        b"0\n-1\n",
        b"0\n2\nt 0 5\n",
        b"0\n1\nt 0 5",
        b"0\n1\nt 0\n",
        b"0\n1\nt x 5\n",
        b"\xff\n0\n",
    ],
)
def test_damage_is_named(content: bytes) -> None:
    files = new_files()
    files.write(PATH, content)
    with pytest.raises(BadFile, match="recovery-point-offset-checkpoint"):
        checkpoint.read_offsets(files, PATH)


def test_a_file_of_no_bytes_has_no_offsets() -> None:
    """Apache Kafka makes it so when it starts. A file of epochs is never left so by us, but by a power cut."""
    files = new_files()
    files.write(PATH, b"")
    assert checkpoint.read_offsets(files, PATH) == {}
    with pytest.raises(BadFile):
        checkpoint.read_lines(files, PATH)


def test_of_two_states_of_a_checkpoint_the_later_one_stays() -> None:
    files = new_files()
    offsets = OffsetCheckpoint(files, PATH)
    older, newer = offsets.begin({("t", 0): 9}), offsets.begin({("t", 0): 3})
    newer()
    older()
    assert checkpoint.read_offsets(files, PATH) == {("t", 0): 3}


def test_a_checkpoint_that_says_the_same_is_not_written() -> None:
    files = new_files()
    offsets = OffsetCheckpoint(files, PATH)
    offsets.begin({("t", 0): 9})()
    writes = files.writes
    offsets.begin({("t", 0): 9})()
    assert files.writes == writes
    offsets.begin({("t", 0): 8})()
    offsets.begin({("t", 0): 9})()
    assert checkpoint.read_offsets(files, PATH) == {("t", 0): 9}


def test_after_a_failed_write_the_same_is_written_again() -> None:
    files = new_files()
    offsets = OffsetCheckpoint(files, PATH)
    offsets.begin({("t", 0): 9})()
    files.room = 0
    with pytest.raises(OSError, match="space"):
        offsets.begin({("t", 0): 10})()
    files.room = None
    offsets.begin({("t", 0): 9})()
    writes = files.writes
    offsets.begin({("t", 0): 9})()
    assert files.writes == writes
    assert checkpoint.read_offsets(files, PATH) == {("t", 0): 9}


def test_a_failed_state_keeps_no_earlier_one_from_the_disk() -> None:
    """Whoever wrote that goes on as if it were there."""
    files = new_files()
    offsets = OffsetCheckpoint(files, PATH)
    offsets.begin({("t", 0): 9})()
    older, newer = offsets.begin({}), offsets.begin({("u", 0): 1})
    files.room = 0
    with pytest.raises(OSError, match="space"):
        newer()
    files.room = None
    older()
    assert checkpoint.read_offsets(files, PATH) == {}


def test_a_checkpoint_on_a_full_disk_leaves_the_old_one_alone() -> None:
    files = new_files()
    checkpoint.write_offsets(files, PATH, {("t", 0): 1})
    files.room = 5
    with pytest.raises(OSError, match="no space"):
        checkpoint.write_offsets(files, PATH, {("t", 0): 2})
    assert checkpoint.read_offsets(files, PATH) == {("t", 0): 1}
    assert list(files.list("/d")) == ["recovery-point-offset-checkpoint"]
    assert files.room == 5


def test_a_partition_is_taken_out_of_all_checkpoints(tmp_path: Path) -> None:
    files = Files()
    for name in (checkpoint.RECOVERY_POINTS, checkpoint.HIGH_WATERMARKS):
        checkpoint.write_offsets(files, f"{tmp_path}/{name}", {("a", 0): 5, ("b", 0): 6})
    (tmp_path / checkpoint.START_OFFSETS).write_text("no checkpoint")
    checkpoint.forget_partition(files, str(tmp_path), ("a", 0))
    for name in (checkpoint.RECOVERY_POINTS, checkpoint.HIGH_WATERMARKS):
        assert checkpoint.read_offsets(files, f"{tmp_path}/{name}") == {("b", 0): 6}
    assert (tmp_path / checkpoint.START_OFFSETS).read_text() == "no checkpoint"
    assert not (tmp_path / checkpoint.CLEANED_OFFSETS).exists()
