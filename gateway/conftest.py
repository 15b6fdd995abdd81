"""Fixtures of the gateway's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.gateway.tests.builders import Node
from headgate.gateway.tests.manual import Threads


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """The services of a broker with default settings and an empty data directory."""
    made = Node(tmp_path / "data")
    yield made
    made.close()


@pytest.fixture
def threads(node: Node, monkeypatch: pytest.MonkeyPatch) -> Threads:
    """Those of the node's upkeep, which run when the test says so."""
    # They are asked for all the time, or after each error: see test_space.py, test_directory_health.py.
    threads = Threads(ignored=["space", "try_directory"])
    monkeypatch.setattr(node.services.scheduler, "in_thread", threads.in_thread)
    return threads
