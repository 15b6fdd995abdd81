"""The first users: in a new directory, in that of a stopped broker, and in ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from headgate.gateway.app import cli
from headgate.gateway.app.first_users import DirectoryParts, add_to_directory, add_to_zookeeper
from headgate.gateway.config import BrokerConfig
from headgate.gateway.runtime.clock import SystemClock
from headgate.gateway.tests.builders import HandlerBroker
from headgate.gateway.zookeeper.layout.configs import USERS, ConfigEntity, EntityConfigs
from headgate.gateway.zookeeper.layout.users import credentials_of
from headgate.gateway.zookeeper.membership.connection import ZooKeeperConnection
from headgate.gateway.zookeeper.session import Create
from headgate.gateway.zookeeper.tests.model import ZooKeeperModel
from headgate.gateway.zookeeper.tests.opening import connector
from headgate.protocol.errors import KafkaError
from headgate.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from headgate.protocol.security.sasl.scram_keys import ScramMechanism, credential_of
from headgate.storage.errors import DirectoryLocked, StorageError
from headgate.storage.files import Files

SHA_256, SHA_512 = ScramMechanism


def request(user: str, mechanism: ScramMechanism = SHA_512, iterations: int = 4096) -> AlterUserScramCredentialsRequest:
    change = ScramCredentialUpsertion(user, mechanism, iterations, b"salt", b"salted" * 10)
    return AlterUserScramCredentialsRequest(upsertions=[change])


def add(directory: Path, *requests: AlterUserScramCredentialsRequest, is_dry_run: bool = False) -> list[str]:
    config = BrokerConfig.load("", [f"log.dirs={directory}"])
    parts = DirectoryParts(Files(), Random(0), 1_700_000_000_000)
    return add_to_directory(config, requests, parts, is_dry_run=is_dry_run)


def users(directory: Path) -> dict[str, set[int]]:
    """The users that a broker on the directory knows."""
    node = HandlerBroker(directory)
    try:
        return {name: set(found) for name, found in node.services.metadata.image.scram_credentials.items()}
    finally:
        node.close()


def test_a_new_directory_gets_a_user(tmp_path: Path) -> None:
    directory = tmp_path / "new"
    lines = add(directory, request("admin"), request("admin", SHA_256))
    assert lines == [f"user admin is in {directory}, and can log in once a broker serves the directory"]
    assert users(directory) == {"admin": {SHA_256, SHA_512}}


@pytest.mark.parametrize("count", [1, 2])
def test_the_first_start_after_users_is_clean(tmp_path: Path, caplog: pytest.LogCaptureFixture, count: int) -> None:
    caplog.set_level("INFO")
    for name in ("admin", "bob")[:count]:
        add(tmp_path / "new", request(name))
    node = HandlerBroker(tmp_path / "new")
    assert node.parts.log_manager.was_clean
    node.close()
    assert "not clean" not in caplog.text


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_stopped_broker_gets_a_user(tmp_path: Path, is_clean: bool) -> None:
    node = HandlerBroker(tmp_path)
    node.services.metadata.create_topic("kept", 3)
    node.close() if is_clean else node.parts.log_manager.abandon()
    before = {path.name for path in tmp_path.iterdir()}
    add(tmp_path, request("admin"))
    assert {path.name for path in tmp_path.iterdir()} == before, "the mark of a clean stop is as it was"
    add(tmp_path, request("bob"))
    assert users(tmp_path) == {"admin": {SHA_512}, "bob": {SHA_512}}
    node = HandlerBroker(tmp_path)
    assert len(node.services.metadata.image.topics["kept"].partitions) == 3
    node.close()


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "new"
    assert add(directory, request("admin"), is_dry_run=True) == [
        f"user admin would be written to {directory}, which is new"
    ]
    assert not directory.exists()
    add(directory, request("admin"))
    assert add(directory, request("bob"), is_dry_run=True) == [f"user bob would be written to {directory}"]
    assert users(directory) == {"admin": {SHA_512}}


def test_a_running_broker_is_named(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path)
    with pytest.raises(DirectoryLocked, match="is in use by process"):
        add(tmp_path, request("admin"))
    node.close()


def test_a_change_that_a_broker_would_refuse_is_refused(tmp_path: Path) -> None:
    for wrong in (request(""), request("admin", iterations=1)):
        with pytest.raises(KafkaError):
            add(tmp_path / "new", request("bob"), wrong)
    assert users(tmp_path / "new") == {}


def test_the_directory_of_another_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "topic-0").mkdir()
    with pytest.raises(StorageError, match="says whose it is"):
        add(tmp_path, request("admin"))


# ----------------------------------------------------------------------------------------------------------- ZooKeeper


@contextmanager
def connection(keeper: ZooKeeperModel) -> Iterator[ZooKeeperConnection]:
    config = BrokerConfig.load("", ["zookeeper.connect=zk:2181/kafka"])
    connection = connector(keeper)(config, SystemClock())
    assert connection is not None
    try:
        yield connection
    finally:
        connection.close()


def test_zookeeper_gets_a_user_and_a_notification() -> None:
    keeper = ZooKeeperModel()
    with connection(keeper) as opened:
        add_to_zookeeper(opened, [request("admin")], is_dry_run=True)
        assert "/kafka" not in keeper.tree.nodes
        add_to_zookeeper(opened, [request("admin"), request("admin", SHA_256)], is_dry_run=False)
    data = keeper.tree.nodes["/kafka/config/users/admin"].data
    found, invalid = credentials_of(EntityConfigs.decode(ConfigEntity(USERS, "admin"), data).configs)
    assert not invalid
    assert found == {each: credential_of(each, b"salted" * 10, b"salt", 4096) for each in ScramMechanism}
    changes = [path for path in keeper.tree.nodes if path.startswith("/kafka/config/changes/")]
    assert len(changes) == 2


def test_other_configs_of_a_user_stay_in_zookeeper() -> None:
    keeper = ZooKeeperModel()
    node = b'{"version":1,"config":{"producer_byte_rate":"7"},"x":1}'
    paths = ("/kafka", "/kafka/config", "/kafka/config/users")
    keeper.transact(0, [*map(Create, paths), Create("/kafka/config/users/admin", node)])
    with connection(keeper) as opened:
        add_to_zookeeper(opened, [request("admin")], is_dry_run=False)
    known = EntityConfigs.decode(ConfigEntity(USERS, "admin"), keeper.tree.nodes["/kafka/config/users/admin"].data)
    assert known.configs["producer_byte_rate"] == "7"
    assert "SCRAM-SHA-512" in known.configs
    assert known.unknown == {"x": 1}


# ------------------------------------------------------------------------------------------------------- the command


def test_the_command_writes_to_the_directory_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "password").write_text("secret")
    (tmp_path / "server.properties").write_text(f"log.dirs={tmp_path}/data\nnode.id=7\n")
    options = ["--password-file", str(tmp_path / "password")]
    assert cli.main(["users", "add", "admin", "--config", str(tmp_path / "server.properties"), *options]) == 0
    assert "user admin is in" in capsys.readouterr().err
    assert cli.main(["users", "add", "bob", "--data", f"{tmp_path}/data", *options]) == 0, "node.id is that of the data"


@pytest.mark.parametrize(
    "options, sentence",
    [
        (["--config", "/no/such/file"], "cannot read /no/such/file"),
        (["--data", "/proc/none"], "nothing was written: /proc/none: No such file"),
    ],
)
def test_the_command_names_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    (tmp_path / "password").write_text("secret")
    assert cli.main(["users", "add", "admin", *options, "--password-file", str(tmp_path / "password")]) == 1
    assert sentence in capsys.readouterr().err
