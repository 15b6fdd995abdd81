"""The connection to ZooKeeper: TLS with certificates on both ends, a login, ACLs; Kafka's tools beside it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from compat_tests.families.confluent import Confluent
from compat_tests.families.family import FromStart
from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import run_tool
from compat_tests.harness.broker import installed_command
from compat_tests.harness.topics import create_topics
from compat_tests.harness.writing import send
from compat_tests.security.client_security import PASSWORD, write_properties
from compat_tests.zookeeper.secure_zookeeper import LOGIN, USER, SecureZooKeeper

pytestmark = pytest.mark.sockets

SASL = {"headgate.zookeeper.sasl.jaas.config": LOGIN}
MIGRATOR = "kafka.admin.ZkSecurityMigrator"
WORLD = ("world", "anyone")
SECURE = {("x509", "CN=broker"): ["ALL"], ("sasl", USER): ["ALL"], WORLD: ["READ"]}


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureZooKeeper]:
    """The server of these tests; each has a chroot of its own."""
    toolchain.jars("zookeeper")
    with SecureZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def stranger(zookeeper: SecureZooKeeper) -> Iterator[KazooClient]:
    """A client of ZooKeeper without a name."""
    client = KazooClient(zookeeper.connect)
    client.start()
    yield client
    client.stop()
    client.close()


def acl(client: KazooClient, path: str) -> dict[tuple[str, str], list[str]]:
    found: Any = client.get_acls(path)[0]
    return {(one.id.scheme, one.id.id): one.acl_list for one in found}


def test_a_broker_with_certificate_login_and_acls(
    zookeeper: SecureZooKeeper, stranger: KazooClient, tmp_path: Path
) -> None:
    broker = zookeeper.broker(tmp_path / "broker", {**zookeeper.tls(), **SASL, "zookeeper.set.acl": "true"})
    broker.start()
    try:
        create_topics(broker.bootstrap, {"t": {}})
        send(broker.bootstrap, "t", ["1", "2"])
        assert len(Confluent().consume(broker.bootstrap, "t", FromStart(), {0: 2})) == 2
        for path in ("/brokers/ids/0", "/brokers/topics/t", "/controller", "/headgate"):
            assert acl(stranger, path) == SECURE, path
        assert acl(stranger, "/consumers") == {WORLD: ["ALL"]}
        for path in ("/config/users", "/config/brokers"):
            with pytest.raises(NoAuthError):
                stranger.get_acls(path)
        with pytest.raises(NoAuthError):
            stranger.set("/controller_epoch", b"9")
    finally:
        broker.stop()
    # The user of a cluster that has no broker yet
    config = write_properties(tmp_path / "zk.properties", {**zookeeper.tls(), **SASL, "zookeeper.set.acl": "true"})
    password = tmp_path / "password"
    password.write_text("secret of alice")
    command = [*installed_command(), "users", "add", "alice", "--password-file", str(password)]
    run(*command, "--zookeeper", zookeeper.secure, "--zk-tls-config-file", config)
    with pytest.raises(NoAuthError):
        stranger.get("/config/users/alice")


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "what,reason",
    [
        ("password", "it refuses the login of broker"),
        ("authority", "its certificate is refused: unable to get local issuer certificate"),
        ("certificate", "it does not accept the certificate of this broker, or asks for one"),
        ("port", "(secureClientPort)"),
    ],
)
def test_a_refusal_is_a_sentence_at_the_start(
    zookeeper: SecureZooKeeper, tmp_path: Path, what: str, reason: str
) -> None:
    settings, connect = {**zookeeper.tls(), **SASL, "zookeeper.connection.timeout.ms": "6000"}, ""
    if what == "password":
        settings |= {"headgate.zookeeper.sasl.jaas.config": LOGIN.replace("secret of", "hunter2")}
    elif what == "authority":
        settings |= zookeeper.tls(zookeeper.strange_certificates)
    elif what == "certificate":
        settings = {name: text for name, text in settings.items() if "keystore" not in name}
    else:
        connect = zookeeper.connect
    broker = zookeeper.broker(tmp_path / "broker", settings, connect)
    with pytest.raises(AssertionError, match="the broker ended with 1 while starting"):
        broker.start()
    lines = broker.error_lines()
    assert reason in lines[-1]
    assert sum(reason in line for line in lines) == 2, "one line when it happens, and one at the end"
    assert "hunter2" not in "".join(lines)


@pytest.mark.soak
def test_kafkas_migration_secures_existing_nodes(
    zookeeper: SecureZooKeeper, stranger: KazooClient, tmp_path: Path
) -> None:
    """`zookeeper-security-migration` of Kafka 3.9, and a broker that goes on with `zookeeper.set.acl`."""
    broker = zookeeper.broker(tmp_path / "broker", {**zookeeper.tls(), **SASL}, f"{zookeeper.secure}/open")
    broker.start()
    try:
        create_topics(broker.bootstrap, {"t": {}})
        assert acl(stranger, "/open/brokers/topics/t") == {WORLD: ["ALL"]}
        store = {"zookeeper.ssl.truststore.location": str(zookeeper.certificates / "ca.p12")}
        # ZooKeeper's client of Kafka 3.9 has TLS 1.2 by default, its server of 3.9.3 TLS 1.3 alone
        store |= {"zookeeper.ssl.truststore.password": PASSWORD, "zookeeper.ssl.protocol": "TLSv1.3"}
        settings = {**zookeeper.tls(), **store}
        config = write_properties(tmp_path / "tls.properties", settings)
        login = tmp_path / "client.jaas"
        login.write_text(f"Client {{ {LOGIN} }};\n")
        options = ("-Xmx128m", f"-Djava.security.auth.login.config={login}")
        arguments = ("--zookeeper.connect", f"{zookeeper.secure}/open", "--zk-tls-config-file", config)
        run_tool(MIGRATOR, "--zookeeper.acl", "secure", *arguments, options=options, jar_set="broker39")
        assert acl(stranger, "/open/brokers/topics/t") == SECURE
        assert acl(stranger, "/open/consumers") == {WORLD: ["ALL"]}
    finally:
        broker.stop()
    broker.settings["zookeeper.set.acl"] = "true"
    broker.start()
    try:
        create_topics(broker.bootstrap, {"u": {}})
        assert acl(stranger, "/open/brokers/topics/u") == SECURE
        assert json.loads(stranger.get("/open/brokers/topics/u")[0])["partitions"]
    finally:
        broker.stop()
