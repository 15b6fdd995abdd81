"""A broker for tests: the fixture `headgate`. pytest finds this by itself where Headgate is installed.

    def test_mine(headgate):
        name = headgate.topic(partitions=2)
        producer = KafkaProducer(bootstrap_servers=headgate.bootstrap)

One process serves all tests of a session, so a test costs no start; `topic` gives each its own names. A test may kill
or restart it: the next one finds it running again. Settings, by Kafka's names, are what the fixture `headgate_options`
returns; override it in a conftest.py. When a test fails, the end of the broker's log is in its report.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headgate.gateway.app.embedded import Headgate

_SHOWN_LOG_CHARACTERS = 4_000


@pytest.fixture(scope="session")
def headgate_options() -> Mapping[str, object]:
    """Settings of the broker, as `{"num.partitions": 3}`: to be overridden."""
    return {}


@pytest.fixture(scope="session")
def headgate_session(headgate_options: Mapping[str, object]) -> Iterator[Headgate]:
    """The broker of a session."""
    from headgate.gateway.app.embedded import Headgate

    with Headgate(headgate_options) as broker:
        yield broker


@pytest.fixture
def headgate(headgate_session: Headgate) -> Headgate:
    """A running broker: `bootstrap`, `topic(partitions=1)`, `kill()`, `restart()`; see `headgate.Headgate`."""
    return headgate_session.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the broker logged beside the failure of a test that used it."""
    report = yield
    # Whatever a test calls so: it may have a parameter, or a fixture of its own, of that name.
    log = getattr(getattr(item, "funcargs", {}).get("headgate"), "log", None)
    if report.failed and isinstance(log, str):
        report.sections.append(("Headgate's log", log[-_SHOWN_LOG_CHARACTERS:]))
    return report
