"""`headgate log`: options, output, exit codes.

A table on a terminal, JSON lines otherwise. Exit codes: 0 done, and nothing is wrong; 1 something is; 2 called wrongly.
Only `repair` changes anything.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence

from headgate.protocol.errors import KafkaError
from headgate.storage.errors import StorageError
from headgate.tools.log import actions
from headgate.tools.log.actions import Failure
from headgate.tools.log.checks import DEFAULT_INTERVAL_BYTES
from headgate.tools.log.places import NotFound
from headgate.tools.log.reading import Damaged
from headgate.tools.log.table import lines
from headgate.tools.output import Row, printable

FAILED, MISUSED = 1, 2
_ROWS_AT_ONCE = 200


def main(arguments: Sequence[str]) -> int:
    """Run `headgate log <arguments>`; returns the exit code."""
    options = _parser().parse_args(arguments)
    is_table = options.table or (not options.json and sys.stdout.isatty())
    code = 0
    try:
        for rows, failure in _said(options.run(options)):
            _print(rows, is_table)
            if failure is not None:
                code = FAILED
                _complain(failure)
    except NotFound as error:
        code = MISUSED
        _complain(str(error))
    return code


def _complain(sentence: str) -> None:
    sys.stdout.flush()
    print(f"headgate log: {printable(sentence)}", file=sys.stderr)


def _said(told: Iterator[Row | Failure]) -> Iterator[tuple[list[Row], str | None]]:
    """Rows, and the failure behind them; what is long comes in pieces, so that nothing waits for its end.

    Raises NotFound where there is no such thing as was asked for.
    """
    rows: list[Row] = []
    failure = None
    try:
        for one in told:
            if isinstance(one, Failure):
                yield rows, str(one)
                rows = []
            else:
                rows.append(one)
                if len(rows) == _ROWS_AT_ONCE:
                    yield rows, None
                    rows = []
    except NotFound:
        yield rows, None
        raise
    except (Damaged, StorageError) as error:
        failure = str(error)
    except KafkaError as error:
        failure = error.message
    except OSError as error:
        failure = f"{error.filename or 'the disk'}: {error.strerror}"
    yield rows, failure


def _print(rows: Sequence[Row], is_table: bool) -> None:
    for line in lines(rows) if is_table else map(json.dumps, rows):
        print(line)


# ------------------------------------------------------------------------------------------------------------- options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headgate log",
        description="Look at the files of a data directory, Headgate's or Apache Kafka's; docs/log.md has examples.",
    )
    commands = parser.add_subparsers(required=True, metavar="dump|verify|repair|ls")
    common = _common_options()

    def add(
        name: str, summary: str, run: Callable[[argparse.Namespace], Iterator[Row | Failure]]
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, parents=[common], help=summary, description=summary)
        command.set_defaults(run=run)
        return command

    _dump_options(add("dump", "records, batches or gaps of partitions; what is in a file", actions.dump))
    verify = add("verify", "read everything, and say what is wrong", actions.verify)
    repair = add("repair", "move damaged bytes aside, and say which offsets are lost", actions.repair)
    repair.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    for command in (verify, repair):
        command.add_argument(
            "--index-interval-bytes",
            type=_count,
            default=DEFAULT_INTERVAL_BYTES,
            metavar="bytes",
            help="index.interval.bytes, where the indexes are to be made again; default: what they were made with, "
            f"or {DEFAULT_INTERVAL_BYTES}",
        )
    listing = add("ls", "partitions: sizes, offsets, and what the next start has to do with them", actions.listing)
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
        help="of a data directory only this; may be repeated",
    )
    common.add_argument(
        "--partition", action="append", type=_count, default=[], dest="partitions", metavar="number", help="as --topic"
    )
    shape = common.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="JSON lines, also on a terminal")
    shape.add_argument("--table", action="store_true", help="a table, also into a file or a pipe")
    return common


def _dump_options(command: argparse.ArgumentParser) -> None:
    kind = command.add_mutually_exclusive_group()
    kind.add_argument("--batches", action="store_true", help="the headers of batches, instead of records")
    kind.add_argument("--gaps", action="store_true", help="the offsets that consumers do not see, and why")
    command.add_argument(
        "--from", type=_count, default=0, dest="from_offset", metavar="offset", help="the first; default: all"
    )
    command.add_argument("--to", type=_count, dest="to_offset", metavar="offset", help="the first one left out")
    command.add_argument("--limit", type=_count, metavar="rows", help="so many rows of each partition or file at most")


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")
    return number
