"""Cooperative work: generators that yield after each short step, so that the caller can serve others in between.

A large response has lazy arrays. Their elements are made while they are written, one by one. So the whole array takes
no memory, and needs no steps of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Generic, TypeAlias, TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")

Steps: TypeAlias = Generator[None, None, T]
"""Long work: a generator that yields after each step of at most about a millisecond, and returns the result."""

FEW_ITEMS = 64
"""Work on at most so many items is done at once, without steps."""


class LazyArray(Generic[T, R]):
    """An array of a response: `make(item)` for each of `items`. Each iteration calls `make` again."""

    __slots__ = ("_items", "_make")

    def __init__(self, items: Sequence[T], make: Callable[[T], R]) -> None:
        self._items = items
        self._make = make

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[R]:
        return map(self._make, self._items)

    def __getitem__(self, number: int) -> R:
        return self._make(self._items[number])


def lazy_map(items: Sequence[T], make: Callable[[T], R]) -> list[R]:
    """Return `make(item)` for each of `items`: a list, or a `LazyArray` of more than `FEW_ITEMS` items.

    A `LazyArray` calls `make` during the write of the response. So the results of `make` must not change until then.
    """
    return list(map(make, items)) if len(items) <= FEW_ITEMS else cast("list[R]", LazyArray(items, make))


def finish(steps: Steps[T]) -> T:
    """Run all steps without a pause; return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def joined(made: list[T], more: list[T]) -> list[T]:
    """Return `made` followed by `more`: a `LazyArray` if `made` is one."""
    if not isinstance(made, LazyArray):
        return [*made, *more]
    first, count = made, len(made)

    def row(number: int) -> T:
        return first[number] if number < count else more[number - count]

    return cast("list[T]", LazyArray(range(count + len(more)), row))
