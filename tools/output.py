"""What the commands share: options, the error for wrong arguments, tables, and sentences for a broker's error codes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from headgate.tools.client.client import DEFAULT_TIMEOUT_S, ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.client.security_option import add_security_option

_LONGEST_TIMEOUT_S = 86_400

_NUMBERS = (int, float, type(None))

DONE, FAILED, ALARM = 0, 1, 3
DRY_RUN = "this was a dry run, nothing is changed; --execute does it"

Row = Mapping[str, Any]


class UsageError(ValueError):
    """The arguments ask for something impossible; the text says why, and what to write instead."""


class CommandResult(NamedTuple):
    """The output of a command. Rows go to standard output, failures and notes to standard error.

    `document`: a text for standard output in place of rows. `is_alarm`: the command found what a monitor watches for,
    and did not fail: a lag above a limit, a hanging transaction.
    """

    rows: Sequence[Row] = ()
    failures: Sequence[str] = ()
    notes: Sequence[str] = ()
    is_alarm: bool = False
    document: str | None = None

    @property
    def code(self) -> int:
        """The exit code."""
        if self.is_alarm:
            return ALARM
        return FAILED if self.failures else DONE


def common_options() -> argparse.ArgumentParser:
    """The parent parser of all commands that ask a broker and print rows."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--bootstrap-server", default="127.0.0.1:9092", metavar="host:port", help="default: 127.0.0.1:9092"
    )
    add_security_option(common)
    common.add_argument("--timeout", type=seconds, default=DEFAULT_TIMEOUT_S, metavar="seconds", help="default: 30")
    add_format_options(common)
    return common


def add_format_options(parser: argparse.ArgumentParser) -> None:
    """Add `--json` and `--table`; `wants_table` reads both."""
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument("--json", action="store_true", help="JSON lines, also on a terminal")
    formats.add_argument("--table", action="store_true", help="a table, also into a file or a pipe")


def wants_table(options: argparse.Namespace) -> bool:
    """True for a table, False for JSON lines; without an option a terminal gets a table."""
    return bool(options.table or (not options.json and sys.stdout.isatty()))


def add_execution_options(parser: argparse.ArgumentParser, effect: str) -> None:
    """Add `--execute` and `--dry-run`, the default; `effect` is what only `--execute` does: `change the offsets`."""
    execution = parser.add_mutually_exclusive_group()
    execution.add_argument("--execute", action="store_true", help=f"{effect}; the default is a dry run")
    execution.add_argument("--dry-run", action="store_true", help="only show what would change: the default")


def run_and_print(
    command: str,
    run: Callable[[argparse.Namespace], CommandResult],
    options: argparse.Namespace,
    tables: Callable[[Sequence[Row]], Iterable[str]],
) -> int:
    """Run a command and print its result. A ClientError or a UsageError is its failure. Returns the exit code."""
    try:
        result = run(options)
    except (ClientError, UsageError) as error:
        result = CommandResult(failures=[str(error)])
    return print_result(command, result, options, tables)


def run_in_cluster(options: argparse.Namespace) -> CommandResult:
    """The result of `options.run(cluster, options)`, connected to the cluster of the options. Raises as that does."""
    with Cluster(options.bootstrap_server, timeout_s=options.timeout, security=options.security) as cluster:
        result: CommandResult = options.run(cluster, options)
    return result


def print_result(
    command: str,
    result: CommandResult,
    options: argparse.Namespace,
    tables: Callable[[Sequence[Row]], Iterable[str]],
) -> int:
    """Print rows as the lines of `tables` or as JSON lines, or the document; then failures and notes.

    Returns the exit code.
    """
    if result.document is not None:
        print(result.document)
    elif result.rows and wants_table(options):
        for line in tables(result.rows):
            print(printable(line))
    else:
        for row in result.rows:
            print(json.dumps(row))
    print_errors(command, (*result.failures, *result.notes))
    return result.code


def print_errors(command: str, sentences: Iterable[str]) -> None:
    """Print each sentence on standard error, after everything that is already on standard output."""
    sys.stdout.flush()
    for sentence in sentences:
        print(f"headgate {command}: {printable(sentence)}", file=sys.stderr)


def seconds(text: str) -> float:
    """A time limit of an option, in seconds."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _LONGEST_TIMEOUT_S:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from above 0 to {_LONGEST_TIMEOUT_S}")
    return seconds


def format_table(rows: Sequence[Row]) -> list[str]:
    """Lines of aligned columns below their names. Numbers are aligned right; a dash stands for None."""
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


def format_partitions(topics: Mapping[str, Sequence[int]]) -> str:
    """Partitions in the form of `--topic`: `orders:0-2,5 payments:0`."""
    return " ".join(f"{topic}:{','.join(_spans(numbers))}" for topic, numbers in topics.items())


def _spans(numbers: Sequence[int]) -> list[str]:
    """Runs of consecutive numbers: [0, 1, 2, 5] becomes 0-2 and 5."""
    runs = [list(run) for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    return [f"{run[0][1]}-{run[-1][1]}" if len(run) > 1 else str(run[0][1]) for run in runs]


def _align(text: str, width: int, is_number: bool) -> str:
    return text.rjust(width) if is_number else text.ljust(width)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(",".join(map(str, value)) if isinstance(value, list) else str(value))


def printable(text: str) -> str:
    """The text with control characters escaped: a client's name could move the terminal's cursor or change colours."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
