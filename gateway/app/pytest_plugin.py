"""A broker for tests: the fixture `headgate`. pytest loads this plugin by itself where Headgate is installed.

    def test_mine(headgate):
        name = headgate.topic(partitions=2)
        producer = KafkaProducer(bootstrap_servers=headgate.bootstrap)

One process serves all tests of a session, so a test costs no start; `topic` creates topics with unique names. A test
may kill or restart the broker; the next test finds it running again. The fixture `headgate_options` returns the
settings, by Kafka's names; override it in a conftest.py. The report of a failed test has the end of the broker's log.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headgate.gateway.app.headgate import Headgate

_SHOWN_LOG_CHARACTERS = 4_000


@pytest.fixture(scope="session")
def headgate_options() -> Mapping[str, object]:
    """The settings of the broker, such as `{"num.partitions": 3}`. Override this fixture in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def headgate_session(headgate_options: Mapping[str, object]) -> Iterator[Headgate]:
    """The broker of a session."""
    from headgate.gateway.app.headgate import Headgate

    with Headgate(headgate_options) as broker:
        yield broker


@pytest.fixture
def headgate(headgate_session: Headgate) -> Headgate:
    """A running broker: `bootstrap`, `topic(partitions=1)`, `kill()`, `restart()`; see `headgate.Headgate`."""
    return headgate_session.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the end of the broker's log to the report of a failed test that used the broker."""
    report = yield
    # A test may have a parameter or a fixture of its own with that name.
    log = getattr(getattr(item, "funcargs", {}).get("headgate"), "log", None)
    if report.failed and isinstance(log, str):
        report.sections.append(("Headgate's log", log[-_SHOWN_LOG_CHARACTERS:]))
    return report
