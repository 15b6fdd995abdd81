"""The console of `headgate serve`: a process from the first visit on, ended with the broker."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from compat_tests.console.browser import opened_page
from compat_tests.harness.broker import CONSOLE, HTTP, TARGET, HeadgateBroker
from compat_tests.harness.waiting import until
from compat_tests.harness.writing import send

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="the broker of Apache Kafka has no console")

VISITED_BYTES = 90 << 20
FREE_PORT = "http://127.0.0.1:0"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[HeadgateBroker]:
    started = HeadgateBroker(tmp_path / "broker", {HTTP: FREE_PORT, CONSOLE: FREE_PORT})
    started.start()
    yield started
    if started.is_running():
        started.stop()


def console_of(broker: HeadgateBroker) -> str:
    return broker.output.read_text().partition(" console=")[2].split()[0]


def children(pid: int) -> list[int]:
    """The processes that any thread has started."""
    lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(word) for text in lists for word in text.split()]


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_broker_serves_live_plots(broker: HeadgateBroker, browser: Browser) -> None:
    assert children(broker.pid) == [], "nothing runs before the first visit"
    address = console_of(broker)
    with opened_page(browser) as page:
        page.goto(address)
        page.get_by_role("heading", name="Throughput").wait_for()
        send(broker.bootstrap, "orders", [b"x" * 1000] * 100)
        page.get_by_role("gridcell", name="Produce", exact=True).wait_for()
        first = children(broker.pid)
        assert len(first) == 1
        assert resident_bytes(first[0]) < VISITED_BYTES
    os.kill(first[0], signal.SIGKILL)
    until(lambda: first[0] not in children(broker.pid), "the end of the console")
    with opened_page(browser) as page:
        page.goto(address)
        page.get_by_role("heading", name="Throughput").wait_for()
    second = children(broker.pid)
    assert second != first
    assert any("the console has ended (by SIGKILL)" in line for line in broker.error_lines())
    broker.stop()
    until(lambda: not is_running(second[0]), "the end of the console with the broker")


def test_the_console_ends_with_a_killed_broker(broker: HeadgateBroker, browser: Browser) -> None:
    with opened_page(browser) as page:
        page.goto(console_of(broker))
        page.get_by_role("heading", name="Throughput").wait_for()
    (console,) = children(broker.pid)
    broker.kill()
    until(lambda: not is_running(console), "the end of the console")
