"""An accident passes when it runs again, a broken test does not, and many failures are not repeated."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.tools.development.rerun import MAX_TESTS, PASSED_AGAIN, Rerun

TESTS = """
from pathlib import Path
import pytest

def test_sound():
    pass

@pytest.mark.parametrize("name", ["a b[c]"])
def test_accident(name):
    ran = Path("ran")
    ran.write_text(ran.read_text() + "x" if ran.exists() else "x")
    assert ran.read_text() == "xx"

def test_broken():
    assert False
"""


@pytest.mark.sockets
@pytest.mark.slow
def test_a_test_that_passes_only_again_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-n", "1", "-p", "headgate.tools.development.rerun"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stdout
    assert "once more, alone: test_it.py::test_broken" in done.stdout
    assert "once more, alone: test_it.py::test_sound" not in done.stdout
    assert (tmp_path / PASSED_AGAIN).read_text() == "test_it.py::test_accident[a b[c]]\n"


def exit_status(root: Path, failed: Collection[str], broken: Collection[str], status: int) -> int:
    """The exit status of a run with `status`, of whose failed tests the broken ones fail again."""
    plugin, session = Rerun(root, lambda test: test not in broken), SimpleNamespace(exitstatus=status)
    plugin.failed = dict.fromkeys(failed)
    finished: Any = session
    plugin.pytest_sessionfinish(finished)
    return int(session.exitstatus)


FEW = [f"test_{number}" for number in range(MAX_TESTS)]


@pytest.mark.parametrize(
    "failed, broken, before, after",
    [
        (FEW, [], pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.OK),
        (FEW, FEW[:1], pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.TESTS_FAILED),
        ([*FEW, "one more"], [], pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.TESTS_FAILED),
        (FEW, [], pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERRUPTED),
        ([], [], pytest.ExitCode.OK, pytest.ExitCode.OK),
    ],
)
def test_a_run_passes_if_its_few_failures_pass_again(
    tmp_path: Path, failed: list[str], broken: list[str], before: int, after: int
) -> None:
    assert exit_status(tmp_path, failed, broken, before) == after
