"""`headgate doctor`: what keeps a broker of any Kafka from being used, each with its cure.

From a client's machine it dials as a client does (`--bootstrap-server`); on the broker's host it also looks at limits,
disks, data directories and settings (`server.properties`, `--local`); ZooKeeper is asked where the file or
`--zookeeper` names it. It changes nothing, and writes records only with `--canary`.

Output: a table on a terminal, JSON lines otherwise; one row a check. Exit codes: 0 nothing wrong; 2 wrong usage; 3 at
least one check is wrong. A note is no error: the row says what it costs.
"""

from __future__ import annotations

import argparse
import datetime as dt
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from headgate.protocol.security.client_security import ClientSecurity, InvalidClientSecurity
from headgate.tools.client.client import PLAINTEXT, ClientError
from headgate.tools.client.security_option import read_security
from headgate.tools.doctor.check_result import NOTE, WRONG, CheckResult, of_sentence, result_of, table_lines
from headgate.tools.doctor.cluster.survey import CanaryWish, ClusterSurvey
from headgate.tools.doctor.connecting.address import Dialling
from headgate.tools.doctor.host.examine import HostState, check_host, read_host
from headgate.tools.doctor.host.examine import log_directories as directories_of
from headgate.tools.doctor.inspection import (
    InspectSettings,
    InspectZooKeeper,
    SettingsReport,
    ZooKeeperReport,
    raw_value,
    settings_report,
)
from headgate.tools.doctor.zookeeper.nodes import check_identity, check_nodes
from headgate.tools.doctor.zookeeper.servers import ask_servers, check_servers
from headgate.tools.output import add_format_options, print_result, seconds

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
DEFAULT_TIMEOUT_S: Final = 5.0
MAX_SETTINGS_BYTES: Final = 1 << 20
_CANARY_BYTES: Final = 32


class Inspectors(NamedTuple):
    """The functions of the broker's own code."""

    settings: InspectSettings
    zookeeper: InspectZooKeeper


class ServerProperties(NamedTuple):
    """A server.properties with the overrides: its path, its text, and the report on both."""

    path: str
    text: str
    overrides: Sequence[str]
    report: SettingsReport


def main(arguments: Sequence[str], inspect_settings: InspectSettings, inspect_zookeeper: InspectZooKeeper) -> int:
    """Run `headgate doctor <arguments>`; return the exit code."""
    parser = make_parser("doctor", "Find what keeps a broker of any Kafka from being used, each with its cure.")
    add_format_options(parser)
    options = parser.parse_args(arguments)
    check_usage(parser, options)
    examination = Examination(options, Inspectors(inspect_settings, inspect_zookeeper))
    findings = list(examination.rows())
    notes = [f"not checked: {what}" for what in examination.unchecked]
    return print_result("doctor", result_of(findings, notes), options, table_lines)


def make_parser(command: str, description: str) -> argparse.ArgumentParser:
    """The options of an examination; `headgate bundle` has them too."""
    parser = argparse.ArgumentParser(prog=f"headgate {command}", description=description)
    parser.add_argument(
        "properties", nargs="?", metavar="server.properties", help="on the broker's host: the file that it starts with"
    )
    parser.add_argument(
        "--override", action="append", default=[], metavar="name=value", help="a setting that wins over the file"
    )
    parser.add_argument(
        "--bootstrap-server",
        metavar="host:port,...",
        help=f"as clients have it; default: {DEFAULT_BOOTSTRAP}, unless the other options ask for something else",
    )
    parser.add_argument("--command-config", metavar="file", help="Kafka's client properties with TLS and login")
    parser.add_argument("--canary", metavar="topic", help="write a record to each partition of this topic, and read it")
    parser.add_argument(
        "--create-canary", action="store_true", help="create the topic of --canary if it does not exist; it stays"
    )
    parser.add_argument("--zookeeper", metavar="host:port/chroot", help="default: zookeeper.connect of the file")
    parser.add_argument(
        "--http", action="append", default=[], metavar="address", help="a broker's headgate.http.listeners, as it is"
    )
    parser.add_argument("--local", action="store_true", help="check this machine, also without a server.properties")
    parser.add_argument(
        "--timeout", type=seconds, default=DEFAULT_TIMEOUT_S, metavar="seconds", help="of each step; default: 5"
    )
    return parser


