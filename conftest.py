"""What holds for every test: what is marked, what is allowed without a mark, and how many examples are tried.

- A test that takes more than 0.25 s says so with `@pytest.mark.slow`. Measured is CPU time of this process during the
  call, so that a busy machine does not matter. The test fails at eight times that, and is listed before: a first use
  doubles the time, and so does a slow machine.
- A test that opens a socket or starts a process says so with `@pytest.mark.sockets`; without it, both raise.
- `make unit` tries a fifth of the examples of a property test (`protocol/tests/examples.py`).
- Everything in compat_tests is both. What is marked `soak` runs with HEADGATE_SOAK=1 only (`make soak`).
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, find, is_hypothesis_test, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

SLOW_CPU_S: Final = 0.25
FAIL_CPU_S: Final = 8 * SLOW_CPU_S
CPU_S: Final = "CPU seconds of the call"
SOAK: Final = os.environ.get("HEADGATE_SOAK", "") not in {"", "0"}
COMPAT_TESTS: Final = "compat_tests/"
UNITS: Final = "src/headgate"

# Time decides nothing; in CI the examples are the same in every run, so that red means a change
settings.register_profile(
    "headgate",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
    database=None,
    print_blob=True,
)
settings.register_profile("soak", settings.get_profile("headgate"), derandomize=False, max_examples=5_000)
settings.register_profile("unit", settings.get_profile("headgate"), max_examples=20)
settings.load_profile("headgate")

slowest: list[tuple[float, str]] = []


class Guard:
    """Refuses sockets and processes while a test runs that is not marked for them."""

    test: str | None = None

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        """Audit hook (sys.addaudithook): called for everything that CPython audits, so it must be quick."""
        if self.test is None:
            return
        if event == "subprocess.Popen" or (event in {"socket.bind", "socket.connect"} and is_network(arguments[1])):
            raise RuntimeError(f"{self.test} opens a socket or starts a process: mark it @pytest.mark.sockets")


def is_network(address: object) -> bool:
    """An internet address is a tuple; a local socket's is a path."""
    return isinstance(address, tuple)


guard = Guard()
sys.addaudithook(guard)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the compat tests, and leave the soak tests out unless they are asked for."""
    for item in items:
        if item.nodeid.startswith(COMPAT_TESTS):
            item.add_marker(pytest.mark.sockets)
            item.add_marker(pytest.mark.slow)
    if SOAK:
        return
    left_out = [item for item in items if item.get_closest_marker("soak")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Spare the garbage collector ten thousand tests: else it walks them again and again, here and in a test's time."""
    gc.disable()
    try:
        if session.config.args == [UNITS] and "PYTEST_XDIST_WORKER" in os.environ:
            import_share(int(os.environ["PYTEST_XDIST_WORKER"][2:]), int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def import_share(worker: int, workers: int) -> None:
    """Import a worker's share of the modules first: in a new checkout, each worker would compile all of them."""
    rooms = sorted(path for path in Path(UNITS).iterdir() if path.is_dir())
    paths = [path for room in rooms for path in sorted(room.rglob("test_*.py"))]
    for path in paths[len(paths) * worker // workers : len(paths) * (worker + 1) // workers]:
        # pytest imports the module again, and reports the error
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(path.relative_to("src").with_suffix("").parts))


@pytest.fixture(scope="session", autouse=True)
def tables_of_characters(request: pytest.FixtureRequest) -> None:
    """The first text of a checkout makes them, in more than a second: no test's own time.

    Now and then a number is a constant of our modules. The first such number reads all of them, as long.
    """
    if any(is_hypothesis_test(getattr(item, "obj", None)) for item in request.session.items):
        find(st.text(), lambda _: True, settings=settings(database=None))
        with suppress(NoSuchExample):
            find(st.integers(), lambda _: False, settings=settings(database=None, max_examples=200))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Guard the test with its fixtures."""
    guard.test = None if item.get_closest_marker("sockets") else item.nodeid
    try:
        return (yield)
    finally:
        guard.test = None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Measure the call; fixtures are the cost of whoever shares them."""
    if item.get_closest_marker("slow") or SOAK:
        return (yield)
    began = time.process_time()
    result = yield
    spent_s = time.process_time() - began
    if spent_s > FAIL_CPU_S:
        pytest.fail(f"{spent_s:.2f} s of CPU time: make it quicker, or mark it @pytest.mark.slow", pytrace=False)
    if spent_s > SLOW_CPU_S:
        item.user_properties.append((CPU_S, spent_s))
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Take what a worker measured, where the tests run in several processes."""
    if report.when == "call":
        slowest.extend((float(str(value)), report.nodeid) for name, value in report.user_properties if name == CPU_S)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the tests on their way to the limit."""
    if slowest:
        terminalreporter.section(f"over {SLOW_CPU_S} s of CPU time and not marked slow")
        for spent_s, name in sorted(slowest, reverse=True):
            terminalreporter.line(f"{spent_s:.2f} s {name}")
