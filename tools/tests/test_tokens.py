"""`headgate tokens`: what is asked of the broker, what is shown, and what is said of failures."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Self

import pytest

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from headgate.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from headgate.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from headgate.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from headgate.protocol.schema import Message
from headgate.tools import output, tokens
from headgate.tools.client.client import ClientError
from headgate.tools.tests.command_output import CommandOutput, Run

NOW_MS = 1_700_000_000_000
NOW, LATER, LAST = "2023-11-14T22:13:20Z", "2023-11-14T23:13:20Z", "2023-11-15T22:13:20Z"
HOUR_MS = 3_600_000
SECRET = base64.b64encode(b"secret").decode()


def token(token_id: str, owner: str = "alice", *renewers: str) -> DescribedDelegationToken:
    end_ms, last_ms = NOW_MS + HOUR_MS, NOW_MS + 24 * HOUR_MS
    rows = [DescribedDelegationTokenRenewer("User", name) for name in renewers]
    return DescribedDelegationToken(
        "User", owner, "User", "maker", NOW_MS, end_ms, last_ms, token_id, f"secret of {token_id}".encode(), rows
    )


class TokenBroker:
    """Stands for the cluster and for the client of its one broker. `error`: the answer to every change."""

    def __init__(self) -> None:
        self.tokens = [token("one", "alice", "bob", "carol"), token("two", "zed")]
        self.error = ErrorCode.NONE
        self.asked: list[Any] = []
        self.newest = 3

    def __call__(self, _bootstrap: str, **_: object) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def version(self, _cls: type[Message], newest: int, oldest: int = 0) -> int:
        if self.newest < oldest:
            raise ClientError("the broker is too old")
        return min(self.newest, newest)

    def ask_any(self, key: str, ask: Callable[[Any], Any]) -> tuple[dict[str, Any], dict[str, Failure]]:
        answer = ask(self)
        return ({}, {key: answer}) if isinstance(answer, Failure) else ({key: answer}, {})

    def ask(self, request: Any, version: int | None = None) -> Message:
        self.asked.append(request)
        if isinstance(request, DescribeDelegationTokenRequest):
            owners = None if request.owners is None else {owner.principal_name for owner in request.owners}
            found = [each for each in self.tokens if owners is None or each.principal_name in owners]
            return DescribeDelegationTokenResponse(self.error if not self.tokens else ErrorCode.NONE, found, 0)
        if isinstance(request, CreateDelegationTokenRequest):
            assert version == self.newest
            owner = request.owner_principal_name or "alice"
            users, times_ms = ("User", owner, "User", "alice"), (NOW_MS, NOW_MS + HOUR_MS, NOW_MS + 24 * HOUR_MS)
            return CreateDelegationTokenResponse(self.error, *users, *times_ms, "new", b"secret", 0)
        if isinstance(request, RenewDelegationTokenRequest):
            return RenewDelegationTokenResponse(self.error, NOW_MS + 24 * HOUR_MS, 0)
        assert isinstance(request, ExpireDelegationTokenRequest)
        return ExpireDelegationTokenResponse(self.error, NOW_MS, 0)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> TokenBroker:
    broker = TokenBroker()
    monkeypatch.setattr(output, "Cluster", broker)
    monkeypatch.setattr(tokens, "now_ms", lambda: NOW_MS)
    return broker


@pytest.fixture
def run(broker: TokenBroker, capsys: pytest.CaptureFixture[str]) -> Run:
    def run_command(*arguments: str) -> CommandOutput:
        code = tokens.main(arguments)
        captured = capsys.readouterr()
        return CommandOutput(code, captured.out, captured.err)

    return run_command


def test_a_created_token_is_shown_with_its_secret(run: Run, broker: TokenBroker) -> None:
    said = run("create", "--renewer", "bob", "--renewer", "User:CN=a:b", "--lifetime", "2h")
    owner, ends = {"owner": "User:alice", "renewers": "User:bob,User:CN=a:b"}, {"expires": LATER, "max_time": LAST}
    assert said.rows == [{"token_id": "new", "hmac": SECRET, **owner, **ends}]
    assert said.errors == ["who has the hmac acts as the owner: keep it as a password"]
    (request,) = broker.asked
    assert [renewer.principal_name for renewer in request.renewers] == ["bob", "CN=a:b"]
    assert (request.owner_principal_name, request.max_lifetime_ms) == ("", 2 * HOUR_MS)


def test_a_token_for_another_user_needs_a_broker_that_knows_it(run: Run, broker: TokenBroker) -> None:
    assert run("create", "--owner", "zed").rows[0]["owner"] == "User:zed"
    broker.newest = 2
    assert run("create").code == 0
    assert run("create", "--owner", "zed").errors == ["the broker is too old"]


def test_list_shows_no_secret_unless_asked(run: Run) -> None:
    said = run("list")
    alices = {"token_id": "one", "owner": "User:alice", "requester": "User:maker", "renewers": "User:bob,User:carol"}
    assert said.rows[0] == {**alices, "expires": LATER, "max_time": LAST, "is_expired": False}
    assert [row["owner"] for row in said.rows] == ["User:alice", "User:zed"]
    assert [row["token_id"] for row in run("list", "--owner", "zed").rows] == ["two"]
    assert run("list", "--show-secrets").rows[1]["hmac"] == base64.b64encode(b"secret of two").decode()


def test_a_table_has_columns(run: Run) -> None:
    header, first, *_ = run("list", "--table").out.splitlines()
    assert header.split()[:3] == ["TOKEN", "ID", "OWNER"]
    assert first.split()[:2] == ["one", "User:alice"]


def test_tokens_are_renewed_by_their_ids(run: Run, broker: TokenBroker) -> None:
    said = run("renew", "two", "one", "two", "--for", "90s")
    assert [(row["token_id"], row["before"], row["expires"]) for row in said.rows] == [
        ("two", LATER, LAST),
        ("one", LATER, LAST),
    ]
    assert [(request.hmac, request.renew_period_ms) for request in broker.asked[1:]] == [
        (b"secret of two", 90_000),
        (b"secret of one", 90_000),
    ]
    run("renew", "one")
    assert broker.asked[-1].renew_period_ms == -1


def test_a_token_expires_now_or_later(run: Run, broker: TokenBroker) -> None:
    assert run("expire", "one").rows[0]["expires"] == NOW
    assert broker.asked[-1].expiry_time_period_ms == -1
    run("expire", "one", "--in", "1h")
    assert broker.asked[-1].expiry_time_period_ms == HOUR_MS


def test_a_dry_run_changes_nothing(run: Run, broker: TokenBroker) -> None:
    for command in ("renew", "expire"):
        said = run(command, "one", "--dry-run")
        assert (said.code, said.rows[0]["expires"]) == (0, LATER)
        assert said.errors == ["this was a dry run, nothing is changed; without --dry-run it is"]
    assert {type(request) for request in broker.asked} == {DescribeDelegationTokenRequest}


def test_of_an_unknown_id_nothing_is_changed(run: Run, broker: TokenBroker) -> None:
    said = run("expire", "one", "three")
    assert said.code == 1
    assert said.errors == ["this principal sees no token 'three'; `headgate tokens list` shows its tokens"]
    assert len(broker.asked) == 1


@pytest.mark.parametrize(
    "code, cure",
    [
        (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, "set delegation.token.secret.key"),
        (ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, "log in by --command-config"),
        (ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, "CreateTokens"),
        (ErrorCode.POLICY_VIOLATION, "expire tokens that are not used"),
    ],
)
def test_a_refusal_has_its_cure(run: Run, broker: TokenBroker, code: ErrorCode, cure: str) -> None:
    broker.error = code
    said = run("create")
    assert (said.code, said.rows) == (1, [])
    assert cure in said.errors[0]


def test_a_refused_change_does_not_stop_the_others(run: Run, broker: TokenBroker) -> None:
    broker.error = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    said = run("expire", "one", "two")
    assert said.code == 1
    assert [error.partition(":")[0] for error in said.errors] == ["one", "two"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "--owner", "Group:a"),
        ("create", "--renewer", ""),
        ("create", "--renewer", "User:"),
        ("create", "--lifetime", "0s"),
        ("renew", "one", "--for", "soon"),
        ("renew",),
        (),
    ],
)
def test_wrong_usage_is_refused(run: Run, arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as refused:
        run(*arguments)
    assert refused.value.code == 2


def test_a_time_that_no_calendar_has_is_a_number(run: Run, broker: TokenBroker) -> None:
    broker.tokens[0].max_timestamp = (1 << 63) - 1
    assert run("list").rows[0]["max_time"] == str((1 << 63) - 1)
