"""Fixtures: a broker whose census is taken when a test says so."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.gateway.census.tests.counted_broker import CountedBroker
from headgate.gateway.tests.builders import HandlerBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[CountedBroker]:
    """A broker without a census of its own."""
    node = HandlerBroker(tmp_path, headgate_census="false")
    yield CountedBroker(node)
    node.close()
