"""`headgate spark load` and `headgate spark verify`: options, output, exit codes.

Exit codes: 0 success, 1 failure or findings, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.spark.installation import add_conf_option
from headgate.spark.jars import JarsMissing
from headgate.spark.load.formats.decoding import AVRO, FORMATS, RAW, Decoding
from headgate.spark.load.output.documents import DamagedDocument, LoadPlan, Manifest
from headgate.spark.load.output.folder import FolderError, OutputFolder
from headgate.spark.load.output.planning import LoadRefused, TaskFailed
from headgate.spark.load.output.tables import ICEBERG, KINDS, PARQUET
from headgate.spark.reading.log_reader import IsolationLevel, LogUnavailable, OffsetRange
from headgate.tools.arguments import now_ms
from headgate.tools.client.client import ClientError
from headgate.tools.client.security_option import add_security_option
from headgate.tools.groups.arguments import Time, parse_target
from headgate.tools.output import (
    CommandResult,
    Row,
    UsageError,
    add_format_options,
    format_table,
    print_errors,
    print_result,
)
from headgate.tools.progress import Progress

if TYPE_CHECKING:
    from headgate.spark.load.loading import LoadRequest, TaskRunner
    from headgate.spark.load.origin import LoadOrigin
    from headgate.spark.load.output.tables import TableName
    from headgate.spark.load.table_rows.verification import TableRows

ERRORS = (LoadRefused, TaskFailed, JarsMissing, FolderError, DamagedDocument, LogUnavailable, ClientError, UsageError)
_CODECS = ("zstd", "snappy", "gzip", "lz4", "none")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def main_load(arguments: Sequence[str]) -> int:
    """Run `headgate spark load <arguments>`; return the exit code."""
    parser = _load_parser()
    options = parser.parse_args(arguments)
    if not (options.bootstrap_server or options.log_dir):
        parser.error("name the origin: --bootstrap-server host:port, or --log-dir directory, or both")
    try:
        result = show_plan(options, _request(options), _state(options)) if options.dry_run else _load(options)
    except ERRORS as error:
        result = CommandResult(failures=[str(error)])
    return print_result("spark load", result, options, tables)


def main_verify(arguments: Sequence[str]) -> int:
    """Run `headgate spark verify <arguments>`; return the exit code."""
    options = _verify_parser().parse_args(arguments)
    try:
        from headgate.spark.load.verification import verify

        if not Path(options.out).is_dir():
            raise UsageError(f"there is no folder {options.out}")
        with contextlib.ExitStack() as stack:
            opener = None if options.manifests_only else partial(_open_table, options, stack)
            rows, findings = verify(OutputFolder(options.out), opener)
        if not rows and not findings:
            raise UsageError(f"{options.out} has no published load of `headgate spark load`")
        result = CommandResult(rows, [finding.text for finding in findings])
    except ERRORS as error:
        result = CommandResult(failures=[str(error)])
    return print_result("spark verify", result, options, tables)


def _open_table(options: argparse.Namespace, stack: contextlib.ExitStack, name: TableName) -> TableRows:
    """The table as it is now, in a session that ends with the stack. Raises LoadRefused, JarsMissing."""
    from headgate.spark.load.runners import SparkRunner
    from headgate.spark.load.table_rows.spark_table import SparkTableRows

    runner = SparkRunner.start(options.master, [name.kind], dict(options.conf))
    stack.callback(runner.close)
    return SparkTableRows(name.open(runner.session).rows())


# ---------------------------------------------------------------------------------------------------------------- load


def _load(options: argparse.Namespace) -> CommandResult:
    from headgate.spark.load.loading import load

    request = _request(options)
    runner, screen = _runner(options), Screen()
    try:
        published = load(request, load_origin(options), OutputFolder(_state(options)), runner, screen)
    finally:
        screen.clear()
        runner.close()
    rows = [row for manifest in published for row in report(manifest)]
    return CommandResult(rows, notes=[] if rows else ["there is nothing new; the folder is as it was"])


def load_origin(options: argparse.Namespace) -> LoadOrigin:
    from headgate.spark.load.origin import LoadOrigin

    return LoadOrigin(options.bootstrap_server, tuple(options.log_dir), options.security)


class Screen:
    """Shows the progress of a load on standard error."""

    def __init__(self, command: str = "spark load") -> None:
        self._command = command
        self._progress: Progress | None = None

    def note(self, sentence: str) -> None:
        self.clear()
        print_errors(self._command, [sentence])

    def begin(self, ranges: Collection[OffsetRange]) -> None:
        total = sum(wanted.end_offset - wanted.start_offset for wanted in ranges)
        self._progress = Progress(total, sys.stderr, lambda: now_ms() / 1000, unit="records")

    def end(self, wanted: OffsetRange) -> None:
        if self._progress is not None:
            self._progress.add(wanted.end_offset - wanted.start_offset, str(wanted.partition))

    def clear(self) -> None:
        if self._progress is not None:
            self._progress.clear()


def show_plan(options: argparse.Namespace, request: LoadRequest, state: str) -> CommandResult:
    """The rows of a dry run. `state`: the folder with plans and positions."""
    from headgate.spark.load.loading import plan_only

    plan = plan_only(request, load_origin(options), OutputFolder(state))
    rows = [_range_row(plan, wanted, is_lost=False) for wanted in plan.ranges]
    rows += [_range_row(plan, lost_range, is_lost=True) for lost_range in plan.lost]
    return CommandResult(rows, notes=["this was a dry run, nothing is loaded"])


def _range_row(plan: LoadPlan, wanted: OffsetRange, *, is_lost: bool) -> Row:
    return {
        "load": plan.number,
        "topic": wanted.partition.topic,
        "partition": wanted.partition.number,
        "from": wanted.start_offset,
        "to": wanted.end_offset - 1,
        "lost": is_lost,
    }


def _request(options: argparse.Namespace) -> LoadRequest:
    from headgate.spark.load.loading import LoadRequest
    from headgate.spark.load.output.row_files import FileOptions

    return LoadRequest(
        tuple(dict.fromkeys(options.topics)),
        IsolationLevel(options.isolation_level),
        options.from_time,
        options.to_time,
        options.offsets_per_task,
        options.fail_on_data_loss == "true",
        FileOptions(options.codec, options.file_size),
        choose_decoding(options, options.topics),
        options.into,
        "" if options.into == PARQUET else options.out,
    )


def _state(options: argparse.Namespace) -> str:
    """The folder with plans and positions. Raises UsageError."""
    if options.state is not None and options.into == PARQUET:
        raise UsageError("--state is for tables: a folder of Parquet files has its positions in it")
    return state_of_table(options.into, options.out, options.state)


def state_of_table(kind: str, out: str, state: str | None) -> str:
    """The folder with plans and positions: `state`, or OUT itself. Raises UsageError."""
    if state is None and kind == ICEBERG:
        raise UsageError("a table of Iceberg needs --state folder, for plans and positions")
    if state is None and "://" in out:
        raise UsageError(f"{out} is no folder of a file system here: give --state folder, for plans and positions")
    return state or out


def _runner(options: argparse.Namespace) -> TaskRunner:
    from headgate.spark.load.runners import ProcessRunner, SequentialRunner, SparkRunner

    if options.processes:
        return ProcessRunner(options.processes) if options.processes > 1 else SequentialRunner()
    needed = [AVRO] if options.format == AVRO else []
    needed += [options.into] if options.into != PARQUET else []
    return SparkRunner.start(options.master, needed, dict(options.conf))


def report(manifest: Manifest) -> Iterator[Row]:
    """A row for each partition of a load: its offsets, rows, files, and its gaps by reason."""
    parts: dict[tuple[str, int], list[OffsetRange]] = {}
    rows: Counter[tuple[str, int]] = Counter()
    files: Counter[tuple[str, int]] = Counter()
    gaps: dict[tuple[str, int], Counter[str]] = {}
    for result in manifest.results:
        parts.setdefault(result.wanted.partition, []).append(result.wanted)
        rows[result.wanted.partition] += result.rows
        files[result.wanted.partition] += len(result.files)
        counts = gaps.setdefault(result.wanted.partition, Counter())
        for gap in result.gaps:
            counts[gap.reason] += gap.last - gap.first + 1
    for lost in manifest.lost:
        parts.setdefault(lost.partition, []).append(lost)
        gaps.setdefault(lost.partition, Counter())["deleted"] += lost.end_offset - lost.start_offset
    for partition, ranges in sorted(parts.items()):
        yield {
            "load": manifest.number,
            "topic": partition[0],
            "partition": partition[1],
            "from": min(wanted.start_offset for wanted in ranges),
            "to": max(wanted.end_offset for wanted in ranges) - 1,
            "rows": rows[partition],
            "files": files[partition],
            "gaps": dict(sorted(gaps.get(partition, Counter()).items())),
        }


def tables(rows: Sequence[Row]) -> Iterator[str]:
    yield from format_table([{name: _cell(value) for name, value in row.items()} for row in rows])


def _cell(value: object) -> object:
    if isinstance(value, Mapping):
        return ", ".join(f"{count} {reason}" for reason, count in value.items()) or None
    return value


# ------------------------------------------------------------------------------------------------------------- options


def _load_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headgate spark load",
        description="Load topics into a folder of Parquet files, each record once. The next run goes on behind this "
        "one. docs/spark.md describes the folder.",
    )
    parser.add_argument("topics", nargs="+", metavar="topic")
    parser.add_argument("out", metavar="OUT", help="the folder; all tasks reach it by this path")
    add_origin_options(parser)
    parser.add_argument("--from", dest="from_time", type=_time, metavar="time", help="from the first record this new")
    parser.add_argument("--to", dest="to_time", type=_time, metavar="time", help="up to the first record this new")
    parser.add_argument(
        "--file-size", type=_size, default=_size("256m"), metavar="bytes", help="as 64m or 1g; default: 256m"
    )
    parser.add_argument("--codec", choices=_CODECS, default="zstd", help="of the Parquet files; default: zstd")
    parser.add_argument(
        "--into", choices=KINDS, default=PARQUET, help="delta: OUT is a path; iceberg: catalog.namespace.table"
    )
    parser.add_argument("--state", metavar="folder", help="of a table: plans and positions; default for delta: OUT")
    add_value_options(parser, FORMATS)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--master", default="local[*]", help="Spark's master; default: local[*]")
    where.add_argument("--processes", type=_count, metavar="number", help="run without Spark, in so many processes")
    add_run_options(parser)
    add_format_options(parser)
    return parser


def add_origin_options(parser: argparse.ArgumentParser) -> None:
    """Where the records come from, and which of them."""
    parser.add_argument("--bootstrap-server", metavar="host:port", help="read from a broker by Fetch")
    add_security_option(parser)
    parser.add_argument(
        "--log-dir", action="append", default=[], metavar="directory", help="read a broker's files; may be repeated"
    )
    levels = [level.value for level in IsolationLevel]
    parser.add_argument("--isolation-level", choices=levels, default="read_committed", help="default: read_committed")
    parser.add_argument(
        "--fail-on-data-loss",
        choices=("true", "false"),
        default="true",
        help="false: name offsets that retention took as deleted, and go on; default: true",
    )
    parser.add_argument(
        "--offsets-per-task", type=_size, default=5_000_000, metavar="number", help="at most; default: 5000000"
    )


def add_value_options(parser: argparse.ArgumentParser, formats: Sequence[str]) -> None:
    """How values decode."""
    values = parser.add_argument_group("values")
    values.add_argument("--format", choices=formats, default=RAW, help="of the values; default: raw, their bytes")
    values.add_argument("--schema", metavar="file", help="DDL of Spark, Avro schema, or descriptor set of Protobuf")
    values.add_argument("--schemas", metavar="folder|url", help="Avro schemas by id, for values of Confluent's clients")
    values.add_argument("--message", metavar="name", help="full name of the message of Protobuf")
    values.add_argument("--confluent", action="store_true", help="five bytes of Confluent's clients are before a value")
    values.add_argument(
        "--reject-limit",
        type=_number,
        default=1000,
        metavar="number",
        help="values that may not decode; they go to OUT_rejected; default: 1000",
    )


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Settings of Spark, and the dry run."""
    add_conf_option(parser)
    parser.add_argument("--dry-run", action="store_true", help="only show the plan")


