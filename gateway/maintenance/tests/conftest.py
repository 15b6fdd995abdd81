"""Fixtures of the tests of maintenance."""

import pytest

from headgate.gateway.maintenance.tests.compactions import Compactions
from headgate.gateway.tests.builders import Node


@pytest.fixture
def compactions(node: Node) -> Compactions:
    """The compaction of the node, whose steps run when the test says so."""
    return Compactions(node)
