"""Fixtures: one Chromium, one filled broker and its consoles for all tests of this folder, which one process runs.

They end with the folder: Playwright keeps an event loop of asyncio running, so that no test of another folder could
start its own meanwhile, and no coordinator leaves a transaction open for longer. Tests come in any order: a test that
changes the filled broker changes what it has made itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from compat_tests.console.browser import ARGUMENTS, console, opened_page
from compat_tests.console.open_cluster import OpenCluster, open_cluster
from compat_tests.harness.broker import Broker
from compat_tests.harness.toolchain import missing


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    path = shutil.which("chromium") or missing("chromium is not on the path: apt-get install chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=[*ARGUMENTS])
        yield started
        started.close()


@pytest.fixture(scope="session")
def console_address(broker: Broker) -> Iterator[str]:
    """The console of the shared broker."""
    with console(broker.bootstrap) as address:
        yield address


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A new visitor's page of 1280 pixels; an error in it fails the test."""
    with opened_page(browser) as page:
        yield page


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenCluster]:
    """A filled broker with ACLs, users, quotas, groups, and open transactions."""
    with open_cluster(tmp_path_factory.mktemp("console")) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def filled_console(cluster: OpenCluster) -> Iterator[str]:
    """The console of the filled broker."""
    with console(cluster.bootstrap, cluster.http_arguments) as address:
        yield address


@pytest.fixture(scope="package")
def writing_console(cluster: OpenCluster) -> Iterator[str]:
    """A console of the filled broker that changes it."""
    with console(cluster.bootstrap, [*cluster.http_arguments, "--write"]) as address:
        yield address
