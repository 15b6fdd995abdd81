"""`headgate users`: list, add and remove users of SCRAM, of Headgate or of any Kafka broker since 2.7.

A password comes from a prompt, a file or standard input, never from an argument, which other users of the machine see.
`add --data` and `add --zookeeper` write the first user of a cluster that has no broker yet which lets anybody in.
Output: a table on a terminal, JSON lines otherwise. Exit codes: 0 success; 1 failure; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import getpass
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from headgate.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from headgate.protocol.security.sasl.scram_keys import (
    DEFAULT_ITERATIONS,
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SCRAM_MECHANISMS,
    ScramMechanism,
    salted_password,
)
from headgate.tools.client.client import Client
from headgate.tools.client.cluster import Cluster, sole_answer
from headgate.tools.output import CommandResult, Row, UsageError, common_options, format_table, run_and_print

DEFAULT_MECHANISM = ScramMechanism.SCRAM_SHA_512.mechanism_name
SALT_BYTES = 32
MAX_PASSWORD_BYTES = 1 << 12

_MESSAGES: dict[int, str] = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "this principal may not do this: log in as one of super.users, or be"
    " allowed to Describe (to read) or Alter (to change) the cluster; the first user of a cluster is added to the"
    " store of stopped brokers, with --data or --zookeeper",
}


StoreUsers = Callable[
    [str | None, Sequence[str], Sequence[AlterUserScramCredentialsRequest], bool], tuple[list[str], list[str]]
]
"""(server.properties or None, settings that win over the file, changes, whether this is a dry run) -> lines about the
work, and sentences about a failure."""


def main(arguments: Sequence[str], store_users: StoreUsers | None = None) -> int:
    """Run `headgate users <arguments>`; return the exit code. `store_users`: changes a store without brokers."""
    options = _parser().parse_args(arguments)
    run = partial(_run_stopped, store_users) if _is_stopped(options) else _run
    return run_and_print("users", run, options, format_table)


def _run(options: argparse.Namespace) -> CommandResult:
    requests = _additions(options) if options.run is run_add else []  # the prompt comes before the connection
    with Cluster(options.bootstrap_server, timeout_s=options.timeout, security=options.security) as cluster:
        result: CommandResult = options.run(cluster, options, requests)
    return result


def _parser() -> argparse.ArgumentParser:
    common = common_options()
    parser = argparse.ArgumentParser(
        prog="headgate users", description="Users who log in by SCRAM; docs/security.md has examples."
    )
    commands = parser.add_subparsers(required=True, metavar="list|add|remove")
    shown = commands.add_parser("list", parents=[common], help="users with their mechanisms; never a key")
    shown.add_argument("users", nargs="*", metavar="name", help="default: all")
    shown.set_defaults(run=run_list)
    added = commands.add_parser("add", parents=[common], help="a new user, or another password")
    added.add_argument("user", metavar="name")
    added.add_argument("--password-file", metavar="file", help="its first line; - for stdin; default: a prompt")
    added.add_argument("--iterations", type=parse_iterations, default=DEFAULT_ITERATIONS, help="default: 4096")
    added.add_argument("--data", metavar="directory", help="log.dirs of a stopped or new broker, in place of a broker")
    added.add_argument(
        "--config",
        "--zk-tls-config-file",  # Kafka's name for a file with zookeeper.ssl.*
        metavar="server.properties",
        help="of a broker, for log.dirs and node.id, or the settings zookeeper.*",
    )
    added.add_argument("--zookeeper", metavar="host:port/path", help="zookeeper.connect, in place of a broker")
    added.set_defaults(run=run_add)
    removed = commands.add_parser("remove", parents=[common], help="remove users, or some of their mechanisms")
    removed.add_argument("users", nargs="+", metavar="name")
    removed.set_defaults(run=run_remove)
    for command, text in ((added, f"may be repeated; default: {DEFAULT_MECHANISM}"), (removed, "default: all")):
        command.add_argument("--mechanism", action="append", choices=sorted(SCRAM_MECHANISMS), help=text)
        command.add_argument("--dry-run", action="store_true", help="only show what would change")
    return parser


def parse_iterations(text: str) -> int:
    """`type=` of `--iterations`."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
    if not MIN_ITERATIONS <= number <= MAX_ITERATIONS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    return number


# ------------------------------------------------------------------------------------------------------------ commands


def run_list(cluster: Cluster, options: argparse.Namespace, _requests: object) -> CommandResult:
    """The mechanisms of users."""
    known, failures = describe_users(cluster, options.users)
    return CommandResult(user_rows(known), failures)


def user_rows(known: Mapping[str, Mapping[int, int]]) -> list[Row]:
    """A row for each mechanism of each user, of the iterations by user and mechanism."""
    return [
        {"user": user, "mechanism": mechanism_name(mechanism), "iterations": iterations}
        for user, mechanisms in sorted(known.items())
        for mechanism, iterations in sorted(mechanisms.items())
    ]


def run_add(
    cluster: Cluster, options: argparse.Namespace, requests: Sequence[AlterUserScramCredentialsRequest]
) -> CommandResult:
    """Set the password of a user for each mechanism."""
    everybody, _ = describe_users(cluster, ())
    known = everybody.get(options.user, {})
    return CommandResult(
        [
            _changed(cluster, request, change.mechanism, change.mechanism in known, is_dry_run=options.dry_run)
            for request in requests
            for change in request.upsertions
        ]
    )


def _changed(
    cluster: Cluster, request: AlterUserScramCredentialsRequest, mechanism: int, is_known: bool, *, is_dry_run: bool
) -> Row:
    """The row of a change that is made now. Raises ClientError."""
    if not is_dry_run:
        alter_user(cluster, request)
    verb = "removed" if request.deletions else "replaced" if is_known else "added"
    return {
        "user": _user(request),
        "mechanism": mechanism_name(mechanism),
        "change": f"would be {verb}" if is_dry_run else verb,
    }


