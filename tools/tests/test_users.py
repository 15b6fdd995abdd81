"""`headgate users`: passwords, what is asked of the broker, what is shown, and what is said of failures."""

from __future__ import annotations

import getpass
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from headgate.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from headgate.protocol.schema import Message
from headgate.protocol.security.sasl.scram_keys import ScramMechanism, salted_password
from headgate.tools import users
from headgate.tools.tests.command_output import CommandOutput, Run

SHA_256, SHA_512 = ScramMechanism


class UserBroker:
    """Stands for the cluster and for the client of its controller. `error`: the answer to every change."""

    def __init__(self) -> None:
        self.users = {"alice": {int(SHA_512): 4096}, "bob": {int(SHA_256): 8192, int(SHA_512): 4096}}
        self.error = ErrorCode.NONE
        self.changes: list[AlterUserScramCredentialsRequest] = []

    def __call__(self, _bootstrap: str, **_: object) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask_any(self, key: str, ask: Callable[[Any], Any]) -> tuple[dict[str, Any], dict[str, Failure]]:
        answer = ask(self)
        return ({}, {key: answer}) if isinstance(answer, Failure) else ({key: answer}, {})

    ask_controller = ask_any

    def ask(self, request: Any) -> Message:
        if isinstance(request, DescribeUserScramCredentialsRequest):
            names = [user.name for user in request.users] if request.users else [*self.users]
            return DescribeUserScramCredentialsResponse(results=[self._describe(name) for name in names])
        assert isinstance(request, AlterUserScramCredentialsRequest)
        self.changes.append(request)
        names = [*(one.name for one in request.deletions), *(one.name for one in request.upsertions)]
        assert len(names) == 1, "a request may name a user once"
        return AlterUserScramCredentialsResponse(
            results=[AlterUserScramCredentialsResult(name, self.error, None) for name in names]
        )

    def _describe(self, name: str) -> DescribeUserScramCredentialsResult:
        if name not in self.users:
            return DescribeUserScramCredentialsResult(name, ErrorCode.RESOURCE_NOT_FOUND, None, [])
        infos = [CredentialInfo(*item) for item in self.users[name].items()]
        return DescribeUserScramCredentialsResult(name, 0, None, infos)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> UserBroker:
    broker = UserBroker()
    monkeypatch.setattr(users, "Cluster", broker)
    return broker


Stored = list[tuple[str | None, Sequence[str], Sequence[AlterUserScramCredentialsRequest], bool]]


@pytest.fixture
def stored() -> Stored:
    """What was written to a store without brokers."""
    return []


@pytest.fixture
def run(broker: UserBroker, stored: Stored, capsys: pytest.CaptureFixture[str]) -> Run:
    def store(*arguments: Any) -> tuple[list[str], list[str]]:
        stored.append(arguments)
        return ["written"], ["not all"] if "log.dirs=bad" in arguments[1] else []

    def run_command(*arguments: str) -> CommandOutput:
        code = users.main(arguments, store)
        captured = capsys.readouterr()
        return CommandOutput(code, captured.out, captured.err)

    return run_command


@pytest.fixture
def password(tmp_path: Path) -> tuple[str, str]:
    """The options that name a file with the password `geheim-ä`."""
    path = tmp_path / "password"
    path.write_text("geheim-ä\r\n", encoding="utf-8")
    return "--password-file", str(path)


def test_list_shows_mechanisms_of_users(run: Run) -> None:
    assert run("list").rows == [
        {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 4096},
        {"user": "bob", "mechanism": "SCRAM-SHA-256", "iterations": 8192},
        {"user": "bob", "mechanism": "SCRAM-SHA-512", "iterations": 4096},
    ]
    assert run("list", "alice").rows[0]["user"] == "alice"


def test_a_user_who_does_not_exist_is_named(run: Run) -> None:
    shown = run("list", "alice", "nobody")
    assert (shown.code, len(shown.rows)) == (1, 1)
    assert shown.errors[0].startswith("nobody: ")


def test_a_password_of_a_file_is_salted(run: Run, broker: UserBroker, password: tuple[str, str]) -> None:
    shown = run("add", "new", "--mechanism", "SCRAM-SHA-256", *password, "--iterations", "5000")
    assert shown.rows == [{"user": "new", "mechanism": "SCRAM-SHA-256", "change": "added"}]
    [[change]] = [request.upsertions for request in broker.changes]
    assert change.salted_password == salted_password(SHA_256, "geheim-ä".encode(), change.salt, 5000)
    assert len(change.salt) == users.SALT_BYTES


