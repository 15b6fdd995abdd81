"""Options of the commands that show lag: limits for monitors, and the isolation level of the readers."""

from __future__ import annotations

import argparse
from typing import Final

from headgate.tools.arguments import offset
from headgate.tools.groups.offsets import READ_COMMITTED, READ_UNCOMMITTED

_ISOLATION_LEVELS: Final = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}


def add_limit_options(command: argparse.ArgumentParser) -> None:
    """Add `--fail-above` and `--fail-above-seconds`, for `check_lag_limits`."""
    limits = "exit with 3 if a group is further behind, or if an offset is out of range"
    command.add_argument("--fail-above", type=offset, metavar="records", help=limits)
    command.add_argument("--fail-above-seconds", type=not_negative, metavar="seconds", help="the same for seconds")


def add_isolation_option(command: argparse.ArgumentParser) -> None:
    """Add `--isolation-level`, as the number in ListOffsets."""
    level = "of the consumers; with read_committed the lag counts to the last stable offset"
    names = "|".join(_ISOLATION_LEVELS)
    command.add_argument("--isolation-level", type=isolation_level, default=READ_UNCOMMITTED, metavar=names, help=level)


def isolation_level(text: str) -> int:
    """`type=` of an option: the number of an isolation level."""
    if text not in _ISOLATION_LEVELS:
        raise argparse.ArgumentTypeError(f"{text!r} is no isolation level; write {' or '.join(_ISOLATION_LEVELS)}")
    return _ISOLATION_LEVELS[text]


def not_negative(text: str) -> float:
    """`type=` of an option: a finite number from 0 on."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")
    return number
