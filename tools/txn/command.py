"""`headgate txn`: options, output, exit codes.

Output: a table on a terminal, JSON lines otherwise. Exit codes: 0 success; 1 at least one failure; 2 wrong usage;
3 a hanging transaction was found. Only `abort --execute` changes anything.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence

from headgate.tools.arguments import TopicsAction, WordsAction, duration_ms, offset
from headgate.tools.client.cluster import Cluster
from headgate.tools.output import (
    CommandResult,
    Row,
    add_execution_options,
    common_options,
    format_partitions,
    format_table,
    run_and_print,
    run_in_cluster,
)
from headgate.tools.txn import actions
from headgate.tools.txn.transactions import STATES

# Kafka's default of transaction.max.timeout.ms
_MAX_TRANSACTION_TIMEOUT = "15m"
_HIDDEN_IN_TABLES = ("start_time_ms", "last_timestamp_ms")
# A reader compares the age with it
_SECONDS_IN_TABLES = {"timeout_ms": "timeout_seconds"}


def main(arguments: Sequence[str]) -> int:
    """Run `headgate txn <arguments>`; return the exit code."""
    options = _parser().parse_args(arguments)
    options.check(options)
    return run_and_print("txn", run_in_cluster, options, _table)


def _table(rows: Sequence[Row]) -> Iterable[str]:
    return format_table([_readable(row) for row in rows])


def _readable(row: Row) -> Row:
    """The row without times in ms since 1970, with ages and timeouts in seconds, and with partitions as text."""
    shown = {
        _SECONDS_IN_TABLES.get(name, name): value / 1000 if name in _SECONDS_IN_TABLES else value
        for name, value in row.items()
        if name not in _HIDDEN_IN_TABLES
    }
    if shown.get("age_seconds") is not None:
        shown["age_seconds"] = round(shown["age_seconds"], 1)
    if "partitions" in shown:
        shown["partitions"] = format_partitions(shown["partitions"]) or None
    return shown


# ------------------------------------------------------------------------------------------------------------- options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headgate txn", description="Transactions, and those that hang; docs/transactions.md has examples."
    )
    commands = parser.add_subparsers(required=True, metavar="list|describe|hanging|abort")
    common = common_options()

    def add(
        name: str, summary: str, run: Callable[[Cluster, argparse.Namespace], CommandResult]
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, parents=[common], help=summary, description=summary)
        command.set_defaults(run=run, check=lambda options: None)
        return command

    _list_options(add("list", "transactional ids with their states", actions.run_list))
    describe = add("describe", "transactions with their partitions, timeouts and ages", actions.run_describe)
    describe.add_argument(
        "transactional_ids", nargs="*", type=_not_empty, metavar="transactional-id", help="default: all"
    )
    _hanging_options(add("hanging", "open transactions that no coordinator is going to end", actions.run_hanging))
    _abort_options(add("abort", "end a hanging transaction in one partition", actions.run_abort))
    return parser


def _list_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--state", action=WordsAction, default=[], metavar="ongoing,empty", help="may be repeated")
    command.add_argument(
        "--producer-id", action="append", default=[], type=offset, metavar="id", help="may be repeated"
    )
    command.add_argument(
        "--older-than",
        type=duration_ms,
        default=-1,
        metavar="90s|15m|2h",
        help="only transactions that are open for so long",
    )
    command.add_argument("--pattern", metavar="expression", help="a regular expression (RE2) of whole ids")
    spelling = {state.lower(): state for state in STATES}

    def check(options: argparse.Namespace) -> None:
        wrong = [word for word in options.state if word not in spelling]
        if wrong:
            command.error(f"{wrong[0]!r} is no state of a transaction; write one of {', '.join(STATES)}")
        options.state = [spelling[word] for word in options.state]

    command.set_defaults(check=check)


def _not_empty(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("a transactional id is not empty")
    return text


def _hanging_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--topic", action=TopicsAction, default={}, metavar="topic[:0,2,4-6]", help="may be repeated; default: all"
    )
    command.add_argument(
        "--max-transaction-timeout",
        type=duration_ms,
        default=duration_ms(_MAX_TRANSACTION_TIMEOUT),
        metavar="90s|15m|2h",
        help=f"pass over transactions with a newer batch; default: {_MAX_TRANSACTION_TIMEOUT}, as the brokers' setting",
    )


def _abort_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--topic", action=TopicsAction, required=True, metavar="topic:0", help="one partition")
    which = command.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--start-offset", type=offset, metavar="offset", help="the first offset of the transaction in the partition"
    )
    which.add_argument(
        "--producer-id", type=offset, metavar="id", help="with the next two, for a broker before Kafka 3.0"
    )
    command.add_argument("--producer-epoch", type=offset, metavar="epoch")
    command.add_argument("--coordinator-epoch", type=offset, metavar="epoch", help="default: 0")
    command.add_argument("--force", action="store_true", help="also if its coordinator knows it, or does not answer")
    add_execution_options(command, "write the marker of the abort")

    def check(options: argparse.Namespace) -> None:
        partitions = [numbers for numbers in options.topic.values() if numbers]
        if len(options.topic) != 1 or len(partitions) != 1 or len(partitions[0]) != 1:
            command.error("name exactly one partition: --topic topic:0")
        if options.producer_id is not None and options.producer_epoch is None:
            command.error("--producer-id needs --producer-epoch")

    command.set_defaults(check=check)
