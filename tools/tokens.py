"""`headgate tokens`: delegation tokens, of Headgate or of any Kafka broker (KIP-48).

Output: a table on a terminal, JSON lines otherwise. Exit codes: 0 success; 1 failure; 2 wrong usage.

A secret is shown by `create`, and by `list --show-secrets`. The other commands take ids: they ask for the secrets.
"""

from __future__ import annotations

import argparse
import base64
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from headgate.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from headgate.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from headgate.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from headgate.tools.arguments import duration_ms, now_ms
from headgate.tools.client.client import Client, ClientError
from headgate.tools.client.cluster import Cluster, sole_answer
from headgate.tools.output import (
    CommandResult,
    Row,
    UsageError,
    common_options,
    format_table,
    run_and_print,
    run_in_cluster,
)

_MESSAGES: dict[int, str] = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "the broker has no delegation tokens: set delegation.token.secret.key on"
    " all brokers, the same on each",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "the broker does not know who asks: log in by --command-config,"
    " with a password or a certificate, not by a token",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "this principal may not make tokens of another user: it needs"
    " CreateTokens of the resource User with the name of that user",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "only the owner and the renewers of a token may do this",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "the token has expired; make another one",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "there is no such token any more",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "a renewer is a user: User:name",
    ErrorCode.POLICY_VIOLATION: "the owner or the cluster has too many tokens, or the names of the renewers are too"
    " long; expire tokens that are not used",
}


def main(arguments: Sequence[str]) -> int:
    """Run `headgate tokens <arguments>`; return the exit code."""
    options = _parser().parse_args(arguments)
    return run_and_print("tokens", run_in_cluster, options, format_table)


def _parser() -> argparse.ArgumentParser:
    common = common_options()
    parser = argparse.ArgumentParser(
        prog="headgate tokens", description="Delegation tokens: logins for a limited time; docs/security.md."
    )
    commands = parser.add_subparsers(required=True, metavar="create|list|renew|expire")

    def add(
        name: str, summary: str, run: Callable[[Cluster, argparse.Namespace], CommandResult]
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, parents=[common], help=summary, description=summary)
        command.set_defaults(run=run)
        return command

    created = add("create", "a new token, with its secret (hmac)", run_create)
    created.add_argument("--owner", type=_principal, metavar="user", help="default: the principal that asks")
    created.add_argument("--lifetime", type=_period, metavar="7d", help="the longest; default: that of the broker")
    created.add_argument(
        "--renewer", type=_principal, action="append", default=[], metavar="user", help="may be repeated"
    )
    shown = add("list", "the tokens that this principal may see", run_list)
    shown.add_argument("--owner", type=_principal, action="append", metavar="user", help="may be repeated")
    shown.add_argument("--show-secrets", action="store_true", help="with the secrets (hmac)")
    renewed = add("renew", "a later end, within the longest lifetime", run_renew)
    renewed.add_argument(
        "--for", dest="period", type=_period, metavar="12h", help="default: as long as the broker allows"
    )
    expired = add("expire", "an earlier end, by default now", run_expire)
    expired.add_argument("--in", dest="period", type=_period, metavar="1h", help="default: now")
    for command in (renewed, expired):
        command.add_argument("ids", nargs="+", metavar="id")
        command.add_argument("--dry-run", action="store_true", help="only show the tokens")
    return parser


def _principal(text: str) -> str:
    """`type=` of an option: a user, by name or as `User:name`."""
    kind, colon, name = text.partition(":")
    if colon and (kind != "User" or not name):
        raise argparse.ArgumentTypeError(f"{text!r} is no user; write User:name, or the name alone if it has no colon")
    if not text:
        raise argparse.ArgumentTypeError("a user has a name")
    return text if colon else f"User:{text}"


def _period(text: str) -> int:
    """`type=` of an option: a duration of a millisecond or more, in ms."""
    period_ms = duration_ms(text)
    if not 0 < period_ms < 1 << 62:
        raise argparse.ArgumentTypeError(f"{text!r} is no time from now on; write 90s, 15m, 2h or 7d")
    return period_ms


# ------------------------------------------------------------------------------------------------------------ commands


