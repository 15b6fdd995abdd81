"""A broker with ACLs that the console of a loopback visitor sees in full, and a listener where visitors log in."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from compat_tests.console.filled_cluster import SCRIPT, filled
from compat_tests.harness.broker import HTTP, HeadgateBroker, installed_command

PLAIN, LOGIN = "PLAINTEXT", "LOGIN"
USER, PASSWORD = "alice", "the secret of alice"
GUEST, GUEST_PASSWORD = "guest", "the secret of guest"
SETTINGS: Final = {
    "listeners": f"{PLAIN}://127.0.0.1:0,{LOGIN}://127.0.0.1:0",
    "listener.security.protocol.map": f"{PLAIN}:PLAINTEXT,{LOGIN}:SASL_PLAINTEXT",
    "inter.broker.listener.name": PLAIN,
    "listener.name.login.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    "delegation.token.secret.key": "the key of delegation tokens",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    HTTP: "http://127.0.0.1:0",
}
SETUP: Final = (
    f"users add {USER} --password-file -",
    f"users add {USER} --password-file - --mechanism SCRAM-SHA-256 --iterations 8192",
    f"acls add --principal User:{USER} --topic ord --resource-pattern-type prefixed --operation read",
    f"acls add --principal User:{USER} --group billing --operation read",
    "acls add --principal User:* --topic audit --deny --operation write",
    f"quotas set --user {USER} producer_byte_rate=1048576 request_percentage=50",
    "quotas set --client-id-default consumer_byte_rate=2097152",
    "quotas set --ip 192.0.2.1 connection_creation_rate=20",
)


class OpenCluster(NamedTuple):
    """`hmac`: the secret of the one delegation token."""

    broker: HeadgateBroker
    hmac: str

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    @property
    def login_address(self) -> str:
        return f"127.0.0.1:{self.broker.ports()[LOGIN]}"

    @property
    def http_arguments(self) -> list[str]:
        return ["--http", str(self.broker.http())]


@contextmanager
def open_cluster(directory: Path) -> Iterator[OpenCluster]:
    """The broker, filled; its clients go with it."""
    broker = HeadgateBroker(directory, SETTINGS)
    broker.start()
    try:
        broker.port = broker.ports()[PLAIN]
        for line in SETUP:
            command(broker.bootstrap, *line.split(), given=PASSWORD)
        command(broker.bootstrap, "users", "add", f"user {SCRIPT}", "--password-file", "-", given="any")
        command(broker.bootstrap, "users", "add", GUEST, "--password-file", "-", given=GUEST_PASSWORD)
        command(
            *(broker.bootstrap, "acls", "add", "--principal", f"User:{SCRIPT}", "--topic", "orders"),
            *("--operation", "write", "--host", "192.0.2.0/24"),
        )
        [token] = command(
            *(f"127.0.0.1:{broker.ports()[LOGIN]}", "tokens", "create", "--renewer", "guest"),
            *("--command-config", str(client_properties(directory, USER, PASSWORD))),
        )
        with filled(broker.bootstrap):
            yield OpenCluster(broker, token["hmac"])
    finally:
        broker.stop()


def command(bootstrap: str, *words: str, given: str = "") -> list[dict[str, Any]]:
    """The rows of one of Headgate's commands."""
    line = [*installed_command(), *words, "--bootstrap-server", bootstrap]
    done = subprocess.run(line, input=given, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(row) for row in done.stdout.splitlines()]


def client_properties(directory: Path, user: str = "", password: str = "") -> Path:
    """A file for `--command-config`; without a user the console asks its visitors."""
    path = directory / f"client-{user}.properties"
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    lines = ["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=SCRAM-SHA-512"]
    if user:
        lines.append(f'sasl.jaas.config={module} required username="{user}" password="{password}";')
    path.write_text("\n".join(lines) + "\n")
    return path
