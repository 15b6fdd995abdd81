"""Long runs go on where they were interrupted."""

from __future__ import annotations

from pathlib import Path

from compat_tests.harness.soak import Progress


def test_an_interrupted_run_goes_on_with_the_other_rounds(tmp_path: Path) -> None:
    file = tmp_path / "made" / "passed.txt"
    progress = Progress(file, 12)
    assert progress.left() == list(range(12))
    for number in (11, 3, 10):
        progress.note_passed(number)
    assert Progress(file, 12).left() == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_a_run_begins_anew_once_all_rounds_have_passed(tmp_path: Path) -> None:
    progress = Progress(tmp_path / "passed.txt", 2)
    for number in (1, 0):
        progress.note_passed(number)
    assert progress.left() == [0, 1]
