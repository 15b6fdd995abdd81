"""Delegation tokens of a cluster of Kafka 3.9 and Headgate: what one broker makes, the others know."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from compat_tests.cluster.cluster import HEADGATE, KAFKA
from compat_tests.cluster.secure import MECHANISM, PASSWORD, SECURE, USER, SecureCluster
from compat_tests.harness.tool_jvm import ToolJvm
from compat_tests.harness.waiting import until
from compat_tests.security.client_security import write_properties
from compat_tests.tools.kafka_tools import TOPICS
from compat_tests.tools.token_tool import Token, TokenTool

pytestmark = pytest.mark.soak
OURS, KAFKAS = 0, 1
LIMIT_S = 10.0
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    """Two brokers of Kafka, one of which is the controller, and a Headgate."""
    settings = {
        "delegation.token.secret.key": "the key of delegation tokens",
        "listener.name.secure.sasl.enabled.mechanisms": f"{MECHANISM},SCRAM-SHA-256",
        "listener.name.secure.scram-sha-256.sasl.jaas.config": f"{_MODULE} required;",
    }
    directory = tmp_path_factory.mktemp("tokens")
    with _Cluster(directory, KAFKA, "SASL_PLAINTEXT", settings, guests={OURS: HEADGATE}) as made:
        yield made


class _Cluster(SecureCluster):
    """Clients may log in by both mechanisms."""

    def settings_of(self, broker_id: int) -> dict[str, str]:
        found = dict(super().settings_of(broker_id))
        del found["listener.name.secure.sasl.enabled.mechanisms"]
        return found


@pytest.fixture(scope="module")
def jvm() -> Iterator[ToolJvm]:
    made = ToolJvm("broker")
    yield made
    made.close()


def address(cluster: SecureCluster, broker_id: int) -> str:
    return f"localhost:{cluster.ports[broker_id][SECURE]}"


def properties(directory: Path, user: str, password: str, mechanism: str, more: str = "") -> str:
    line = f'{_MODULE} required username="{user}" password="{password}"{more};'
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": line}
    return write_properties(directory / "client.properties", settings)


def tool_at(cluster: SecureCluster, jvm: ToolJvm, broker_id: int, directory: Path) -> TokenTool:
    return TokenTool(jvm, address(cluster, broker_id), properties(directory, USER, PASSWORD, MECHANISM))


def logs_in(cluster: SecureCluster, jvm: ToolJvm, broker_id: int, token: Token, directory: Path) -> bool:
    mechanism = "SCRAM-SHA-256"
    config = properties(directory, token.token_id, token.secret, mechanism, ' tokenauth="true"')
    names = ("--bootstrap-server", address(cluster, broker_id), "--command-config", config)
    said = jvm.run(TOPICS, *names, "--list")
    assert said.status == 0 or "SaslAuthenticationException" in said.errors, said
    return said.status == 0


@pytest.mark.parametrize("maker, other", [(OURS, KAFKAS), (KAFKAS, OURS)], ids=["of Headgate", "of Kafka"])
def test_a_token_is_good_at_both_kinds(
    cluster: SecureCluster, jvm: ToolJvm, maker: int, other: int, tmp_path: Path
) -> None:
    def logs_in_at(broker_id: int) -> bool:
        return logs_in(cluster, jvm, broker_id, token, tmp_path)

    def is_refused_at(broker_id: int) -> bool:
        return not logs_in_at(broker_id)

    def changed(*arguments: str) -> bool:
        return tool_at(cluster, jvm, other, tmp_path).run(*arguments, "--hmac", token.secret).status == 0

    token = tool_at(cluster, jvm, maker, tmp_path).create("--renewer-principal", "User:CN=a b")
    for broker_id in (maker, other):
        until(partial(logs_in_at, broker_id), f"the login at broker {broker_id}", LIMIT_S)
        said = tool_at(cluster, jvm, broker_id, tmp_path).run("--describe", "--owner-principal", f"User:{USER}")
        assert (token.token_id in said.output, token.secret in said.output) == (True, True)
    assert changed("--renew", "--renew-time-period", "60000")
    assert changed("--expire", "--expiry-time-period", "-1")
    for broker_id in (maker, other):
        until(partial(is_refused_at, broker_id), f"the refusal of broker {broker_id}", LIMIT_S)
