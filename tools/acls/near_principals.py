"""The known principal that a principal is probably meant to be: brokers compare every letter. Pure.

The name in a certificate is long, and tools write such names in other orders, with spaces after commas, or in other
letters than the broker, which has them as Java writes them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import combinations
from typing import Final

SPACES, CASE, ORDER = "spaces", "upper and lower case", "the order of its parts"
_ALL: Final = (SPACES, CASE, ORDER)
_COMMA: Final = re.compile(r"(?<!\\),")
"""Between the parts of a name; a comma in a part has a backslash."""
_MAX_LENGTH, _MAX_COMPARED = 256, 1000
"""Of a name, and of the names, in a search for the nearest: the search takes time for each pair of letters."""


def near_principal(principal: str, known: Mapping[str, str], *, is_allowed: bool) -> Iterator[str]:
    """A sentence if the principal is unknown, and a known one is spelt alike.

    `known`: principals, each with the place that names it. `is_allowed`: no sentence about another name that is near.
    """
    if principal in known:
        return
    spelt = _spelt(principal, _ALL)
    for other, place in known.items():
        if _spelt(other, _ALL) == spelt:
            yield f"{place} names {other!r}, which differs in {_difference(principal, other)}; every letter counts"
            return
    if not is_allowed:
        yield from _nearest(principal, known)


def _difference(principal: str, other: str) -> str:
    """The fewest differences that make two names of one."""
    for count in range(1, len(_ALL)):
        for aspects in combinations(_ALL, count):
            if _spelt(principal, aspects) == _spelt(other, aspects):
                return " and ".join(aspects)
    return ", ".join(_ALL)


def _spelt(principal: str, ignored: Collection[str]) -> tuple[object, ...]:
    """A key that is equal for principals with differences of these kinds alone."""
    text = principal.casefold() if CASE in ignored else principal
    spaces = 0 if SPACES in ignored else text.count(" ")
    text = "".join(text.split()) if SPACES in ignored else text
    if ORDER not in ignored:
        return (text,)
    kind, _, name = text.partition(":")
    return (kind, spaces, *sorted(part.strip() for part in _COMMA.split(name)))


def _nearest(principal: str, known: Mapping[str, str]) -> Iterator[str]:
    from difflib import get_close_matches

    kind, _, name = principal.partition(":")
    names = [other.partition(":")[2] for other in known if other.startswith(f"{kind}:")]
    if len(name) > _MAX_LENGTH or len(names) > _MAX_COMPARED:
        return
    for near in get_close_matches(name, [other for other in names if len(other) <= _MAX_LENGTH], n=1, cutoff=0.8):
        other = f"{kind}:{near}"
        yield f"no ACL names this principal; the nearest known one is {other!r}, in {known[other]}"
