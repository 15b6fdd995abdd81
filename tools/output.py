"""What the commands have in common: their options, tables, and sentences for what a broker refused."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from headgate.protocol.errors import ErrorCode
from headgate.tools.client import DEFAULT_TIMEOUT_S

_LONGEST_TIMEOUT_S = 86_400

_NUMBERS = (int, float, type(None))

Row = Mapping[str, Any]


def common_options() -> argparse.ArgumentParser:
    """The options of every command that asks a broker and shows rows, as a parent of its parsers."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--bootstrap-server", default="127.0.0.1:9092", metavar="host:port", help="default: 127.0.0.1:9092"
    )
    common.add_argument("--timeout", type=seconds, default=DEFAULT_TIMEOUT_S, metavar="seconds", help="default: 30")
    shape = common.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="JSON lines, also on a terminal")
    shape.add_argument("--table", action="store_true", help="a table, also into a file or a pipe")
    return common


def seconds(text: str) -> float:
    """A time limit of an option, in seconds."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _LONGEST_TIMEOUT_S:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from above 0 to {_LONGEST_TIMEOUT_S}")
    return seconds


def reason(code: int, message: str | None = None) -> str:
    """A sentence for an error code, the broker's own if it sent one, with the code's name."""
    try:
        error = ErrorCode(code)
    except ValueError:
        return message or f"error {code}"
    return f"{message or error.message.rstrip('.')} ({error.name})"


def format_table(rows: Sequence[Row]) -> list[str]:
    """Lines of aligned columns under their names; numbers stand to the right, a dash where there is nothing."""
    if not rows:
        return []
    names = list(rows[0])
    cells = [
        [name.replace("_", " ").upper() for name in names],
        *([_cell(row[name]) for name in names] for row in rows),
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
    numeric = [all(type(row[name]) in _NUMBERS for row in rows) for name in names]
    return ["  ".join(map(_align, line, widths, numeric)).rstrip() for line in cells]


def _align(text: str, width: int, is_number: bool) -> str:
    return text.rjust(width) if is_number else text.ljust(width)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(",".join(map(str, value)) if isinstance(value, list) else str(value))


def printable(text: str) -> str:
    """A line for a terminal: names come from clients, and may hold what would move its cursor or change its colours."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
