"""The table of resources: each line names a function."""

import pytest

from headgate.tools.console.resource_table import RESOURCES


@pytest.mark.parametrize("name", RESOURCES)
def test_every_resource_is_a_function(name: str) -> None:
    assert callable(RESOURCES[name].load())
    assert name.isidentifier()
