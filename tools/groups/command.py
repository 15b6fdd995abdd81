"""`headgate groups`: options, output, exit codes.

Output: a table on a terminal, JSON lines otherwise. Exit codes: 0 success; 1 at least one failure; 2 wrong usage;
3 a lag above the limit of `--fail-above`. Only `--execute` changes offsets.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence

from headgate.tools.arguments import TopicsAction, WordsAction, now_ms
from headgate.tools.client.cluster import Cluster
from headgate.tools.groups import actions, arguments, migrate
from headgate.tools.groups.lag_options import add_isolation_option, add_limit_options
from headgate.tools.output import (
    CommandResult,
    Row,
    UsageError,
    add_execution_options,
    common_options,
    format_partitions,
    format_table,
    run_and_print,
    run_in_cluster,
)

_LAG_COLUMNS = ("group", "topic", "partition", "committed", "end", "lag", "lag_seconds", "status", "client_id", "host")
_PARTITION_COLUMNS = ("topic", "partition", "committed", "end", "lag", "lag_seconds", "status", "leader", "member_id")


def main(arguments: Sequence[str]) -> int:
    """Run `headgate groups <arguments>`; return the exit code."""
    options = _parser().parse_args(arguments)
    options.check(options)
    return run_and_print("groups", run_in_cluster, options, _tables)


def _tables(rows: Sequence[Row]) -> Iterable[str]:
    """A line and two tables for each described group; lag without its wide columns; all columns of other rows."""
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
        members = [
            {**member, "partitions": format_partitions(member["partitions"]) or None} for member in row["members"]
        ]
        for table in (members, [_rounded(partition, _PARTITION_COLUMNS) for partition in row["partitions"]]):
            lines += ["", *format_table(table)] if table else []
        lines += [] if row["partitions"] else ["", "nothing is committed"]
    return lines[1:]


def _rounded(row: Row, columns: Sequence[str]) -> Row:
    """The row cut down to `columns`, with times rounded to tenths of seconds for people."""
    return {name: round(row[name], 1) if isinstance(row[name], float) else row[name] for name in columns}


# ------------------------------------------------------------------------------------------------------------- options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headgate groups", description="Consumer groups and their offsets; docs/groups.md has examples."
    )
    commands = parser.add_subparsers(required=True, metavar="list|describe|lag|reset|delete|export|import|migrate")
    common = common_options()

    def add(
        name: str, summary: str, run: Callable[[Cluster, argparse.Namespace], CommandResult]
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, parents=[common], help=summary, description=summary)
        command.set_defaults(run=run, check=lambda options: None)
        return command

    _list_options(add("list", "all groups, or those of a state, type or protocol", actions.run_list))
    describe = add("describe", "members, and the group's offset and lag in each partition", actions.run_describe)
    describe.add_argument("groups", nargs="*", metavar="group", help="default: all")
    add_isolation_option(describe)
    _lag_options(add("lag", "how far groups are behind, in records and in seconds", actions.run_lag))
    _reset_options(add("reset", "move the committed offsets of a group that has no members", actions.run_reset))
    _delete_options(add("delete", "delete groups without members, or their offsets of topics", actions.run_delete))
    export = add("export", "committed offsets as JSON, or as the text of ExportZkOffsets", actions.run_export)
    export.add_argument("groups", nargs="*", metavar="group", help="default: all")
    export.add_argument("--output", metavar="file", help="default: standard output")
    export.add_argument("--format", choices=("json", "zookeeper"), default="json", help="default: json")
    import_ = add("import", "commit the offsets of an export, for groups without members", actions.run_import)
    import_.add_argument("file", help="of `export` or ExportZkOffsets; - for standard input")
    import_.add_argument("--group", action="append", default=[], help="only this group; may be repeated")
    add_execution_options(import_, "change the offsets")
    migrate.add_options(commands, common)
    return parser


def _list_options(command: argparse.ArgumentParser) -> None:
    for name, examples in (("state", "stable,empty"), ("type", "classic"), ("protocol", "consumer")):
        command.add_argument(f"--{name}", action=WordsAction, default=[], metavar=examples, help="may be repeated")


def _lag_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("groups", nargs="*", metavar="group", help="default: all")
    command.add_argument("--topic", action=TopicsAction, default={}, metavar="topic[:0,2,4-6]", help="only this topic")
    add_limit_options(command)
    add_isolation_option(command)


def _reset_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("group")
    target = command.add_mutually_exclusive_group(required=True)
    help_to = "earliest, latest, an offset, a time (2026-11-21T15:00Z), or how long ago (90s, 2h, 7d, PT15M)"
    target.add_argument("--to", type=_target, metavar="where", help=help_to)
    target.add_argument("--by", type=int, metavar="n", help="move forward by n offsets; --by -100 moves back")
    target.add_argument("--from-file", metavar="file", help="lines of topic,partition,offset; - for standard input")
    scope = command.add_mutually_exclusive_group()
    scope.add_argument("--topic", action=TopicsAction, default={}, metavar="topic[:0,2,4-6]", help="may be repeated")
    scope.add_argument("--all-topics", action="store_true", help="all topics with committed offsets of the group")
    add_execution_options(command, "change the offsets")

    def check(options: argparse.Namespace) -> None:
        is_named = bool(options.topic) or options.all_topics
        if options.from_file and is_named:
            command.error("the file of --from-file names the partitions; leave --topic and --all-topics out")
        if not options.from_file and not is_named:
            command.error(
                "name the topics: --topic topic, or --all-topics for all topics with committed offsets of the group"
            )

    command.set_defaults(check=check)


def _delete_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("groups", nargs="+", metavar="group")
    command.add_argument(
        "--topic",
        action=TopicsAction,
        default={},
        metavar="topic[:0,2]",
        help="only the offsets of this topic; may be repeated",
    )
    command.add_argument("--if-exists", action="store_true", help="accept groups and offsets that do not exist")
    command.add_argument("--dry-run", action="store_true", help="only show what would be deleted")


def _target(text: str) -> arguments.Offset | arguments.Time:
    try:
        return arguments.parse_target(text, now_ms())
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
