"""`make bench`: compare Headgate with Apache Kafka, in ratios.

By default every row; names choose rows (`ROWS="produce-16k fetch-1m" make bench`, or as arguments). More variables of
the environment: QUICK=1, REPEAT=n, SECONDS=s for one repetition, ONLY=headgate|kafka, BASE=file of an earlier run,
HEADGATE=program of another tree, JARS=directory, ZOOKEEPER=1 for a Headgate with ZooKeeper.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

from headgate.tools.bench.measuring.brokers import (
    HEADGATE,
    KAFKA,
    HeadgateLauncher,
    KafkaLauncher,
    Launcher,
    java_command,
)
from headgate.tools.bench.measuring.cluster import (
    ClusterLauncher,
    HeadgateClusterLauncher,
    KafkaClusterLauncher,
    ZooKeeperKafkaClusterLauncher,
)
from headgate.tools.bench.measuring.zookeeper import ZOOKEEPER_JARS, ZooKeeperServer
from headgate.tools.bench.report import (
    Journal,
    Progress,
    describe_gears,
    describe_incomparable,
    describe_other_load,
    find_regressions,
    not_compared,
    read_ratios,
    table,
    verdict,
)
from headgate.tools.bench.requests.client import BenchError
from headgate.tools.bench.rows.cluster.faults import BESIDE_ZOOKEEPER_KAFKA
from headgate.tools.bench.rows.table import (
    ALL_ROWS,
    BESIDE,
    BY_NAME_ONLY,
    CLUSTERS,
    CONVERSIONS,
    IDLE_TLS_CONNECTIONS,
    NEEDS_ZOOKEEPER,
    SECURE,
)
from headgate.tools.bench.run import QUICK, Bench, Settings

BUILD = Path("build/bench")
NEWEST_JARS, CONVERTING_JARS = Path("build/jars/broker"), Path("build/jars/broker39")
"""Kafka 4.1, and Kafka 3.9: the last that converts, and the last with ZooKeeper."""
CONVERSION = "conversion"
"""The name of all conversion rows; without other rows they run against Apache Kafka 3.9, the last that converts."""
GROUPS = {CONVERSION: CONVERSIONS, "security": (IDLE_TLS_CONNECTIONS, *SECURE, *BESIDE)}
"""The rows of a name that stands for several."""


def arguments(argv: list[str], environment: Mapping[str, str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "rows", nargs="*", default=environment.get("ROWS", "").split(), help=" ".join(ALL_ROWS + BY_NAME_ONLY)
    )
    parser.add_argument("--quick", action="store_true", default=environment.get("QUICK", "") not in ("", "0"))
    parser.add_argument("--repeat", type=int, default=environment.get("REPEAT"))
    parser.add_argument("--seconds", type=float, default=environment.get("SECONDS"))
    parser.add_argument("--only", choices=(HEADGATE, KAFKA), default=environment.get("ONLY") or None)
    parser.add_argument("--base", type=Path, default=environment.get("BASE"))
    parser.add_argument("--headgate", type=Path, default=environment.get("HEADGATE"))
    parser.add_argument("--zookeeper", action="store_true", default=environment.get("ZOOKEEPER", "") not in ("", "0"))
    parser.add_argument("--jars", type=Path, default=environment.get("JARS"))
    options = parser.parse_args(argv)
    options.rows = [row for name in options.rows for row in GROUPS.get(name, (name,))]
    if options.jars is None:
        options.jars = NEWEST_JARS if set(options.rows) - set(CONVERSIONS) or not options.rows else CONVERTING_JARS
    if options.only not in (None, HEADGATE, KAFKA):  # argparse checks the command line only, not the environment
        parser.error(f"ONLY={options.only}: there are {HEADGATE} and {KAFKA}")
    return options


def chosen_rows(names: list[str]) -> tuple[str, ...]:
    """The named rows in the order of the table; without names, every row that is not measured by name only."""
    if not names or names == ["all"]:
        return ALL_ROWS
    known = (*BY_NAME_ONLY, *ALL_ROWS)
    for name in names:
        if name not in known:
            raise BenchError(f"no row {name}; there are: {' '.join(known)}")
    return tuple(name for name in known if name in names)


def settings_of(options: argparse.Namespace) -> Settings:
    settings = replace(QUICK if options.quick else Settings(()), rows=chosen_rows(options.rows))
    if options.repeat is not None:
        settings = replace(settings, repetitions=max(1, options.repeat))
    if options.seconds is not None:
        settings = replace(settings, seconds=options.seconds)
    return settings


def launchers_of(options: argparse.Namespace, zookeeper: str) -> list[Launcher]:
    launchers: list[Launcher] = []
    if options.only != KAFKA:
        launchers.append(HeadgateLauncher(options.headgate, zookeeper))
    if options.only != HEADGATE:
        launchers.append(KafkaLauncher(options.jars))
    return launchers


def clusters_of(options: argparse.Namespace, rows: Sequence[str]) -> Mapping[str, Sequence[ClusterLauncher]]:
    """The launchers for each of the rows that has clusters of three brokers."""
    found: dict[str, Sequence[ClusterLauncher]] = {}
    for name in filter(CLUSTERS.__contains__, rows):
        launchers: list[ClusterLauncher] = []
        if options.only != KAFKA:
            launchers.append(HeadgateClusterLauncher(options.headgate))
        if options.only != HEADGATE:
            is_old = name in BESIDE_ZOOKEEPER_KAFKA
            launchers.append(
                ZooKeeperKafkaClusterLauncher(CONVERTING_JARS) if is_old else KafkaClusterLauncher(options.jars)
            )
        found[name] = launchers
    return found


def run(options: argparse.Namespace) -> int:
    settings = settings_of(options)
    if not (options.zookeeper or NEEDS_ZOOKEEPER.intersection(settings.rows)):
        return measure(options, settings, "")
    server = ZooKeeperServer(ZOOKEEPER_JARS, BUILD / "zookeeper")
    try:
        server.start()
        return measure(options, settings, server.address)
    finally:
        server.stop()


def measure(options: argparse.Namespace, settings: Settings, zookeeper: str) -> int:
    launchers = launchers_of(options, zookeeper)
    base = read_ratios(options.base) if options.base else {}
    BUILD.mkdir(parents=True, exist_ok=True)
    journal = Journal(BUILD / time.strftime("%Y%m%d-%H%M%S.json"))
    progress = Progress(settings.steps([launcher.name for launcher in launchers]))
    try:
        java, clusters = java_command(options.jars), clusters_of(options, settings.rows)
        Bench(settings, launchers, BUILD.resolve(), journal, progress, java, clusters).run()
    finally:
        progress.end()
        print(table(journal.lines))
        print(f"\n{verdict(journal.lines)}\nsamples and figures: {journal.path}")
        remarks = [
            describe_other_load(journal.lines),
            describe_gears(journal.gauges_us),
            describe_incomparable(journal.lines),
            *journal.failures,
        ]
        for sentence in filter(None, remarks):
            print(sentence)
    has_fallen = options.base is not None and print_comparison(journal, base)
    return 2 if journal.failures else int(has_fallen)


def print_comparison(journal: Journal, base: Mapping[tuple[str, str], float]) -> bool:
    """Print the comparison with the base; True if any ratio is worse by more than a tenth."""
    for sentence in not_compared(journal.lines, base):
        print(sentence)
    sentences = find_regressions(journal.lines, base)
    for sentence in sentences:
        print(f"fell by more than a tenth: {sentence}")
    return bool(sentences)


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    signal.signal(signal.SIGTERM, _stop)  # the exception stops the brokers on its way out
    try:
        return run(arguments(sys.argv[1:], os.environ))
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("bench: stopped; the figures above cover the finished measurements", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
