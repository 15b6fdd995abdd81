"""`headgate log`: options, output, exit codes.

Output: a table on a terminal, JSON lines otherwise. Exit codes: 0 success without findings; 1 findings or failures;
2 wrong usage. Only `repair` changes files.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence

from headgate.protocol.errors import KafkaError
from headgate.storage.errors import StorageError
from headgate.tools.log import actions
from headgate.tools.log.actions import CommandOutput, ErrorMessage
from headgate.tools.log.segment_reader import DamagedLog
from headgate.tools.log.table import format_rows
from headgate.tools.log.verification.partition_check import DEFAULT_INTERVAL_BYTES
from headgate.tools.output import Row, UsageError, add_format_options, print_errors, wants_table

FAILED, MISUSED = 1, 2
_ROWS_AT_ONCE = 200


def main(arguments: Sequence[str]) -> int:
    """Run `headgate log <arguments>`; return the exit code."""
    options = _parser().parse_args(arguments)
    is_table = wants_table(options)
    code = 0
    try:
        for rows, failure in _chunks(options.run(options)):
            _print(rows, is_table=is_table)
            if failure is not None:
                code = FAILED
                print_errors("log", [failure])
    except UsageError as error:
        code = MISUSED
        print_errors("log", [str(error)])
    return code


def _chunks(output: CommandOutput) -> Iterator[tuple[list[Row], str | None]]:
    """Rows and the error behind them. Long output comes in chunks, so that the first rows appear at once.

    Raises UsageError for arguments that name nothing.
    """
    rows: list[Row] = []
    failure = None
    try:
        for one in output:
            if isinstance(one, ErrorMessage):
                yield rows, str(one)
                rows = []
            else:
                rows.append(one)
                if len(rows) == _ROWS_AT_ONCE:
                    yield rows, None
                    rows = []
    except UsageError:
        yield rows, None
        raise
    except (DamagedLog, StorageError) as error:
        failure = str(error)
    except KafkaError as error:
        failure = error.message
    except OSError as error:
        failure = f"{error.filename or 'the disk'}: {error.strerror}"
    yield rows, failure


def _print(rows: Sequence[Row], *, is_table: bool) -> None:
    for line in format_rows(rows) if is_table else map(json.dumps, rows):
        print(line)


# ------------------------------------------------------------------------------------------------------------- options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headgate log",
        description="Look at the files of a data directory, Headgate's or Apache Kafka's; docs/log.md has examples.",
    )
    commands = parser.add_subparsers(required=True, metavar="dump|verify|repair|ls")
    common = _common_options()

    def add(name: str, summary: str, run: Callable[[argparse.Namespace], CommandOutput]) -> argparse.ArgumentParser:
        command = commands.add_parser(name, parents=[common], help=summary, description=summary)
        command.set_defaults(run=run)
        return command

    _dump_options(add("dump", "records, batches or gaps of partitions; entries of a file", actions.dump))
    verify = add("verify", "read everything and report damage", actions.verify)
    repair = add("repair", "quarantine damaged bytes and report the lost offsets", actions.repair)
    repair.add_argument("--dry-run", action="store_true", help="only show what would change")
    for command in (verify, repair):
        command.add_argument(
            "--index-interval-bytes",
            type=_count,
            default=DEFAULT_INTERVAL_BYTES,
            metavar="bytes",
            help="index.interval.bytes of rebuilt indexes; default: the interval of the old indexes, "
            f"or {DEFAULT_INTERVAL_BYTES}",
        )
    listing = add("ls", "partitions: sizes, offsets, and the work of the next start", actions.listing)
    listing.add_argument("--segments", action="store_true", help="a row for each segment")
    return parser


def _common_options() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "paths", nargs="+", metavar="path", help="a data directory, a partition's directory, or (dump) a file in one"
    )
    common.add_argument(
        "--topic",
        action="append",
        default=[],
        dest="topics",
        metavar="name",
        help="only this topic of a data directory; may be repeated",
    )
    common.add_argument(
        "--partition", action="append", type=_count, default=[], dest="partitions", metavar="number", help="as --topic"
    )
    add_format_options(common)
    return common


def _dump_options(command: argparse.ArgumentParser) -> None:
    kind = command.add_mutually_exclusive_group()
    kind.add_argument("--batches", action="store_true", help="the headers of batches, instead of records")
    kind.add_argument("--gaps", action="store_true", help="the offsets that consumers do not see, and the reasons")
    command.add_argument(
        "--from", type=_count, default=0, dest="from_offset", metavar="offset", help="the first offset; default: 0"
    )
    command.add_argument("--to", type=_count, dest="to_offset", metavar="offset", help="the first offset left out")
    command.add_argument("--limit", type=_count, metavar="rows", help="at most so many rows of each partition or file")


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")
    return number
