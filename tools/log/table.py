"""Rows as tables for people: fewer columns than in JSON lines, readable times, long values shortened."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from headgate.tools.output import Row, format_table, printable

_LONGEST = 60
# Columns that a table leaves out if all its rows have one of these values
_DEFAULTS: dict[str, tuple[object, ...]] = {
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
_HIDDEN = ("crc", "topic_id", "directory", "base_timestamp")
_UNCUT = ("path", "moved_to")
_TIMES = ("timestamp", "max_timestamp", "first_timestamp", "modified")


def format_rows(rows: Sequence[Row]) -> list[str]:
    """The lines of a table for each run of rows with the same columns; rows of two files may differ."""
    return [line for _, alike in groupby(rows, tuple) for line in _table(list(alike))]


def _table(rows: Sequence[Row]) -> list[str]:
    names = [name for name in rows[0] if name not in _HIDDEN and not _is_default(name, rows)]
    names = names or list(rows[0])  # partition.metadata has only a topic id, which other tables hide
    shown = [{name: _cell(name, row[name]) for name in names} for row in rows]
    return [printable(line) for line in format_table(shown)]


def _is_default(name: str, rows: Sequence[Row]) -> bool:
    return name in _DEFAULTS and all(row[name] in _DEFAULTS[name] for row in rows)


def _cell(name: str, value: Any) -> Any:
    if name in _TIMES:
        return time_text(value)
    if name == "findings":
        return len(value)
    if isinstance(value, dict):
        value = " ".join(f"{field}={_text(held)}" for field, held in value.items())
    elif isinstance(value, list):
        value = _text(value)
    if isinstance(value, str) and name not in _UNCUT and len(value) > _LONGEST:
        return value[: _LONGEST - 1] + "…"
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def time_text(milliseconds: int | None) -> str | None:
    """A timestamp as text in UTC; None without one; the number itself if it is beyond the calendar."""
    if milliseconds is None or milliseconds < 0:
        return None
    try:
        moment = datetime.fromtimestamp(milliseconds // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03}Z"
