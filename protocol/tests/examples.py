"""How many examples a property test tries: all of them in `make test`, a share in `make unit` (see conftest.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pytest
from hypothesis import settings

USUAL: Final = 100
"""Examples of a test that asks for no other number."""


def share(count: int) -> int:
    """`count`; of it a part, in a run that asks for fewer examples than usual. At least two, as the first is empty."""
    return max(min(count, 2), count * min(settings().max_examples, USUAL) // USUAL)


def first_in_unit(seeds: Iterable[int], few: int = 1) -> Iterator[Any]:
    """Seeds, or parts of one history, as parameters; those after the first `few` are left out of `make unit`."""
    for number, seed in enumerate(seeds):
        yield seed if number < few else pytest.param(seed, marks=pytest.mark.seeds)
