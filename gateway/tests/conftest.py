"""Fixtures of the gateway's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.tests.builders import Node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """The services of a broker with default settings and an empty data directory."""
    made = Node(tmp_path / "data")
    yield made
    made.close()