def choose_decoding(options: argparse.Namespace, topics: Sequence[str]) -> Decoding:
    """The decoding of the options of values. Raises UsageError, LoadRefused."""
    from headgate.spark.load.formats.choosing import choose

    return choose(
        options.format,
        topics,
        schema=options.schema,
        schemas=options.schemas,
        message=options.message,
        is_confluent=options.confluent,
        reject_limit=options.reject_limit,
    )


def _verify_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headgate spark verify",
        description="Check a folder of `headgate spark load`: each offset is a row or a gap with its reason, and each "
        "file is as it was published; a table has each row once.",
    )
    parser.add_argument("out", metavar="OUT", help="the folder; of a table that with its positions (--state)")
    parser.add_argument("--master", default="local[*]", help="Spark's master, for a table; default: local[*]")
    add_conf_option(parser)
    parser.add_argument("--manifests-only", action="store_true", help="do not count the rows of a table in Spark")
    add_format_options(parser)
    return parser


def _time(text: str) -> int:
    """`type=` of an option: a time as `groups reset --to` takes it, in ms."""
    try:
        found = parse_target(text, now_ms())
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not isinstance(found, Time) or found.timestamp < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 2026-11-21T15:00Z, or how long ago: 90s, 2h, 7d")
    return found.timestamp


def _size(text: str) -> int:
    """`type=` of an option: a whole number above 0, with k, m or g for powers of 1024."""
    number = text.rstrip("kmgKMG")
    unit = text[len(number) :].lower()
    if not (number.isascii() and number.isdecimal() and unit in _UNITS and 0 < int(number) < 1 << 40):
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write 64m or 1g")
    return int(number) * _UNITS[unit]


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")
    return int(text)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 1000):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)