def check_usage(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End with exit code 2 for options that do not fit together."""
    is_elsewhere = options.properties or options.local or options.zookeeper or options.override
    if not options.bootstrap_server and not is_elsewhere:
        options.bootstrap_server = DEFAULT_BOOTSTRAP
    if not options.bootstrap_server:
        for name, value in (("--canary", options.canary), ("--http", options.http)):
            if value:
                parser.error(f"{name} is for a cluster: name one with --bootstrap-server host:port")
    if options.create_canary and not options.canary:
        parser.error("--create-canary is for a topic: name one with --canary")


class Examination:
    """All rows of the options. `unchecked`: what no row says, once `rows` has ended."""

    def __init__(self, options: argparse.Namespace, inspectors: Inspectors) -> None:
        self._options = options
        self._inspectors = inspectors
        self.unchecked: list[str] = []
        self.server: ServerProperties | None = None
        self.host: HostState | None = None
        self._cluster_ids: dict[str, str] = {}
        self._http_of_cluster: list[str] = []

    def rows(self) -> Iterator[CheckResult]:
        """Dial, then look at this machine, then at ZooKeeper."""
        options = self._options
        if options.bootstrap_server:
            yield from self._survey()
        if options.properties or options.override:
            yield from self._read_settings()
        if options.local or self.server is not None:
            text, source = ("", "") if self.server is None else (self.server.text, self.server.path)
            report = None if self.server is None else self.server.report
            self.host = read_host(directories_of(text, report))
            self._cluster_ids |= self.host.cluster_ids
            yield from check_host(self.host, text, source, report)
        connect = options.zookeeper or self._named_zookeeper()
        if connect:
            yield from self._ask_zookeeper(connect)

    def _survey(self) -> Iterator[CheckResult]:
        options = self._options
        security, problem = PLAINTEXT, None
        if options.command_config:
            security, problem = read_client_security(options.command_config)
        now = dt.datetime.now(dt.UTC)
        if problem is not None:
            yield problem
            return
        if security.shows_certificate:
            from headgate.tools.doctor.connecting.certificate import check_own_certificate

            own = check_own_certificate(security, now)
            if own is not None:
                yield own
        wish = CanaryWish(options.canary, secrets.token_bytes(_CANARY_BYTES), options.create_canary)
        try:
            survey = ClusterSurvey(
                options.bootstrap_server,
                Dialling(security, options.timeout, now),
                wish if options.canary else None,
                options.http,
            )
        except ClientError as error:
            yield of_sentence("bootstrap", WRONG, str(error))
            return
        yield from survey.rows()
        self.unchecked += survey.unchecked
        self._http_of_cluster = survey.http_addresses
        if survey.cluster_id is not None:
            self._cluster_ids["the cluster of the brokers"] = survey.cluster_id

    def http_addresses(self) -> list[str]:
        """Where brokers answer over HTTP, once `rows` has ended: those of the cluster, and of the settings."""
        values = None if self.server is None else self.server.report.values
        own = (
            []
            if values is None
            else [f"{scheme}://{host}:{port}" for scheme, host, port in values.http_listeners if port]
        )
        return [*self._http_of_cluster, *own]

    def _read_settings(self) -> Iterator[CheckResult]:
        path, overrides = self._options.properties or "", self._options.override
        text: str | CheckResult = "" if not path else read_server_properties(path)
        if isinstance(text, CheckResult):
            yield text
            return
        report = settings_report(self._inspectors.settings(text, overrides, path))
        self.server = ServerProperties(path, text, overrides, report)

    def _named_zookeeper(self) -> str | None:
        if self.server is None:
            return None
        report = self.server.report
        return report.values.zookeeper_connect if report.values else raw_value(self.server.text, "zookeeper.connect")

    def _ask_zookeeper(self, connect: str) -> Iterator[CheckResult]:
        timeout_s, server = self._options.timeout, self.server
        answers = ask_servers(connect, timeout_s)
        if isinstance(answers, str):
            yield of_sentence("zookeeper", WRONG, answers)
            return
        yield from check_servers(answers)
        if all(answer.error for answer in answers):
            return
        is_usable = server is not None and not server.report.problems
        text, path = (server.text, server.path) if server is not None and is_usable else ("", "")
        overrides = list(server.overrides) if server is not None and is_usable else []
        if self._options.zookeeper or not is_usable:
            overrides.append(f"zookeeper.connect={connect}")
        report = ZooKeeperReport(**self._inspectors.zookeeper(text, overrides, path, timeout_s))
        yield from check_nodes(connect, report)
        values = server.report.values if server is not None else None
        is_running = bool(self.host and self.host.holders)
        yield from check_identity(report, self._cluster_ids, values, is_running=is_running)


def read_client_security(path: str) -> tuple[ClientSecurity, CheckResult | None]:
    """The security of a file of client properties, and a row if it cannot be used."""
    try:
        return read_security(path), None
    except InvalidClientSecurity as error:
        is_certificate = "expired" in str(error) or "certificate" in str(error)
        row = of_sentence("client certificate" if is_certificate else "client settings", WRONG, str(error))
        return PLAINTEXT, row if row.cure else row._replace(cure="correct the file of --command-config")


def read_server_properties(path: str) -> str | CheckResult:
    """The text of a file in UTF-8, otherwise in Latin-1 as Java reads it; a row if it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_SETTINGS_BYTES + 1)
    except OSError as error:
        return CheckResult("settings", WRONG, f"cannot read {path}: {error.strerror}", "name the file of the broker")
    if len(content) > MAX_SETTINGS_BYTES:
        cure = "name the file of the broker"
        return CheckResult("settings", NOTE, f"{path} is larger than {MAX_SETTINGS_BYTES >> 20} MiB", cure)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")
