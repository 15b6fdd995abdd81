"""`headgate spark replay | mirror | mirror-groups`: options, output, exit codes.

Output: a row for each batch, a table on a terminal, JSON lines otherwise. Exit codes: 0 success; 1 failure; 2 wrong
usage. A copy can be stopped at any point and run again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from headgate.protocol.security.client_security import ClientSecurity
from headgate.spark.installation import add_conf_option
from headgate.spark.reading.log_reader import LogUnavailable, OffsetOutOfRange
from headgate.spark.reading.opening import Origin
from headgate.tools.arguments import now_ms
from headgate.tools.client.client import Client, ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.client.security_option import add_security_option
from headgate.tools.groups.arguments import Time, parse_target
from headgate.tools.groups.offsets import fetch_committed
from headgate.tools.output import (
    CommandResult,
    Row,
    UsageError,
    add_execution_options,
    add_format_options,
    format_table,
    print_result,
    wants_table,
)
from headgate.tools.topics import own_configs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headgate.spark.pipelines.copying import Copier
    from headgate.spark.sink.sink import Sink

_DEFAULT_BATCH = 1_000_000
_TABLE = "table:"
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def replay(arguments: Sequence[str]) -> int:
    """`headgate spark replay`: records of a topic into a topic, once by the replay's name."""
    parser = _parser("replay", "Records of a topic or table between two times into a topic, exactly once by --name.")
    parser.add_argument(
        "topic", help="the topic to read, or table:OUT: a folder of `headgate spark load`, a table of Delta or Iceberg"
    )
    parser.add_argument("target", help="the topic to write; it exists")
    _cluster_options(parser)
    moment = "2026-11-21T15:00Z, 2h, earliest or latest"
    parser.add_argument("--from", dest="begin", metavar="time", help=f"{moment}; default: the start of the topic")
    parser.add_argument("--to", dest="end", metavar="time", help="default: the end of the topic at the first run")
    parser.add_argument(
        "--partitions", choices=("keep", "key"), default="keep", help="keep: the records' own; key: by Kafka's murmur2"
    )
    add_conf_option(parser)
    options = parser.parse_args(arguments)
    if options.topic.startswith(_TABLE):
        return _run(parser.prog, options, lambda: _replay_table(options))
    return _run(parser.prog, options, lambda: _replay(options))


def mirror(arguments: Sequence[str]) -> int:
    """`headgate spark mirror`: topics of one cluster in another."""
    parser = _parser("mirror", "Topics of one cluster in another, exactly once; it goes on until Ctrl-C.")
    parser.add_argument("topics", nargs="*", metavar="topic")
    parser.add_argument("--pattern", help="in place of names: a regular expression over whole names")
    _cluster_options(parser)
    parser.add_argument("--prefix", default="", help="before the names of topics in the target")
    parser.add_argument("--once", action="store_true", help="end when the target has what the source has")
    parser.add_argument("--every", type=float, default=1.0, metavar="seconds", help="pause without new records")
    parser.add_argument("--skip-lost", action="store_true", help="go on where retention took records before the copy")
    options = parser.parse_args(arguments)
    if bool(options.topics) == bool(options.pattern):
        parser.error("name topics, or give --pattern")
    return _run(parser.prog, options, lambda: _mirror(options))


def mirror_groups(arguments: Sequence[str]) -> int:
    """`headgate spark mirror-groups`: committed offsets of the source as offsets of the target."""
    parser = _parser("mirror-groups", "Groups of the source go on in the target: their offsets, translated.")
    parser.add_argument("groups", nargs="+", metavar="group")
    _cluster_options(parser, copies=False)
    parser.add_argument("--backwards", action="store_true", help="allow offsets before the present ones")
    add_execution_options(parser, "commit the offsets in the target")
    options = parser.parse_args(arguments)
    return _run(parser.prog, options, lambda: _move_groups(options))


# ------------------------------------------------------------------------------------------------------------- options


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"headgate spark {name}", description=f"{description} docs/spark.md has examples."
    )
    add_format_options(parser)
    return parser


