"""Changes of the settings of TLS by both requests: stores that cannot be used are refused, and not stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headgate.gateway.config.resource_type import ResourceType
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages import alter_configs, incremental_alter_configs
from headgate.protocol.messages.alter_configs import AlterConfigsResourceResponse
from headgate.protocol.messages.incremental_alter_configs import SET
from headgate.protocol.security.tls.tests.certificates import Authority

ROOT = Authority("Root")
DAYS = (-5000, 5000)  # the clock of these brokers stands still in 2023
LOCATION = "listener.name.ssl.ssl.keystore.location"
Row = AlterConfigsResourceResponse
Ask = Callable[[HandlerBroker, dict[str, str]], Row]


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[HandlerBroker]:
    """A broker with one listener over TLS."""
    store = tmp_path / "broker.pem"
    store.write_text(ROOT.issue("broker", days=DAYS).pem())
    node = HandlerBroker(
        tmp_path / "data",
        listeners="SSL://127.0.0.1:9093,PLAINTEXT://127.0.0.1:9092",
        ssl_keystore_type="PEM",
        ssl_keystore_location=str(store),
    )
    yield node
    node.close()


def incrementally(node: HandlerBroker, settings: dict[str, str]) -> Row:
    configs = [incremental_alter_configs.AlterableConfig(name, SET, value) for name, value in settings.items()]
    resource = incremental_alter_configs.AlterConfigsResource(ResourceType.BROKER, str(node.config.node_id), configs)
    (row,) = node.ask(incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert isinstance(row, Row)
    return row


def as_a_whole(node: HandlerBroker, settings: dict[str, str]) -> Row:
    configs = [alter_configs.AlterableConfig(name, value) for name, value in settings.items()]
    resource = alter_configs.AlterConfigsResource(ResourceType.BROKER, str(node.config.node_id), configs)
    (row,) = node.ask(alter_configs.AlterConfigsRequest(resources=[resource]), 2).responses
    assert isinstance(row, Row)
    return row


@pytest.mark.parametrize("ask", [incrementally, as_a_whole])
def test_stores_that_cannot_be_used_are_not_stored(secure: HandlerBroker, tmp_path: Path, ask: Ask) -> None:
    row = ask(secure, {LOCATION: str(tmp_path / "nothing.pem"), "message.max.bytes": "5"})
    assert row.error_code == ErrorCode.INVALID_REQUEST
    assert (row.error_message or "").startswith("The new settings cannot be used: listener SSL: ssl.keystore.location=")
    assert secure.config.dynamic() == ({}, {})


@pytest.mark.parametrize("ask", [incrementally, as_a_whole])
def test_usable_stores_are_stored_and_used(secure: HandlerBroker, tmp_path: Path, ask: Ask) -> None:
    other = tmp_path / "other.pem"
    other.write_text(ROOT.issue("broker", days=DAYS).pem())
    assert ask(secure, {LOCATION: str(other)}).error_code == ErrorCode.NONE
    assert secure.config.texts(LOCATION)[0] == str(other)


@pytest.mark.parametrize("ask", [incrementally, as_a_whole])
def test_other_settings_are_refused_as_before(secure: HandlerBroker, tmp_path: Path, ask: Ask) -> None:
    other = tmp_path / "other.pem"
    other.write_text(ROOT.issue("broker", days=DAYS).pem())
    row = ask(secure, {LOCATION: str(other), "no.such.setting": "1"})
    assert row.error_code == ErrorCode.INVALID_CONFIG
    assert ask(secure, {"message.max.bytes": "123456"}).error_code == ErrorCode.NONE
