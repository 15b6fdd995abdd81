"""Delegation tokens with stock clients: Kafka's tool makes them, and clients of Java and Go log in by them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.families.family import Family, FromStart
from compat_tests.families.java_client import JavaClient
from compat_tests.families.json_lines import FranzGo
from compat_tests.harness.broker import TARGET, installed_command
from compat_tests.harness.records import assert_same, generate
from compat_tests.harness.tool_jvm import ToolJvm
from compat_tests.harness.topics import new_topic
from compat_tests.security.client_security import Security
from compat_tests.security.login_broker import EVERY, PASSWORD, TOKEN_KEY, LoginBroker
from compat_tests.security.test_sasl import failure
from compat_tests.security.test_tls_clients import ends_of, now_ms
from compat_tests.tools import token_tool
from compat_tests.tools.token_tool import Token, TokenTool, scenario

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="the broker is configured for SASL by its command line")
COUNT = 20
MECHANISMS: dict[type[Family], str] = {JavaClient: "SCRAM-SHA-256", FranzGo: "SCRAM-SHA-512"}
REFUSED: dict[type[Family], str] = {JavaClient: "SaslAuthenticationException", FranzGo: "SASL_AUTHENTICATION_FAILED"}


@pytest.fixture(scope="module")
def jvm() -> Iterator[ToolJvm]:
    made = ToolJvm("broker")
    yield made
    made.close()


def tool_of(jvm: ToolJvm, broker: LoginBroker) -> TokenTool:
    address, security = broker.security("PLAIN")
    return TokenTool(jvm, address, security.java_file())


def test_kafkas_tool_does_as_with_kafka(logins: LoginBroker, jvm: ToolJvm) -> None:
    lines = (Path(token_tool.__file__).parent / "token_tool_of_kafka.txt").read_text().splitlines()
    kafkas = [tuple(line.split("\t")) for line in lines]
    expire_all(logins)
    assert list(scenario(tool_of(jvm, logins))) == kafkas


@pytest.mark.parametrize("kind", MECHANISMS, ids=[kind.name for kind in MECHANISMS])
def test_a_client_logs_in_by_a_token(logins: LoginBroker, jvm: ToolJvm, kind: type[Family]) -> None:
    family, tool = kind(), tool_of(jvm, logins)
    family.check()
    name, began_ms, token = new_topic(logins.bootstrap, 1), now_ms(), tool.create()
    sent = generate(COUNT, 1, family.traits)
    family.security = Security(logins.certificates, login=token.login(MECHANISMS[kind]))
    try:
        address = logins.address(EVERY)
        family.produce(address, name, sent, "none")
        assert_same(sent, family.consume(address, name, FromStart(), ends_of(logins, name)), began_ms)
    finally:
        family.close()
    assert tool.run("--expire", "--expiry-time-period", "-1", "--hmac", token.secret).status == 0
    another = kind()
    another.security = family.security
    assert REFUSED[kind] in failure(another, logins.address(EVERY))
    log = "\n".join(logins.error_lines())
    assert not [secret for secret in (PASSWORD, TOKEN_KEY, token.secret) if secret in log]


def test_a_token_makes_no_token(logins: LoginBroker, jvm: ToolJvm) -> None:
    tool = tool_of(jvm, logins)
    token = tool.create()
    by_token = Security(logins.certificates, login=token.login("SCRAM-SHA-256"))
    said = TokenTool(jvm, logins.address(EVERY), by_token.java_file()).run("--create", "--max-life-time-period", "-1")
    assert said.status == 1
    assert "DelegationTokenNotAllowed" in said.errors or "not allowed" in said.errors, said


def headgate_tokens(address: str, config: str, *words: str) -> tuple[list[dict[str, Any]], str]:
    """The rows that the command prints, and its errors."""
    command = [*installed_command(), "tokens", *words, "--bootstrap-server", address, "--command-config", config]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return [json.loads(line) for line in said.stdout.splitlines()], said.stderr


def expire_all(logins: LoginBroker) -> None:
    """Expire the tokens that other tests have left: each test makes its own."""
    address, security = logins.security("SCRAM-SHA-512")
    config = security.java_file()
    rows, _ = headgate_tokens(address, config, "list", "--owner", "alice")
    if rows:
        _, errors = headgate_tokens(address, config, "expire", *(row["token_id"] for row in rows))
        assert not errors


def test_our_own_command_does_the_same(logins: LoginBroker) -> None:
    address, security = logins.security("SCRAM-SHA-512")
    config = security.java_file()
    (made,), _ = headgate_tokens(address, config, "create", "--renewer", "bob")
    rows, _ = headgate_tokens(address, config, "list", "--owner", "alice")
    assert [row["renewers"] for row in rows if row["token_id"] == made["token_id"]] == ["User:bob"]
    token = Token(made["token_id"], made["hmac"])
    by_token = Security(logins.certificates, login=token.login("SCRAM-SHA-256")).java_file()
    rows, said = headgate_tokens(logins.address(EVERY), by_token, "create")
    assert rows == []
    assert "not by a token" in said
    headgate_tokens(address, config, "expire", token.token_id)
    rows, _ = headgate_tokens(address, config, "list")
    assert token.token_id not in {row["token_id"] for row in rows}


def test_tokens_outlive_a_killed_broker(tmp_path: Path, jvm: ToolJvm) -> None:
    broker = LoginBroker(tmp_path)
    broker.start()
    try:
        made = [tool_of(jvm, broker).create(), tool_of(jvm, broker).create("--renewer-principal", "User:bob")]
        tool_of(jvm, broker).run("--expire", "--expiry-time-period", "-1", "--hmac", made[0].secret)
        broker.kill()
        broker.start()
        assert described(tool_of(jvm, broker)) == [made[1].token_id]
    finally:
        broker.stop()


def described(tool: TokenTool) -> list[str]:
    output = tool.run("--describe", "--owner-principal", "User:alice").output
    return [line.split()[0] for line in output.splitlines() if "User:alice" in line and len(line.split()[0]) == 22]
