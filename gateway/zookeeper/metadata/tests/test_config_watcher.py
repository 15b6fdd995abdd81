"""Configs that tools write in ZooKeeper while the broker runs."""

from __future__ import annotations

import pytest

from headgate.gateway.zookeeper.layout.configs import USERS, ConfigEntity, EntityConfigs
from headgate.gateway.zookeeper.layout.users import encode_credential
from headgate.gateway.zookeeper.tests.store_world import StoreWorld
from headgate.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from headgate.protocol.security.sasl.scram_keys import ScramCredential


@pytest.fixture
def world() -> StoreWorld:
    return StoreWorld()


@pytest.mark.parametrize(
    "notification",
    ["t", {"version": 1, "entity_type": "topics", "entity_name": "t"}, {"version": 2, "entity_path": "topics/t"}],
)
def test_configs_of_a_tool_are_taken_up(world: StoreWorld, notification: object) -> None:
    world.change(lambda: world.metadata.create_topic("t", 1, configs={"segment.ms": "9"}))
    world.tool.write_configs("topics/t", {"retention.ms": "8"}, notification)
    world.settle()
    assert world.image.topic("t").configs == {"retention.ms": "8"}
    world.check()


def test_configs_of_brokers_and_groups_are_taken_up(world: StoreWorld) -> None:
    world.settle()
    world.tool.write_configs("brokers/<default>", {"log.retention.ms": "3"})
    world.tool.write_configs("groups/g", {"consumer.session.timeout.ms": "50000"})
    world.tool.write_configs("users/u", {"producer_byte_rate": "3"})
    world.settle()
    world.check()
    assert world.config.log_config({}).retention_ms == 3


def test_old_notifications_are_deleted(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_topic("t", 1))
    world.tool.write_configs("topics/t", {"retention.ms": "8"})
    world.settle()
    world.settle(16 * 60 * 1000)
    world.tool.write_configs("topics/t", {"retention.ms": "9"})
    world.settle()
    assert len(world.nodes_there["/config/changes"].children) == 1


def test_one_wrong_config_does_not_take_the_others_along(world: StoreWorld) -> None:
    world.tool.write_configs("groups/g", {"consumer.session.timeout.ms": "1", "consumer.heartbeat.interval.ms": "6000"})
    world.tool.write_configs(
        "groups/h", {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "6000"}
    )
    world.settle()
    found = {name: configs for (_, name), configs in world.image.configs.items()}
    assert found["g"] == {"consumer.heartbeat.interval.ms": "6000"}
    assert len(found["h"]) == 2


CREDENTIAL = ScramCredential(b"salt", b"stored", b"server", 4096)


def altered(user: str, *deleted: int) -> AlterUserScramCredentialsRequest:
    """A request that sets the credential of SCRAM-SHA-256, or deletes these ones."""
    upsertion = ScramCredentialUpsertion(user, 1, 4096, b"salt", b"password")
    deletions = [ScramCredentialDeletion(user, mechanism) for mechanism in deleted]
    return AlterUserScramCredentialsRequest(deletions, [] if deleted else [upsertion])


def test_scram_credentials_of_a_tool_are_taken_up(world: StoreWorld) -> None:
    world.settle()
    text = encode_credential(CREDENTIAL)
    world.tool.write_configs("users/a%2Cb", {"SCRAM-SHA-512": text, "producer_byte_rate": "3"})
    world.settle()
    assert world.image.scram_credentials == {"a,b": {2: CREDENTIAL}}
    world.tool.write_configs("users/a%2Cb", {"producer_byte_rate": "3"})
    world.settle()
    assert world.image.scram_credentials == {}


def test_scram_credentials_are_written_beside_other_configs(world: StoreWorld) -> None:
    world.settle()
    world.tool.write_configs("users/ann", {"producer_byte_rate": "3", "SCRAM-SHA-512": "no credential"})
    world.settle()
    world.change(lambda: world.metadata.change_scram_credentials(altered("ann"))[1])
    node = EntityConfigs.decode(ConfigEntity(USERS, "ann"), world.nodes_there["/config/users/ann"].data)
    credential = world.image.scram_credentials["ann"][1]
    assert node.configs == {
        "producer_byte_rate": "3",
        "SCRAM-SHA-512": "no credential",
        "SCRAM-SHA-256": encode_credential(credential),
    }
    world.change(lambda: world.metadata.change_scram_credentials(altered("ann", 1))[1])
    node = EntityConfigs.decode(ConfigEntity(USERS, "ann"), world.nodes_there["/config/users/ann"].data)
    assert node.configs == {"producer_byte_rate": "3", "SCRAM-SHA-512": "no credential"}


def test_scram_credentials_are_there_after_a_start(world: StoreWorld) -> None:
    world.settle()
    world.change(lambda: world.metadata.change_scram_credentials(altered("ann"))[1])
    before = world.image.scram_credentials
    world.kill()
    world.start()
    world.settle()
    assert world.image.scram_credentials == before != {}


def test_a_credential_that_is_none_is_not_shown(world: StoreWorld, caplog: pytest.LogCaptureFixture) -> None:
    world.settle()
    world.tool.write_configs("users/ann", {"SCRAM-SHA-256": "salt=hunter2"})
    world.settle()
    assert "a credential in ZooKeeper's /config/users/ann has no effect: SCRAM-SHA-256" in caplog.text
    assert "hunter2" not in caplog.text
    assert world.image.scram_credentials == {}
