"""Each change is a function that exists."""

from __future__ import annotations

import pytest

from headgate.tools.console.changes.change_table import CHANGES


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_has_its_function(name: str) -> None:
    assert CHANGES[name].load().__name__ == name
