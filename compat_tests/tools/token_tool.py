"""What `kafka-delegation-tokens` does with a broker; `test_tokens` compares with what Kafka told it.

    python -m compat_tests.tools.token_tool > token_tool_of_kafka.txt

The line records an Apache Kafka 4.1.2 that it starts. Ids, secrets and times differ: they stand as words in the output.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from compat_tests.harness.apache_kafka import QUICK_START, ApacheKafka
from compat_tests.harness.ports import reserve
from compat_tests.harness.tool_jvm import Said, ToolJvm
from compat_tests.security.client_security import Login, write_properties
from compat_tests.security.login_broker import PASSWORD, TOKEN_KEY, USER
from compat_tests.tools.kafka_tools import DELEGATION_TOKENS

_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_ROW: Final = re.compile(r"^(\S{22}) +(\S{88}) ", re.MULTILINE)
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}")
_FAILURE: Final = re.compile(r"[\w.]*Exception: .*")


class Token(NamedTuple):
    """What a client logs in with."""

    token_id: str
    secret: str

    def login(self, mechanism: str) -> Login:
        return Login(mechanism, self.token_id, self.secret, is_delegation_token=True)


class TokenTool:
    """The tool in a JVM, with the address of a broker and the settings of its user."""

    def __init__(self, jvm: ToolJvm, bootstrap: str, config: str) -> None:
        self.jvm = jvm
        self.names = ("--bootstrap-server", bootstrap, "--command-config", config)

    def run(self, *arguments: str) -> Said:
        return self.jvm.run(DELEGATION_TOKENS, *self.names, *arguments)

    def create(self, *arguments: str) -> Token:
        """A token, by the row that the tool prints of it."""
        said = self.run("--create", "--max-life-time-period", "-1", *arguments)
        row = _ROW.search(said.output)
        assert row is not None, said
        return Token(row[1], row[2])


def scenario(tool: TokenTool) -> Iterator[tuple[str, str]]:
    """The name of each step, and what the tool said."""
    made: list[Token] = []

    def step(name: str, *arguments: str) -> tuple[str, str]:
        said = tool.run(*arguments)
        made.extend(
            Token(*row) for row in _ROW.findall(said.output) if row[0] not in {token.token_id for token in made}
        )
        failure = _FAILURE.search(said.errors)
        return name, repr(_plain(f"{said.status} {said.output}{failure[0] if failure else ''}", made))

    yield step("create", "--create", "--max-life-time-period", "-1")
    yield step("create with renewers", "--create", "--max-life-time-period", "3600000",
               "--renewer-principal", "User:bob", "--renewer-principal", "User:carol")  # fmt: skip
    yield step("describe", "--describe")
    yield step("describe of alice", "--describe", "--owner-principal", "User:alice")
    yield step("describe of nobody", "--describe", "--owner-principal", "User:nobody")
    yield step("renew", "--renew", "--renew-time-period", "-1", "--hmac", made[0].secret)
    yield step("expire later", "--expire", "--expiry-time-period", "60000", "--hmac", made[0].secret)
    yield step("renew an unknown one", "--renew", "--renew-time-period", "-1", "--hmac", "AAAA")
    for token in made[:]:
        yield step("expire", "--expire", "--expiry-time-period", "-1", "--hmac", token.secret)
    yield step("describe none", "--describe")


def _plain(text: str, made: list[Token]) -> str:
    for number, token in enumerate(made):
        text = text.replace(token.token_id, f"id-{number}").replace(token.secret, f"secret-{number}")
    text = _TIME.sub("a time", text)
    header, lines = text.partition("\n")[0], text.split("\n")[1:]
    return "\n".join([header, *(re.sub(r" +", " ", line) for line in sorted(filter(None, lines)))])


def record(write: Callable[[str], object]) -> None:
    """Write what an Apache Kafka does."""
    port = reserve(jvm := ToolJvm("broker"))
    users = f'user_{USER}="{PASSWORD}"'
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": f"{_MODULE} required {users};",
        "delegation.token.secret.key": TOKEN_KEY,
    }
    with TemporaryDirectory() as directory, _Kafka(settings, port):
        line = f'{_MODULE} required username="{USER}" password="{PASSWORD}";'
        client = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": line}
        config = write_properties(Path(directory) / "client.properties", client)
        for name, said in scenario(TokenTool(jvm, f"127.0.0.1:{port}", config)):
            write(f"{name}\t{said}\n")
    jvm.close()


class _Kafka(ApacheKafka):
    """With a listener for logins."""

    def __init__(self, settings: dict[str, str], port: int) -> None:
        super().__init__(settings, heap="512m", options=QUICK_START)
        self._sasl_port = port

    def _format(self) -> None:
        super()._format()
        more = rf"\1,SASL://127.0.0.1:{self._sasl_port}"
        text = re.sub(r"^((?:advertised\.)?listeners=.*)$", more, self.properties.read_text(), flags=re.MULTILINE)
        self.properties.write_text(text)


if __name__ == "__main__":
    record(sys.stdout.write)
