"""`headgate census`: which clients a release of Kafka would break, of all brokers of a cluster.

Output: a report on a terminal, JSON lines otherwise, one a client. Exit codes: 0 no client breaks; 3 some do;
1 failure; 2 wrong usage.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

from headgate.protocol.census import kafka_versions
from headgate.protocol.census.kafka_versions import UnknownRelease
from headgate.protocol.census.row_fields import row_fields, verdict_of
from headgate.tools.arguments import duration_ms, now_ms
from headgate.tools.census.reading import read_census
from headgate.tools.census.report import report, summary
from headgate.tools.client.cluster import Cluster
from headgate.tools.output import CommandResult, common_options, printable, run_and_print, run_in_cluster, wants_table


def main(arguments: Sequence[str]) -> int:
    """Run `headgate census <arguments>`; return the exit code."""
    options = _parser().parse_args(arguments)
    options.run = run_census
    return run_and_print("census", run_in_cluster, options, lambda _: ())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headgate census",
        parents=[common_options()],
        description="The clients of a cluster, and those that a release of Kafka would break; docs/census.md.",
    )
    parser.add_argument(
        "--target",
        type=_release,
        default=kafka_versions.newest(),
        metavar="4.1",
        help=f"a release of Kafka, {kafka_versions.RELEASES[0]} to {kafka_versions.newest()}, the default",
    )
    parser.add_argument(
        "--seen", type=duration_ms, metavar="30d", help="only clients that were seen in the last so long"
    )
    parser.add_argument(
        "--all", action="store_true", help="a report about all clients, not only about those that break"
    )
    return parser


def _release(text: str) -> str:
    """`type=` of an option: a release of Kafka."""
    try:
        return kafka_versions.find(text)
    except UnknownRelease as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run_census(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """The census of the cluster, judged for the target."""
    records = read_census(cluster)
    rows = records.rows()
    if options.seen is not None:
        rows = [row for row in rows if row.last_ms >= now_ms() - options.seen]
    notes = [summary(rows, options.target)]
    if records.skipped:
        notes.append(f"{records.skipped} records of the topic are none of this version's, and are left out")
    result = CommandResult(notes=notes, is_alarm=any(verdict_of(row, options.target).breaks for row in rows))
    if wants_table(options):
        lines = report(rows, options.target, shows_all=options.all)
        return result._replace(document="\n".join(map(printable, lines)), notes=notes[1:])
    return result._replace(rows=list(map(partial(row_fields, release=options.target), rows)))
