"""How many examples and seeds a test tries: a share in `make unit`, some in `make test`, all in `make soak`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pytest
from hypothesis import settings

USUAL: Final = 100
"""Examples of a test that asks for no other number."""


def share(count: int, soak: int = 0) -> int:
    """`count`; of it a part, in a run that asks for fewer examples than usual. At least two, as the first is empty.

    `soak` is the number for a run that asks for more examples than usual.
    """
    asked = settings().max_examples
    return max(count, soak) if asked > USUAL else max(min(count, 2), count * asked // USUAL)


def first_in_unit(seeds: Iterable[object], few: int = 1, some: int | None = None) -> Iterator[Any]:
    """Seeds, or parts of one history, as parameters: `make unit` has the first `few`, `make test` the first `some`."""
    for number, seed in enumerate(seeds):
        if some is not None and number >= some:
            yield pytest.param(seed, marks=pytest.mark.soak)
        else:
            yield seed if number < few else pytest.param(seed, marks=pytest.mark.seeds)
