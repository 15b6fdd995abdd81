"""Fixtures of the tests of maintenance."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.gateway.maintenance.tests.compactions import CompactingNode, Compactions


@pytest.fixture
def node(tmp_path: Path) -> Iterator[CompactingNode]:
    """A node whose compactions go on when the test says so."""
    made = CompactingNode(tmp_path / "data")
    yield made
    made.close()


@pytest.fixture
def compactions(node: CompactingNode) -> Compactions:
    """The compaction of the node."""
    return Compactions(node)
