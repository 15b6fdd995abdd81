"""Rows for eyes: fewer columns than JSON lines have, times that can be read, what is long cut."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from headgate.tools.output import Row, format_table, printable

_LONGEST = 60
# Columns that tables leave out, unless they say something in one of the rows that are shown together
_QUIET: dict[str, tuple[object, ...]] = {
    "headers": ([],),
    "timestamp_type": ("CreateTime", None),
    "producer_id": (-1,),
    "producer_epoch": (-1,),
    "base_sequence": (-1,),
    "sequence": (-1,),
    "transactional": (False,),
    "control": (False,),
    "magic": (2,),
    "codec": ("none",),
    "aside_bytes": (0,),
    "missing_offsets": (0,),
    "lost_from": (None,),
    "lost_to": (None,),
    "from_byte": (None,),
    "to_byte": (None,),
    "moved_to": (None,),
}
_NEVER = ("crc", "topic_id", "directory", "base_timestamp")
_WHOLE = ("path", "moved_to")
_TIMES = ("timestamp", "max_timestamp", "first_timestamp", "modified")


def lines(rows: Sequence[Row]) -> list[str]:
    """A table of rows, and another one where they are of another kind: of two files, say."""
    return [line for _, alike in groupby(rows, tuple) for line in _table(list(alike))]


def _table(rows: Sequence[Row]) -> list[str]:
    names = [name for name in rows[0] if name not in _NEVER and not _is_quiet(name, rows)]
    names = names or list(rows[0])  # as of a file that holds a topic's id, and nothing else
    shown = [{name: _shown(name, row[name]) for name in names} for row in rows]
    return [printable(line) for line in format_table(shown)]


def _is_quiet(name: str, rows: Sequence[Row]) -> bool:
    return name in _QUIET and all(row[name] in _QUIET[name] for row in rows)


def _shown(name: str, value: Any) -> Any:
    if name in _TIMES:
        return time_text(value)
    if name == "findings":
        return len(value)
    if isinstance(value, dict):
        value = " ".join(f"{field}={_text(held)}" for field, held in value.items())
    elif isinstance(value, list):
        value = _text(value)
    if isinstance(value, str) and name not in _WHOLE and len(value) > _LONGEST:
        return value[: _LONGEST - 1] + "…"
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def time_text(milliseconds: int | None) -> str | None:
    """A time in UTC; a dash in the table for none, the number itself for what no calendar has."""
    if milliseconds is None or milliseconds < 0:
        return None
    try:
        moment = datetime.fromtimestamp(milliseconds // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03}Z"
