"""`headgate groups`: options, output, exit codes.

A table on a terminal, JSON lines otherwise. Exit codes: 0 done; 1 it failed for at least one thing; 2 called wrongly;
3 a lag is above what `--fail-above` allows. Offsets are changed by `--execute` only.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

from headgate.tools.client import ClientError
from headgate.tools.groups import actions, target
from headgate.tools.groups.actions import Said, now_ms
from headgate.tools.groups.cluster import Cluster
from headgate.tools.groups.target import Badly
from headgate.tools.output import Row, common_options, format_table, printable

_LAG_COLUMNS = ("group", "topic", "partition", "committed", "end", "lag", "lag_seconds", "status", "client_id", "host")
_PLACE_COLUMNS = ("topic", "partition", "committed", "end", "lag", "lag_seconds", "status", "leader", "member_id")


def main(arguments: Sequence[str]) -> int:
    """Run `headgate groups <arguments>`; returns the exit code."""
    options = _parser().parse_args(arguments)
    options.check(options)
    is_table = options.table or (not options.json and sys.stdout.isatty())
    try:
        with Cluster(options.bootstrap_server, timeout_s=options.timeout) as cluster:
            said: Said = options.run(cluster, options)
    except (ClientError, Badly) as error:
        said = Said(failures=[str(error)])
    _print(said, is_table)
    return said.code


def _print(said: Said, is_table: bool) -> None:
    if said.document is not None:
        print(said.document)
    elif is_table:
        for line in _tables(said.rows):
            print(printable(line))
    else:
        for row in said.rows:
            print(json.dumps(row))
    sys.stdout.flush()
    for text in (*said.failures, *said.notes):
        print(f"headgate groups: {printable(text)}", file=sys.stderr)


def _tables(rows: Sequence[Row]) -> Iterable[str]:
    """A described group as a line and two tables; lag without what would make it too wide; anything else as it is."""
    if not rows or "partitions" not in rows[0]:
        columns = _LAG_COLUMNS if rows and "lag" in rows[0] else None
        return format_table([_rounded(row, columns or tuple(row)) for row in rows])
    lines: list[str] = []
    for row in rows:
        assignor = f", assignor {row['assignor']}" if row["assignor"] else ""
        lines += [
            "",
            f"group {row['group']}: {row['state']}, {row['type']}{assignor}, coordinator {row['coordinator'] or '-'}",
        ]
        members = [{**one, "partitions": _ranges(one["partitions"]) or None} for one in row["members"]]
        for table in (members, [_rounded(one, _PLACE_COLUMNS) for one in row["partitions"]]):
            lines += ["", *format_table(table)] if table else []
        lines += [] if row["partitions"] else ["", "nothing is committed"]
    return lines[1:]


def _ranges(topics: Mapping[str, Sequence[int]]) -> str:
    """`orders:0-2,5 payments:0`, as `--topic` takes it."""
    return " ".join(f"{topic}:{','.join(_spans(numbers))}" for topic, numbers in topics.items())


def _spans(numbers: Sequence[int]) -> list[str]:
    """Runs of ascending numbers."""
    runs = [list(run) for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    return [f"{run[0][1]}-{run[-1][1]}" if len(run) > 1 else str(run[0][1]) for run in runs]


def _rounded(row: Row, columns: Sequence[str]) -> Row:
    """Tenths of seconds are enough for eyes."""
    return {name: round(row[name], 1) if isinstance(row[name], float) else row[name] for name in columns}


# ------------------------------------------------------------------------------------------------------------- options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headgate groups", description="Consumer groups and their offsets; docs/groups.md has examples."
    )
    commands = parser.add_subparsers(required=True, metavar="list|describe|lag|reset|delete|export|import")
    common = common_options()

    def add(name: str, summary: str, run: Callable[[Cluster, argparse.Namespace], Said]) -> argparse.ArgumentParser:
        command = commands.add_parser(name, parents=[common], help=summary, description=summary)
        command.set_defaults(run=run, check=lambda options: None)
        return command

    _list_options(add("list", "all groups, or those of a state, type or protocol", actions.listing))
    describe = add("describe", "members, and where the group is in each partition", actions.describing)
    describe.add_argument("groups", nargs="*", metavar="group", help="default: all")
    _lag_options(add("lag", "how far groups are behind, in records and in seconds", actions.lagging))
    _reset_options(add("reset", "move the committed offsets of a group that has no members", actions.reset))
    _delete_options(add("delete", "delete groups without members, or their offsets of topics", actions.deleting))
    export = add("export", "committed offsets as JSON", actions.exporting)
    export.add_argument("groups", nargs="*", metavar="group", help="default: all")
    export.add_argument("--output", metavar="file", help="default: standard output")
    importing = add("import", "commit the offsets of an export, for groups without members", actions.importing)
    importing.add_argument("file", help="- for standard input")
    importing.add_argument("--group", action="append", default=[], help="only this one; may be repeated")
    _execution(importing)
    return parser


def _list_options(command: argparse.ArgumentParser) -> None:
    for name, examples in (("state", "stable,empty"), ("type", "classic"), ("protocol", "consumer")):
        command.add_argument(f"--{name}", action=_Words, default=[], metavar=examples, help="may be repeated")


def _lag_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("groups", nargs="*", metavar="group", help="default: all")
    command.add_argument("--topic", action=_Topics, default={}, metavar="topic[:0,2,4-6]", help="only of this one")
    limits = "exit with 3 if a group is further behind, or its offset is out of range"
    command.add_argument("--fail-above", type=_not_negative_int, metavar="records", help=limits)
    command.add_argument("--fail-above-seconds", type=_not_negative, metavar="seconds", help="the same by time")


def _reset_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("group")
    where = command.add_mutually_exclusive_group(required=True)
    help_to = "earliest, latest, an offset, a time (2026-11-21T15:00Z), or how long ago (90s, 2h, 7d, PT15M)"
    where.add_argument("--to", type=_target, metavar="where", help=help_to)
    where.add_argument("--by", type=int, metavar="n", help="so many offsets on; --by -100 goes back")
    where.add_argument("--from-file", metavar="file", help="lines of topic,partition,offset; - for standard input")
    which = command.add_mutually_exclusive_group()
    which.add_argument("--topic", action=_Topics, default={}, metavar="topic[:0,2,4-6]", help="may be repeated")
    which.add_argument("--all-topics", action="store_true", help="all that the group has committed to")
    _execution(command)

    def check(options: argparse.Namespace) -> None:
        is_named = bool(options.topic) or options.all_topics
        if options.from_file and is_named:
            command.error("--from-file names the partitions itself; leave --topic and --all-topics out")
        if not options.from_file and not is_named:
            command.error(
                "say for which topics: --topic topic, or --all-topics for all that the group has committed to"
            )

    command.set_defaults(check=check)


def _delete_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("groups", nargs="+", metavar="group")
    command.add_argument(
        "--topic",
        action=_Topics,
        default={},
        metavar="topic[:0,2]",
        help="only the offsets of this one; may be repeated",
    )
    command.add_argument("--if-exists", action="store_true", help="what does not exist is no failure")
    command.add_argument("--dry-run", action="store_true", help="only show what would be deleted")


def _execution(command: argparse.ArgumentParser) -> None:
    execution = command.add_mutually_exclusive_group()
    execution.add_argument("--execute", action="store_true", help="do it; without it nothing is changed")
    execution.add_argument("--dry-run", action="store_true", help="only show what would change: the default")


class _Words(argparse.Action):
    """`--state stable,empty --state dead`: words in lower case."""

    def __call__(self, parser: object, options: argparse.Namespace, value: object, name: str | None = None) -> None:
        words = [word.strip().lower() for word in str(value).split(",")]
        setattr(options, self.dest, [*getattr(options, self.dest), *words])


class _Topics(argparse.Action):
    """`--topic orders:0,1 --topic payments`: partitions by topic, None for all."""

    def __call__(
        self, parser: argparse.ArgumentParser, options: argparse.Namespace, value: object, name: str | None = None
    ) -> None:
        options.topic_texts = [*getattr(options, "topic_texts", []), str(value)]
        try:
            setattr(options, self.dest, target.parse_topics(options.topic_texts))
        except Badly as error:
            parser.error(str(error))


def _target(text: str) -> target.Offset | target.Time:
    try:
        return target.parse(text, now_ms())
    except Badly as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _not_negative(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")
    return number


def _not_negative_int(text: str) -> int:
    try:
        return target.offset(text)
    except Badly:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 on") from None
