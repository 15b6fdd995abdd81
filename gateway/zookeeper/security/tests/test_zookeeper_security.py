"""TLS, the login and the ACLs of the connection to ZooKeeper, from settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.gateway.config import BrokerConfig, ConfigError
from headgate.gateway.zookeeper.security import zookeeper_security
from headgate.gateway.zookeeper.security.zookeeper_security import (
    JAAS_CONFIG,
    NO_SECURITY,
    OPEN,
    NodeAccess,
    ZooKeeperSecurity,
    of_config,
    tls_settings,
)
from headgate.protocol.security.tls.tests.certificates import Authority

DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule required"
LOGIN = f'{JAAS_CONFIG}={DIGEST} username="broker" password="hunter2";'


def made(*lines: str) -> ZooKeeperSecurity:
    return of_config(BrokerConfig.load("\n".join(("zookeeper.connect=zk:2181", *lines))))


@pytest.fixture
def stores(tmp_path: Path) -> list[str]:
    authority = Authority()
    (tmp_path / "ca.pem").write_text(authority.pem())
    (tmp_path / "broker.p12").write_bytes(authority.issue("broker").pkcs12())
    return [
        "zookeeper.ssl.client.enable=true",
        f"zookeeper.ssl.truststore.location={tmp_path}/ca.pem",
        f"zookeeper.ssl.keystore.location={tmp_path}/broker.p12",
        "zookeeper.ssl.keystore.password=secret",
    ]


@pytest.mark.parametrize(
    "path,access",
    [
        ("/brokers/ids/0", NodeAccess(is_open=False, is_readable=True)),
        ("/headgate/feature", NodeAccess(is_open=False, is_readable=True)),
        ("/config/users/alice", NodeAccess(is_open=False, is_readable=False)),
        ("/config/brokers/0", NodeAccess(is_open=False, is_readable=False)),
        ("/delegation_token/tokens/a", NodeAccess(is_open=False, is_readable=False)),
        ("/delegation_token", NodeAccess(is_open=False, is_readable=True)),
        ("/consumers", OPEN),
        ("/consumers/g/offsets/t/0", OPEN),
        ("/consumers2", NodeAccess(is_open=False, is_readable=True)),
    ],
)
def test_nodes_have_kafkas_acls(path: str, access: NodeAccess) -> None:
    assert ZooKeeperSecurity(sets_acls=True).access(path) == access
    assert NO_SECURITY.access(path) == OPEN


def test_without_settings_there_is_neither_tls_nor_a_login() -> None:
    assert made() == NO_SECURITY


def test_the_ending_of_a_name_tells_the_format(stores: list[str]) -> None:
    security = made(*stores)
    assert security.new_context is not None
    context = security.new_context()
    assert context.check_hostname
    assert security.new_context() is context
    settings = tls_settings(BrokerConfig.load("\n".join(stores)))
    assert (settings.keystore_type, settings.truststore_type) == ("PKCS12", "PEM")


def test_the_host_name_is_not_checked_where_the_algorithm_is_empty(stores: list[str]) -> None:
    security = made(*stores, "zookeeper.ssl.endpoint.identification.algorithm=")
    assert security.new_context is not None
    assert not security.new_context().check_hostname


def test_stores_that_cannot_be_used_are_no_start(stores: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        made(*stores, "zookeeper.ssl.keystore.location=/nowhere.p12")
    assert "zookeeper.ssl.keystore.location" in str(refused.value)


def test_a_login_is_a_line_of_jaas() -> None:
    pytest.importorskip("puresasl")
    login = made(LOGIN).login
    assert login is not None
    assert (login.user, login.password.text) == ("broker", "hunter2")
    assert "hunter2" not in repr(login)


@pytest.mark.parametrize(
    "line",
    [
        'com.sun.security.auth.module.Krb5LoginModule required principal="hunter2";',
        f'{DIGEST} username="hunter2";',
        f'{DIGEST} password="hunter2"',
    ],
)
def test_another_line_is_refused(line: str) -> None:
    with pytest.raises(ConfigError) as refused:
        made(f"{JAAS_CONFIG}={line}")
    assert str(refused.value).startswith(JAAS_CONFIG)
    assert "hunter2" not in str(refused.value)


def test_a_login_needs_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_security, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'headgate\[zookeeper-sasl\]'"):
        made(LOGIN)


def test_acls_need_a_name(stores: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.set\.acl=true needs a name of this broker in ZooKeeper"):
        made("zookeeper.set.acl=true")
    assert made("zookeeper.set.acl=true", *stores).sets_acls
