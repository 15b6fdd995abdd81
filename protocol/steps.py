"""Long work in steps: generators that yield often, so that whoever runs them can serve others in between.

Rows of a large response are made while they are written: what is never there as a whole takes no memory and needs no
slices of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from types import GeneratorType
from typing import Any, Generic, TypeAlias, TypeGuard, TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")

Steps: TypeAlias = Generator[None, None, T]
"""Long work as a cooperative generator: it yields after each step of about a millisecond, and returns the result."""

FEW_ITEMS = 64
"""Up to so many rows are made at once."""


class LazyArray(Generic[T, R]):
    """An array of a response: `make(item)` for every item, called each time the array is gone through."""

    __slots__ = ("_items", "_make")

    def __init__(self, items: Sequence[T], make: Callable[[T], R]) -> None:
        self._items = items
        self._make = make

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[R]:
        return map(self._make, self._items)


def lazy_map(items: Sequence[T], make: Callable[[T], R]) -> list[R]:
    """`make(item)` for every item; where they are more than a few, as `LazyArray`, for a writer.

    `make` must not depend on what changes meanwhile.
    """
    return list(map(make, items)) if len(items) <= FEW_ITEMS else cast("list[R]", LazyArray(items, make))


def finish(steps: Steps[T]) -> T:
    """Run the steps to their end, without a pause; return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def finish_if_few(steps: Steps[T], count: int) -> T | Steps[T]:
    """The result of `steps` if they are for a few items, else the steps."""
    return finish(steps) if count <= FEW_ITEMS else steps


def as_steps(result: T) -> Steps[T]:
    """A result as the end of steps: a response that is large, and is to be written in steps."""
    return result
    yield


def is_steps(outcome: Any) -> TypeGuard[Steps[Any]]:
    """Whether something is steps, not yet their result."""
    return type(outcome) is GeneratorType