def run_remove(cluster: Cluster, options: argparse.Namespace, _requests: object) -> CommandResult:
    """Remove mechanisms of users. Open connections stay; no new login succeeds."""
    known, failures = describe_users(cluster, options.users)
    rows = []
    wanted = [SCRAM_MECHANISMS[name] for name in options.mechanism or SCRAM_MECHANISMS]
    for user in dict.fromkeys(options.users):
        found = [mechanism for mechanism in wanted if mechanism in known.get(user, {})]
        if user in known and not found:
            names = ", ".join(options.mechanism)
            failures.append(f"{user} was not removed: it has no {names}; `headgate users list` shows all")
        for mechanism in found:
            request = removed_credential(user, mechanism)
            rows.append(_changed(cluster, request, mechanism, is_known=True, is_dry_run=options.dry_run))
    return CommandResult(rows, failures)


def _is_stopped(options: argparse.Namespace) -> bool:
    return options.run is run_add and bool(options.data or options.zookeeper or options.config)


def _run_stopped(store_users: StoreUsers | None, options: argparse.Namespace) -> CommandResult:
    """Raises UsageError."""
    if store_users is None or (options.data and options.zookeeper):
        raise UsageError("name one store: --data for a broker with its own metadata, --zookeeper for a cluster")
    settings = {"log.dirs": options.data, "zookeeper.connect": options.zookeeper}
    overrides = [f"{name}={value}" for name, value in settings.items() if value]
    done, failures = store_users(options.config, overrides, _additions(options), options.dry_run)
    return CommandResult(failures=failures, notes=done)


# ----------------------------------------------------------------------------------------------------------- passwords


def _additions(options: argparse.Namespace) -> list[AlterUserScramCredentialsRequest]:
    """A request for each mechanism: a request may name a user once. Raises UsageError."""
    password = _read_password(options.user, options.password_file)
    names = dict.fromkeys(options.mechanism or [DEFAULT_MECHANISM])
    return [new_credential(options.user, SCRAM_MECHANISMS[name], password, options.iterations) for name in names]


def new_credential(
    user: str, mechanism: ScramMechanism, password: bytes, iterations: int
) -> AlterUserScramCredentialsRequest:
    """The request that sets a password, with a new salt."""
    salt = secrets.token_bytes(SALT_BYTES)
    salted = salted_password(mechanism, password, salt, iterations)
    return AlterUserScramCredentialsRequest(
        upsertions=[ScramCredentialUpsertion(user, mechanism, iterations, salt, salted)]
    )


def removed_credential(user: str, mechanism: int) -> AlterUserScramCredentialsRequest:
    """The request that removes a mechanism of a user."""
    return AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(user, mechanism)])


def _read_password(user: str, path: str | None) -> bytes:
    """The password in UTF-8. Raises UsageError."""
    return encode_password(_prompt(user) if path is None else _first_line(path))


def encode_password(text: str) -> bytes:
    """The password in UTF-8, checked. Raises UsageError, without the password."""
    password = text.encode("utf-8", "surrogatepass")
    if not 0 < len(password) <= MAX_PASSWORD_BYTES:
        raise UsageError(f"a password has 1 to {MAX_PASSWORD_BYTES} bytes; this one has {len(password)}")
    return password


def _prompt(user: str) -> str:
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask for the password; name a file: --password-file file, - for stdin")
    first = getpass.getpass(f"Password of {user}: ")
    if getpass.getpass("The same again: ") != first:
        raise UsageError("the two passwords differ; nothing was changed")
    return first


def _first_line(path: str) -> str:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the password file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"the password file {path} is no text in UTF-8") from None
    line, _, rest = text.partition("\n")
    if rest.strip():
        raise UsageError(f"the password file {path} has several lines; it needs the password alone")
    return line.removesuffix("\r")


# ---------------------------------------------------------------------------------------------------------------- wire


def describe_users(cluster: Cluster, users: Sequence[str] = ()) -> tuple[dict[str, dict[int, int]], list[str]]:
    """Iterations by user and mechanism, and a sentence for each other user. Raises ClientError."""
    wanted = [UserName(user) for user in dict.fromkeys(users)] or None

    def ask(client: Client) -> tuple[dict[str, dict[int, int]], list[str]] | Failure:
        response = client.ask(DescribeUserScramCredentialsRequest(users=wanted))
        if response.error_code:
            return _failure(response)
        found = {
            result.user: {info.mechanism: info.iterations for info in result.credential_infos}
            for result in response.results
            if not result.error_code
        }
        failed = [result for result in response.results if result.error_code]
        return found, [f"{result.user}: {_failure(result).text}" for result in failed]

    return sole_answer(cluster.ask_any("users", ask))


def alter_user(cluster: Cluster, request: AlterUserScramCredentialsRequest) -> None:
    """Make the change of one user. Raises ClientError."""

    def ask(client: Client) -> bool | Failure:
        [result] = client.ask(request).results
        return _failure(result) if result.error_code else True

    sole_answer(cluster.ask_controller(_user(request), ask))


def _user(request: AlterUserScramCredentialsRequest) -> str:
    """The user of a change."""
    return request.upsertions[0].name if request.upsertions else request.deletions[0].name


def _failure(row: Any) -> Failure:
    return Failure.of(row.error_code, _MESSAGES.get(row.error_code, row.error_message))


def mechanism_name(mechanism: int) -> str:
    known = {int(number): name for name, number in SCRAM_MECHANISMS.items()}
    return known.get(mechanism, f"mechanism {mechanism}")