def _cluster_options(parser: argparse.ArgumentParser, *, copies: bool = True) -> None:
    default = "127.0.0.1:9092"
    parser.add_argument("--name", required=True, help="of the copy: it stays the same for every run")
    parser.add_argument("--bootstrap-server", default=default, metavar="host:port", help=f"source; default: {default}")
    parser.add_argument("--to-bootstrap-server", metavar="host:port", help="target; default: the source's cluster")
    add_security_option(parser, of="the source")
    add_security_option(parser, "--to-command-config", "to_security", of="the target, if that is another cluster")
    if copies:
        parser.add_argument(
            "--log-dir", action="append", default=[], metavar="directory", help="of the source, if it can be read here"
        )
        parser.add_argument("--master", default="local[2]", help="of Spark; default: local[2]")
        parser.add_argument(
            "--batch",
            type=_positive,
            default=_DEFAULT_BATCH,
            metavar="offsets",
            help="of a transaction; default: 1000000",
        )
        parser.add_argument("--compression", choices=_CODECS, default="zstd", help="default: zstd")


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def _run(program: str, options: argparse.Namespace, rows: Callable[[], Iterable[Row]]) -> int:
    """Print each row as JSON at once, or all as a table in the end; then `options.failures` and `options.notes`."""
    from headgate.spark.sink.connection import SinkFailed
    from headgate.spark.sink.marker import SinkRefused

    shown: list[Row] = []
    failures: list[str] = []
    options.failures, options.notes = failures, []
    try:
        for row in rows():
            if wants_table(options):
                shown.append(row)
            else:
                print(json.dumps(row), flush=True)
    except (UsageError, ClientError, LogUnavailable, OffsetOutOfRange, SinkFailed, SinkRefused) as error:
        failures.append(str(error))
    result = CommandResult(shown, failures, list(dict.fromkeys(options.notes)))
    return print_result(program.removeprefix("headgate "), result, options, format_table)


# -------------------------------------------------------------------------------------------------------------- copies


def _target_of(options: argparse.Namespace) -> str:
    return str(options.to_bootstrap_server or options.bootstrap_server)


def _target_security(options: argparse.Namespace) -> ClientSecurity:
    is_other = bool(options.to_bootstrap_server)
    found: ClientSecurity = options.to_security if is_other else options.security
    return found


def _origin(options: argparse.Namespace, log_dirs: Sequence[str] = ()) -> Origin:
    """The source of a copy."""
    return Origin(options.bootstrap_server, tuple(log_dirs), security=options.security)


def _sink(options: argparse.Namespace, *, keeps_partitions: bool, topic: str | None = None) -> Sink:
    from headgate.spark.sink.sink import Sink

    return Sink(
        _target_of(options),
        topic=topic,
        name=options.name,
        keep_partitions=keeps_partitions,
        compression=options.compression,
        security=_target_security(options),
    )


def _copier(options: argparse.Namespace, sink: Sink) -> Copier:
    from headgate.spark.pipelines.copying import Copier

    return Copier(_session(options, ()), options.bootstrap_server, options.log_dir, sink, {}, options.security)


def _session(options: argparse.Namespace, formats: Sequence[str]) -> SparkSession:
    from headgate.spark.jvm_noise import without_jvm_noise
    from headgate.spark.session import session

    settings = {"spark.master": options.master, "spark.ui.showConsoleProgress": "false"}
    settings |= dict(getattr(options, "conf", ()))
    with without_jvm_noise():
        return session(f"headgate spark copy {options.name}", formats=formats, settings=settings)


def _replay(options: argparse.Namespace) -> Iterator[Row]:
    from headgate.spark.pipelines import replay as replays
    from headgate.spark.pipelines.copying import last_marker

    keeps = options.partitions == "keep"
    wanted = replays.Replay(
        options.name,
        options.topic,
        options.target,
        _time_ms(options.begin),
        _time_ms(options.end),
        keeps_partitions=keeps,
        most_offsets=options.batch,
    )
    if options.target == options.topic and _target_of(options) == options.bootstrap_server:
        raise UsageError("a replay into the topic itself would grow without an end; name another topic")
    sink = _sink(options, keeps_partitions=keeps)

    def open_copier() -> Copier:
        copier = _copier(options, sink)
        copier.names = {options.topic: options.target}
        return copier

    with closing(_origin(options, options.log_dir).open()) as reader:
        found = None
        for found in replays.run(wanted, reader, last_marker(sink), open_copier):
            yield found
    if found is None:
        options.notes.append(f"nothing is left to do: the replay {options.name!r} is complete")


