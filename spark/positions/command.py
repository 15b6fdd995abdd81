"""`headgate spark lag | check | offsets`: options, output, exit codes. None of them starts a JVM.

Output: a table on a terminal, JSON lines otherwise. Exit codes: 0 success; 1 at least one failure; 2 wrong usage; 3 a
lag above a limit, or a restart that would lose records. Only `--execute` changes offsets.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

from headgate.spark.positions import actions, locations
from headgate.tools.arguments import TopicsAction
from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.groups.lag_options import add_isolation_option, add_limit_options, not_negative
from headgate.tools.output import (
    CommandResult,
    Row,
    UsageError,
    add_execution_options,
    common_options,
    format_table,
    print_result,
)

_DEFAULT_WATCH_S: Final = 2.0
_HIDDEN: Final = frozenset(("start", "leader", "topic_id", "noted_id", "at_ms"))
"""Columns of JSON lines that tables leave out."""


def lag(arguments: Sequence[str]) -> int:
    """`headgate spark lag`: how far readers are behind."""
    parser = _parser("lag", "How far queries, loads and groups are behind, how fast they are, and the time left.")
    parser.add_argument("places", nargs="+", metavar="place", type=_place, help=_places_help(locations.KINDS))
    _topic_option(parser)
    add_limit_options(parser)
    add_isolation_option(parser)
    watch = "bars that follow the readers until Ctrl-C; JSON lines without a terminal"
    parser.add_argument(
        "--watch", nargs="?", type=not_negative, const=_DEFAULT_WATCH_S, metavar="seconds", help=f"{watch}; default: 2"
    )
    parser.add_argument("--plot", metavar="lag.svg", help="a picture of lag, throughput and batch times")
    parser.add_argument("--history", metavar="file", help="the history that a ProgressListener wrote, for --plot")
    parser.add_argument("--group", default="", help="the group in a file: place")
    return _run("lag", parser, arguments, actions.run_lag)


def check(arguments: Sequence[str]) -> int:
    """`headgate spark check`: the records that a restart of a query would lose."""
    parser = _parser("check", "Before a restart: the partitions that are lost, gone, added or made anew.")
    parser.add_argument("place", metavar="checkpoint:FOLDER", type=_place, help="or table:OUT")
    note = "note the ids of the topics in the checkpoint, so that a later check sees a topic that was made anew"
    parser.add_argument("--note", action="store_true", help=note)
    parser.add_argument("--replace", action="store_true", help="with --note: replace the noted ids of other topics")
    return _run("check", parser, arguments, actions.run_check)


def offsets(arguments: Sequence[str]) -> int:
    """`headgate spark offsets`: offsets from one location to another."""
    parser = _parser("offsets", "Let a reader go on where another one was: offsets from one place to another.")
    parser.add_argument("source", metavar="from", type=_place, help=_places_help(locations.KINDS))
    targets = (*locations.KINDS, locations.SPARK)
    where = "group:, zookeeper:, file:, or spark: for the text of startingOffsets"
    parser.add_argument("target", metavar="to", type=lambda text: _place(text, targets), help=where)
    _topic_option(parser)
    parser.add_argument("--group", default="", help="the group in a file: place")
    parser.add_argument("--backwards", action="store_true", help="allow offsets before the present ones")
    add_execution_options(parser, "write the offsets")
    return _run("offsets", parser, arguments, actions.run_offsets)


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    text = f"{description} docs/spark.md has examples."
    return argparse.ArgumentParser(prog=f"headgate spark {name}", description=text, parents=[common_options()])


def _topic_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--topic", action=TopicsAction, default={}, metavar="topic[:0,2,4-6]", help="only this topic; may be repeated"
    )


def _places_help(kinds: Sequence[str]) -> str:
    return ", ".join(f"{kind}:..." for kind in kinds)


def _place(text: str, kinds: Sequence[str] = locations.KINDS) -> locations.OffsetLocation:
    try:
        return locations.parse_location(text, kinds)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _run(
    name: str,
    parser: argparse.ArgumentParser,
    arguments: Sequence[str],
    run: Callable[[locations.Connect, argparse.Namespace], CommandResult],
) -> int:
    options = parser.parse_args(arguments)
    with closing(Cluster(options.bootstrap_server, timeout_s=options.timeout, security=options.security)) as cluster:
        try:
            result = run(lambda: cluster, options)
        except (ClientError, UsageError) as error:
            result = CommandResult(failures=[str(error)])
    return print_result(f"spark {name}", result, options, _table)


def _table(rows: Sequence[Row]) -> list[str]:
    shown = [{name: _rounded(value) for name, value in row.items() if name not in _HIDDEN} for row in rows]
    return format_table(shown)


def _rounded(value: object) -> object:
    return round(value, 1) if isinstance(value, float) else value
