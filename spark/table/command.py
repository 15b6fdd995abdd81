"""`headgate spark table`: a topic as a table of last values by key; options, output, exit codes.

Exit codes: 0 success, 1 failure, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from headgate.spark.load.command import (
    ERRORS,
    Screen,
    add_origin_options,
    add_run_options,
    add_value_options,
    choose_decoding,
    load_origin,
    report,
    show_plan,
    state_of_table,
    tables,
)
from headgate.spark.load.formats.decoding import AVRO, DEBEZIUM, FORMATS
from headgate.spark.load.output.folder import OutputFolder
from headgate.spark.load.output.planning import TaskFailed
from headgate.spark.load.output.tables import DELTA, KINDS, MERGE, PARQUET
from headgate.spark.reading.log_reader import IsolationLevel, OffsetOutOfRange
from headgate.tools.output import CommandResult, Row, UsageError, add_format_options, print_result, wants_table

if TYPE_CHECKING:
    from headgate.spark.load.loading import LoadRequest
    from headgate.spark.load.output.documents import Manifest

_NAME: Final = "spark table"
_FORMATS: Final = (*FORMATS, DEBEZIUM)
_TRIES: Final = 3
_LONGEST_PAUSE_S: Final = 1e6
_CONFLICTS: Final = ("Concurrent", "CONCURRENT", "ValidationException", "CommitFailedException")
"""In the errors of a commit that another writer of the table was faster than, its compaction for example."""


def main(arguments: Sequence[str]) -> int:
    """Run `headgate spark table <arguments>`; return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if not (options.bootstrap_server or options.log_dir):
        parser.error("name the origin: --bootstrap-server host:port, or --log-dir directory, or both")
    try:
        result = show_plan(options, _request(options), _state(options)) if options.dry_run else _follow(options)
    except (*ERRORS, OffsetOutOfRange) as error:
        result = CommandResult(failures=[str(error)])
    return print_result(_NAME, result, options, tables)


def _follow(options: argparse.Namespace) -> CommandResult:
    """Merge what is new, again and again; with --once what is there at the start. As a table, rows come in the end."""
    shown: list[Row] = []
    merges = 0
    for row in _merges(options):
        merges += 1
        if wants_table(options):
            shown.append(row)
        else:
            print(json.dumps(row), flush=True)
    return CommandResult(shown, notes=[] if merges else ["there is nothing new; the table is as it was"])


def _merges(options: argparse.Namespace) -> Iterator[Row]:
    from headgate.spark.load.loading import load
    from headgate.spark.load.runners import SparkRunner

    request, output = _request(options), OutputFolder(_state(options))
    needed = [AVRO] if options.format == AVRO else []
    runner = SparkRunner.start(options.master, [*needed, options.table_format], dict(options.conf))
    screen = Screen(_NAME)
    try:
        while True:
            published = tried(lambda: load(request, load_origin(options), output, runner, screen), screen.note)
            screen.clear()
            for manifest in published:
                yield from report(manifest)
            if options.once:
                return
            if not published:
                time.sleep(options.every)
    finally:
        screen.clear()
        runner.close()


def tried(merge: Callable[[], list[Manifest]], note: Callable[[str], None]) -> list[Manifest]:
    """Merge again if another writer of the table was faster. Raises TaskFailed with what Spark says."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    for number in range(1, _TRIES + 1):
        try:
            return merge()
        except (Py4JJavaError, PySparkException) as error:
            text = str(error)
            if number == _TRIES or not any(word in text for word in _CONFLICTS):
                raise TaskFailed(f"Spark could not merge: {text}") from error
            note(f"another writer has changed the table meanwhile; try {number + 1} of {_TRIES} begins")
    raise AssertionError("the last try returns or raises")


def _request(options: argparse.Namespace) -> LoadRequest:
    from headgate.spark.load.loading import LoadRequest

    return LoadRequest(
        (options.topic,),
        IsolationLevel(options.isolation_level),
        most_offsets=options.offsets_per_task,
        fails_on_data_loss=options.fail_on_data_loss == "true",
        decoding=choose_decoding(options, (options.topic,)),
        into=options.table_format,
        table=options.out,
        mode=MERGE,
    )


def _state(options: argparse.Namespace) -> str:
    """The folder with plans and positions. Raises UsageError."""
    if options.table_format == PARQUET:
        raise UsageError(
            "Parquet files cannot be merged, only written anew: write --table-format delta or --table-format iceberg; "
            "`headgate spark load` keeps all records of a topic as Parquet"
        )
    return state_of_table(options.table_format, options.out, options.state)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headgate spark table",
        description="Keep a table of the last value of each key of a topic: a compacted topic, or Debezium's change "
        "events. A null value deletes its key. Each run merges what is new. docs/spark.md has examples.",
    )
    parser.add_argument("topic")
    parser.add_argument("out", metavar="OUT", help="delta: a path; iceberg: catalog.namespace.table")
    parser.add_argument("--table-format", choices=KINDS, default=DELTA, help="delta or iceberg; default: delta")
    parser.add_argument("--state", metavar="folder", help="plans and positions; default for delta: OUT")
    parser.add_argument("--once", action="store_true", help="merge what is there, and end")
    parser.add_argument(
        "--every", type=_pause, default=10.0, metavar="seconds", help="pause without new records; default: 10"
    )
    add_origin_options(parser)
    add_value_options(parser, _FORMATS)
    parser.add_argument("--master", default="local[*]", help="Spark's master; default: local[*]")
    add_run_options(parser)
    add_format_options(parser)
    return parser


def _pause(text: str) -> float:
    """`type=` of an option: a number of seconds from 0 on."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < _LONGEST_PAUSE_S:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0 on")
    return found