def _replay_table(options: argparse.Namespace) -> Iterator[Row]:
    from headgate.spark.pipelines import replay_table as replays
    from headgate.spark.pipelines.copying import last_marker
    from headgate.spark.pipelines.table_source import find_source

    keeps = options.partitions == "keep"
    wanted = replays.TableReplay(
        options.name,
        find_source(options.topic.removeprefix(_TABLE)),
        options.target,
        _time_ms(options.begin),
        _time_ms(options.end),
        keeps_partitions=keeps,
        most_rows=options.batch,
    )
    sink = _sink(options, keeps_partitions=keeps, topic=options.target)

    def open_copier() -> replays.SparkCopier:
        return replays.SparkCopier(_session(options, wanted.table.formats), sink)

    found = None
    for found in replays.run(wanted, last_marker(sink), open_copier):
        yield found
    if found is None:
        options.notes.append(f"nothing is left to do: the replay {options.name!r} is complete, or the table is empty")


def _time_ms(text: str | None) -> int | None:
    """The time of an option; None for the end of the topic that is the default there."""
    if text is None:
        return None
    target = parse_target(text, now_ms())
    if not isinstance(target, Time):
        raise UsageError(f"{text!r} is no time; write 2026-11-21T15:00Z, or 2h")
    if target.timestamp < 0:
        raise UsageError(f"{text!r}: leave the option out for the start or the end of the topic")
    return target.timestamp


def _mirror(options: argparse.Namespace) -> Iterator[Row]:
    from headgate.spark.pipelines import mirror as mirrors
    from headgate.spark.pipelines.copying import last_marker
    from headgate.spark.sink.connection import Connection

    sink = _sink(options, keeps_partitions=True)
    with (
        Cluster(options.bootstrap_server, security=options.security) as source,
        Cluster(sink.bootstrap, security=sink.security) as other,
        closing(_origin(options, options.log_dir).open()) as reader,
        closing(Origin(sink.bootstrap, security=sink.security).open()) as target_reader,
        Connection(sink.bootstrap, security=sink.security) as connection,
    ):
        source.refresh([]), other.refresh([])
        if source.routing.cluster_id == other.routing.cluster_id and not options.prefix:
            raise UsageError("source and target are the same cluster: give --prefix, or --to-bootstrap-server")
        wanted = mirrors.Mirror(
            options.name,
            source.routing.cluster_id,
            options.topics,
            options.pattern,
            options.prefix,
            most_offsets=options.batch,
            skips_lost=options.skip_lost,
        )
        wanted.wanted(reader.topics())
        target = mirrors.MirrorTarget(connection, target_reader, options.name)
        marker, copier = last_marker(sink), _copier(options, sink)

        def wait() -> bool:
            if not options.once:
                time.sleep(options.every)
            return not options.once

        def configs(topic: str) -> dict[str, str]:
            with Client(options.bootstrap_server, security=options.security) as client:
                return own_configs(client, [topic]).get(topic, {})

        yield from mirrors.run(wanted, reader, target, marker, copier, configs, wait)


def _move_groups(options: argparse.Namespace) -> Iterator[Row]:
    """Translate and commit, group by group. A group with a problem changes nothing; others go on."""
    from headgate.spark.pipelines import mirror as mirrors
    from headgate.spark.pipelines.translation import translate_group
    from headgate.spark.positions.actions import into_store
    from headgate.spark.positions.locations import GROUP, LocationOffsets, OffsetLocation

    security = _target_security(options)
    with (
        Cluster(options.bootstrap_server, security=options.security) as source,
        Cluster(_target_of(options), security=security) as target,
        closing(_origin(options).open()) as reader,
        closing(Origin(_target_of(options), security=security).open()) as target_reader,
    ):
        points = mirrors.read_points(target_reader, options.name)
        committed, failed = fetch_committed(source, options.groups)
        options.failures += [f"group {name}: {why.text}" for name, why in failed.items()]
        for group, offsets in sorted(committed.items()):
            found, notes = translate_group(points, offsets, reader, target_reader)
            options.notes += [f"group {group}: {note}" for note in notes]
            if not found:
                options.failures.append(f"group {group} has no offsets in the topics of the mirror")
                continue
            options.target = OffsetLocation(GROUP, group)
            result = into_store(target, LocationOffsets(found), options, [])
            options.failures += result.failures
            options.notes += result.notes
            yield from result.rows