def run_create(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """Create a token."""
    kind, _, name = (options.owner or ":").partition(":")
    renewers = [CreatableRenewers(*renewer.split(":", 1)) for renewer in options.renewer]
    lifetime_ms = -1 if options.lifetime is None else options.lifetime
    request = CreateDelegationTokenRequest(kind, name, renewers, lifetime_ms)

    def ask(client: Client) -> CreateDelegationTokenResponse | Failure:
        # A broker that does not know owners would make a token of the principal that asks
        version = client.version(CreateDelegationTokenRequest, 3, 3 if options.owner else 0)
        response: CreateDelegationTokenResponse = client.ask(request, version)
        return _failure(response.error_code) if response.error_code else response

    made = sole_answer(cluster.ask_any("a token", ask))
    row = {
        "token_id": made.token_id,
        "hmac": _text(made.hmac),
        "owner": f"{made.principal_type}:{made.principal_name}",
        "renewers": ",".join(options.renewer) or None,
        "expires": _time(made.expiry_timestamp_ms),
        "max_time": _time(made.max_timestamp_ms),
    }
    return CommandResult([row], notes=["who has the hmac acts as the owner: keep it as a password"])


def run_list(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """The tokens of all owners, or of some."""
    tokens = describe_tokens(cluster, options.owner)
    return CommandResult([_row(token, with_secret=options.show_secrets) for token in tokens])


def run_renew(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """Renew tokens."""
    period_ms = -1 if options.period is None else options.period
    return _change(cluster, options, lambda secret: RenewDelegationTokenRequest(secret, period_ms))


def run_expire(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """Expire tokens."""
    period_ms = -1 if options.period is None else options.period
    return _change(cluster, options, lambda secret: ExpireDelegationTokenRequest(secret, period_ms))


_NewEnd = RenewDelegationTokenRequest | ExpireDelegationTokenRequest


def _change(cluster: Cluster, options: argparse.Namespace, change: Callable[[bytes], _NewEnd]) -> CommandResult:
    """Change the end of the named tokens: all are there, or none is changed. Raises UsageError, ClientError."""
    known = {token.token_id: token for token in describe_tokens(cluster)}
    unknown = [token_id for token_id in options.ids if token_id not in known]
    if unknown:
        raise UsageError(f"this principal sees no token {unknown[0]!r}; `headgate tokens list` shows its tokens")
    rows, failures = list[Row](), list[str]()
    for token_id in dict.fromkeys(options.ids):
        token = known[token_id]
        row: dict[str, Any] = {**_row(token, with_secret=False), "before": _time(token.expiry_timestamp)}
        if not options.dry_run:
            try:
                row["expires"] = _time(_changed(cluster, token_id, change(bytes(token.hmac))))
            except ClientError as error:
                failures.append(f"{token_id}: {error}")
                continue
        rows.append(row)
    notes = ["this was a dry run, nothing is changed; without --dry-run it is"] if options.dry_run else []
    return CommandResult(rows, failures, notes=notes)


def _changed(cluster: Cluster, token_id: str, request: _NewEnd) -> int:
    """The new end of a token in ms. Raises ClientError."""

    def ask(client: Client) -> int | Failure:
        response = client.ask(request)
        return _failure(response.error_code) if response.error_code else int(response.expiry_timestamp_ms)

    return sole_answer(cluster.ask_any(token_id, ask))


def _row(token: DescribedDelegationToken, *, with_secret: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"token_id": token.token_id}
    if with_secret:
        row["hmac"] = _text(token.hmac)
    principals = principals_of(token)
    return {
        **row,
        "owner": principals.owner,
        "requester": principals.requester,
        "renewers": ",".join(principals.renewers) or None,
        "expires": _time(token.expiry_timestamp),
        "max_time": _time(token.max_timestamp),
        "is_expired": is_expired(token),
    }


class TokenPrincipals(NamedTuple):
    """The principals of a token. `requester`: None if unknown, as before Kafka 3.3 a broker does not say."""

    owner: str
    requester: str | None
    renewers: list[str]


def principals_of(token: DescribedDelegationToken) -> TokenPrincipals:
    """The principals of a token, as `User:name`."""
    requester = f"{token.token_requester_principal_type}:{token.token_requester_principal_name}"
    return TokenPrincipals(
        f"{token.principal_type}:{token.principal_name}",
        None if requester == ":" else requester,
        [f"{renewer.principal_type}:{renewer.principal_name}" for renewer in token.renewers],
    )


def is_expired(token: DescribedDelegationToken) -> bool:
    """True after the end of a token, until the broker deletes the token."""
    return min(token.expiry_timestamp, token.max_timestamp) < now_ms()


def _text(secret: bytes) -> str:
    """A secret as clients write it in their settings."""
    return base64.b64encode(bytes(secret)).decode()


def _time(time_ms: int) -> str:
    """A time as text, in UTC; the number itself where no calendar has it."""
    try:
        return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return str(time_ms)


# ---------------------------------------------------------------------------------------------------------------- wire


def describe_tokens(cluster: Cluster, owners: Sequence[str] | None = None) -> list[DescribedDelegationToken]:
    """The tokens of these owners, or of all, that the principal may see, by owner and age. Raises ClientError."""
    wanted = None if owners is None else [DescribeDelegationTokenOwner(*owner.split(":", 1)) for owner in owners]

    def ask(client: Client) -> list[DescribedDelegationToken] | Failure:
        response = client.ask(DescribeDelegationTokenRequest(wanted))
        return _failure(response.error_code) if response.error_code else list(response.tokens)

    tokens = sole_answer(cluster.ask_any("tokens", ask))
    return sorted(tokens, key=lambda token: (token.principal_name, token.issue_timestamp))


def _failure(code: int) -> Failure:
    return Failure.of(code, _MESSAGES.get(code))
