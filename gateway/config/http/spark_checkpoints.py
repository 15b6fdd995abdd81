"""`headgate.spark.checkpoints`: the folders of streaming queries whose lag a broker shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_LOCAL: Final = ("file://", "file:")


def parse_checkpoints(items: Iterable[str]) -> dict[str, str]:
    """`name:directory,...` -> directories of this machine by name; the first colon divides. Raises ValueError."""
    found: dict[str, str] = {}
    for item in items:
        name, colon, directory = (part.strip() for part in item.partition(":"))
        for scheme in _LOCAL:
            directory = directory.removeprefix(scheme)
        if not colon or not name or not directory.startswith("/") or name in found:
            raise ValueError(item)
        found[name] = directory.rstrip("/") or "/"
    return found