def test_each_mechanism_has_a_request_and_a_salt(run: Run, broker: UserBroker, password: tuple[str, str]) -> None:
    both = ("--mechanism", "SCRAM-SHA-256", "--mechanism", "SCRAM-SHA-512")
    assert [row["change"] for row in run("add", "alice", *both, *password).rows] == ["added", "replaced"]
    assert len({request.upsertions[0].salt for request in broker.changes}) == 2


def test_a_dry_run_changes_nothing(run: Run, broker: UserBroker, password: tuple[str, str]) -> None:
    assert run("add", "alice", *password, "--dry-run").rows[0]["change"] == "would be replaced"
    assert run("remove", "alice", "--dry-run").rows[0]["change"] == "would be removed"
    assert not broker.changes


def test_a_prompt_asks_twice(run: Run, broker: UserBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ["one", "one", "one", "two"]
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(getpass, "getpass", lambda _: answers.pop(0))
    assert run("add", "new").code == 0
    assert run("add", "new").errors == ["the two passwords differ; nothing was changed"]
    assert len(broker.changes) == 1


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("", "a password has 1 to 4096 bytes; this one has 0"),
        ("x" * 5000, "this one has 5000"),
        ("one\ntwo\n", "it needs the password alone"),
    ],
)
def test_wrong_passwords_are_refused(
    run: Run, broker: UserBroker, monkeypatch: pytest.MonkeyPatch, text: str, sentence: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    shown = run("add", "new", "--password-file", "-")
    assert shown.code == 1
    assert sentence in shown.errors[0]
    assert not broker.changes


def test_a_password_is_never_shown(run: Run, password: tuple[str, str], broker: UserBroker) -> None:
    broker.error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    shown = run("add", "new", *password)
    assert "log in as one of super.users" in shown.errors[0]
    assert "geheim" not in shown.out + "".join(shown.errors)


def test_without_a_terminal_a_file_is_needed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("secret"))
    assert "--password-file" in run("add", "new").errors[0]


def test_a_password_file_that_cannot_be_read_is_named(run: Run, tmp_path: Path) -> None:
    assert "No such file" in run("add", "new", "--password-file", str(tmp_path / "none")).errors[0]
    (tmp_path / "bytes").write_bytes(b"\xff")
    assert "no text in UTF-8" in run("add", "new", "--password-file", str(tmp_path / "bytes")).errors[0]


def test_remove_takes_all_mechanisms(run: Run, broker: UserBroker) -> None:
    assert [row["mechanism"] for row in run("remove", "bob").rows] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert [request.deletions[0].mechanism for request in broker.changes] == [SHA_256, SHA_512]


def test_remove_of_a_mechanism_that_is_not_there_is_refused(run: Run, broker: UserBroker) -> None:
    shown = run("remove", "alice", "nobody", "--mechanism", "SCRAM-SHA-256")
    assert (shown.code, shown.rows, len(shown.errors)) == (1, [], 2)
    assert "alice was not removed: it has no SCRAM-SHA-256" in shown.errors[1]
    assert not broker.changes


@pytest.mark.parametrize(
    "options, properties, settings",
    [
        (["--data", "/d"], None, ["log.dirs=/d"]),
        (["--zookeeper", "z:2181/k"], None, ["zookeeper.connect=z:2181/k"]),
        (["--config", "p"], "p", []),
        (["--zookeeper", "z:2182", "--zk-tls-config-file", "p"], "p", ["zookeeper.connect=z:2182"]),
        (["--config", "p", "--data", "/d"], "p", ["log.dirs=/d"]),
    ],
)
def test_the_first_user_goes_to_a_store_without_brokers(
    run: Run,
    stored: Stored,
    broker: UserBroker,
    password: tuple[str, str],
    options: list[str],
    properties: str | None,
    settings: list[str],
) -> None:
    shown = run("add", "admin", *options, *password)
    assert (shown.code, shown.errors) == (0, ["written"])
    [(given, overrides, [request], is_dry_run)] = stored
    assert (given, overrides, is_dry_run) == (properties, settings, False)
    assert request.upsertions[0].name == "admin"
    assert not broker.changes


def test_a_store_that_refuses_is_a_failure(run: Run, password: tuple[str, str]) -> None:
    shown = run("add", "admin", "--data", "bad", *password)
    assert (shown.code, shown.errors) == (1, ["not all", "written"])


def test_two_stores_are_refused(run: Run, stored: Stored) -> None:
    assert "name one store" in run("add", "admin", "--data", "d", "--zookeeper", "z").errors[0]
    assert not stored


@pytest.mark.parametrize("number", ["4095", "16385", "many", "-1"])
def test_iterations_have_kafkas_limits(run: Run, capsys: pytest.CaptureFixture[str], number: str) -> None:
    with pytest.raises(SystemExit):
        run("add", "new", "--iterations", number)
    assert "is no number from 4096 to 16384" in capsys.readouterr().err
