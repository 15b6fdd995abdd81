"""`headgate acls`: options, output, exit codes.

Output: a table on a terminal, JSON lines otherwise. Exit codes: 0 success; 1 at least one failure; 2 wrong usage.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence

from headgate.protocol.acls import PatternType
from headgate.tools.acls import actions, options, suggest, why
from headgate.tools.client.cluster import Cluster
from headgate.tools.output import CommandResult, Row, common_options, format_table, run_and_print, run_in_cluster


def main(arguments: Sequence[str]) -> int:
    """Run `headgate acls <arguments>`; return the exit code."""
    given = _parser().parse_args(arguments)
    return run_and_print("acls", _run, given, _table)


def _run(given: argparse.Namespace) -> CommandResult:
    """Raises ClientError, UsageError."""
    asks_no_broker = given.run is suggest.run_suggest and given.all
    return suggest.run_suggest(None, given) if asks_no_broker else run_in_cluster(given)


def _table(rows: Sequence[Row]) -> Iterable[str]:
    return why.sentences(rows) if rows and "reason" in rows[0] else format_table(rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headgate acls", description="Access rules; docs/security.md has examples.", allow_abbrev=False
    )
    commands = parser.add_subparsers(required=True, metavar="list|add|remove|why|suggest")
    common = common_options()

    def add(
        name: str, summary: str, run: Callable[[Cluster, argparse.Namespace], CommandResult]
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, parents=[common], help=summary, description=summary)
        command.set_defaults(run=run)
        return command

    shown = add("list", "rules, all of them or those of resources and principals", actions.run_list)
    options.add_filter_options(shown, default_pattern=PatternType.MATCH.name.lower())
    added = add("add", "new rules", actions.run_add)
    options.add_rule_options(added)
    added.add_argument("--dry-run", action="store_true", help="only show what would be added")
    removed = add("remove", "remove rules", actions.run_remove)
    options.add_filter_options(removed, default_pattern=PatternType.LITERAL.name.lower())
    removed.add_argument("--file", metavar="file", help="exactly the rules of `list --json`; - for standard input")
    removed.add_argument("--all", action="store_true", help="every rule of the cluster")
    removed.add_argument("--dry-run", action="store_true", help="only show what would be removed")
    suggest.add_options(add("suggest", "rules that allow what brokers have observed", suggest.run_suggest))
    asked = add("why", "whether a principal may do an operation, and the rule that decides", why.run_why)
    asked.add_argument("--principal", required=True, type=options.principal, metavar="User:name")
    asked.add_argument("--operation", required=True, type=options.operation, metavar="name")
    asked.add_argument("--host", default="", metavar="address", help="of the client")
    options.add_resource_options(asked, patterns=("literal",), default="literal")
    return parser
