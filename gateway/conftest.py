"""Fixtures of the gateway's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.gateway.runtime.tests.fake_scheduler import HeldThreads
from headgate.gateway.tests.builders import HandlerBroker


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is marked `every_metadata_store` over each of them."""
    definition = metafunc.definition
    if definition.get_closest_marker("every_metadata_store") and not definition.get_closest_marker("embedded_metadata"):
        metafunc.parametrize("metadata_store", ["embedded", "shared"], indirect=True)


@pytest.fixture(autouse=True)
def metadata_store(request: pytest.FixtureRequest) -> None:
    """Where a `HandlerBroker` keeps its metadata: "embedded", or "shared" with other brokers that change them."""
    # Each test has this fixture: few need the other one
    if getattr(request, "param", "embedded") == "shared":
        request.getfixturevalue("monkeypatch").setattr(HandlerBroker, "clusters", {})


@pytest.fixture
def node(tmp_path: Path) -> Iterator[HandlerBroker]:
    """The services of a broker with default settings and an empty data directory."""
    made = HandlerBroker(tmp_path / "data")
    yield made
    made.close()


@pytest.fixture
def threads(node: HandlerBroker) -> HeldThreads:
    """The threads of the node's maintenance."""
    # The two are asked for all the time, or after each error: see test_disk_space.py, test_directory_health.py.
    return node.time.scheduler.hold("space", "probe")


@pytest.fixture
def served(node: HandlerBroker) -> HandlerBroker:
    node.services.metadata.create_topic("t", 1)
    node.services.metadata.create_topic("u", 1)
    return node
