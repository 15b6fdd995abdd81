"""A plugin of pytest for CI: a failed test runs once more, alone, in a process of its own.

    .venv/bin/pytest -p headgate.tools.development.rerun ...

A run with few failures passes if each of these tests passes then. The names of these tests are printed and are
appended to `build/passed-again.txt`, because such a test is to be mended next. `.ci/run` ends with that file.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pytest

PASSED_AGAIN: Final = Path("build") / "passed-again.txt"
MAX_TESTS: Final = 20
"""More failures than these are no accident: none of these tests runs again."""


class Rerun:
    """The failed tests of one run. `passes(test)` runs a test again."""

    def __init__(self, root: Path, passes: Callable[[str], bool]) -> None:
        self.failed = dict[str, None]()
        self._root = root
        self._passes = passes

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed[report.nodeid] = None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Run the failed tests again, after the fixtures of this run and the processes of its workers have ended."""
        if session.exitstatus != pytest.ExitCode.TESTS_FAILED or len(self.failed) > MAX_TESTS:
            return
        passed = [test for test in self.failed if self._passes(test)]
        if passed:
            file = self._root / PASSED_AGAIN
            file.parent.mkdir(exist_ok=True)
            with file.open("a") as names:
                names.writelines(f"{test}\n" for test in passed)
        if len(passed) == len(self.failed):
            session.exitstatus = pytest.ExitCode.OK


def pytest_configure(config: pytest.Config) -> None:
    """Watch the run, but not in the workers of pytest-xdist: the process that starts them gets their reports."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Rerun(config.rootpath, partial(passes, config.rootpath)))


def passes(root: Path, test: str) -> bool:
    """Whether a test passes alone; its output is that of this process."""
    print(f"\n== once more, alone: {test}", flush=True)
    return subprocess.run([sys.executable, "-m", "pytest", "-n", "0", test], cwd=root, check=False).returncode == 0
