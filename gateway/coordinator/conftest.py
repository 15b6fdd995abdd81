"""Fixtures of the coordinators' tests."""

import pytest

from headgate.gateway.tests.builders import Node


@pytest.fixture
def served(node: Node) -> Node:
    """A broker with the topics t and u."""
    node.services.metadata.create_topic("t", 1)
    node.services.metadata.create_topic("u", 1)
    return node
