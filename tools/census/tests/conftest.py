"""Fixtures: a modelled cluster whose census a test fills."""

import pytest

from headgate.tools.census.tests.census_of_cluster import CensusOfCluster
from headgate.tools.tests.model_cluster import ModelCluster


@pytest.fixture
def census(model: ModelCluster, capsys: pytest.CaptureFixture[str]) -> CensusOfCluster:
    """A cluster without records in its census."""
    return CensusOfCluster(model, capsys)
