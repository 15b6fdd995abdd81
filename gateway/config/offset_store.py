"""`headgate.offsets.store`: where the offsets of a group are, in words of the group, or by patterns of the broker."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

STORE, SOURCE = "headgate.offsets.store", "headgate.offsets.source"
SEPARATE, DUAL, KAFKA = "separate", "dual", "kafka"
STORES: Final = (SEPARATE, DUAL, KAFKA)
SOURCES: Final = ("zookeeper", "kafka")


class OffsetStore(NamedTuple):
    """`source`: the side that leads when the group becomes dual; empty for the other stores."""

    store: str
    source: str = ""


DEFAULT: Final = OffsetStore(SEPARATE)


class StorePattern(NamedTuple):
    """The store of all groups whose id matches, with `*`, `?` and `[...]`, unless an earlier pattern does."""

    pattern: str
    store: OffsetStore


def parse_patterns(text: str) -> tuple[StorePattern, ...]:
    """The patterns of a broker: `legacy-*=dual:zookeeper, *=kafka`; a store alone is for all groups.

    Raises ValueError with the reason.
    """
    return tuple(_parse_pattern(part.strip()) for part in text.split(",") if part.strip())


def _parse_pattern(text: str) -> StorePattern:
    pattern, equals, words = text.rpartition("=")
    store, colon, source = words.strip().partition(":")
    if store not in STORES:
        raise ValueError(f"{text!r}: the store is one of: {', '.join(STORES)}")
    if (store == DUAL) != bool(colon) or (colon and source not in SOURCES):
        raise ValueError(f"{text!r}: dual:zookeeper or dual:kafka names the side that leads; other stores have none")
    if equals and not pattern.strip():
        raise ValueError(f"{text!r}: the pattern is empty")
    return StorePattern(pattern.strip() if equals else "*", OffsetStore(store, source))


def by_pattern(patterns: tuple[StorePattern, ...], group_id: str) -> OffsetStore:
    return next((one.store for one in patterns if fnmatchcase(group_id, one.pattern)), DEFAULT)


def of_group(configs: Mapping[str, str]) -> OffsetStore | None:
    """The store that a group's own configs name, if they do."""
    store = configs.get(STORE)
    if store is None:
        return None
    return OffsetStore(store, configs.get(SOURCE, "")) if store == DUAL else OffsetStore(store)
