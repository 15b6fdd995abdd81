"""Questions of the scenario: a request, the versions in which clients ask it, and what an allowed one changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from headgate.protocol.schema import Message

UNKNOWN_ID = b"the id of no one"
"""The id of no topic."""

Ids: TypeAlias = Mapping[str, bytes]
"""The ids of topics by name."""


class Question(NamedTuple):
    """A request to the broker.

    `restore`: the names of topics and groups that an allowed request changes; the administrator makes them as before.
    `clients`: those that ask; by default all.
    """

    label: str
    make: Callable[[Ids, int], Message]
    versions: Iterable[int]
    restore: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()


def question(label: str, request: Message, versions: Iterable[int] = (), restore: tuple[str, ...] = ()) -> Question:
    """A question that is the same in all versions; by default those of the message."""
    first, last = request.versions
    return Question(label, lambda _ids, _version: request, versions or range(first, last + 1), restore)


def named(ids: Ids, name: str) -> bytes:
    """The id of a topic; that of no topic, if there is none of this name."""
    return ids.get(name, UNKNOWN_ID)
