"""The first users of a secured cluster: SCRAM credentials for the store of brokers that do not run.

A broker whose listeners all ask for a login needs a user before its first start. With an own metadata log the user is
a record in the data directory, as `kafka-storage format --add-scram` makes one; with ZooKeeper it is Kafka's node
`/config/users/<name>`, as `kafka-configs --zookeeper` makes one, and brokers that run see it at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from headgate.gateway.app.composition import connect
from headgate.gateway.metadata import new_metadata_log, snapshot
from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.metadata_log import LEADER_EPOCH, LOG_CONFIG, encoded_batch
from headgate.gateway.metadata.new_topics import METADATA_TOPIC
from headgate.gateway.metadata.planning.scram import change_scram_credentials
from headgate.gateway.runtime.clock import SystemClock
from headgate.gateway.runtime.tasks import Task
from headgate.gateway.zookeeper.layout.configs import (
    CONFIG_CHANGES_PATH,
    CONFIG_PATH,
    USERS,
    ConfigChange,
    ConfigEntity,
    EntityConfigs,
)
from headgate.gateway.zookeeper.layout.users import configs_of, credentials_of
from headgate.gateway.zookeeper.requests import ensure, get, multi
from headgate.gateway.zookeeper.session import Create, Operation, Refused, Session, SetData
from headgate.protocol.errors import KafkaError
from headgate.protocol.internal.metadata import MetadataRecord, UserScramCredentialRecord
from headgate.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from headgate.protocol.security.sasl.scram_keys import ScramCredential
from headgate.storage.directory import kafka_directory
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.errors import StorageError
from headgate.storage.files import Files
from headgate.storage.log import appending, closing

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig
    from headgate.gateway.zookeeper.membership.connection import ZooKeeperConnection

Requests = Sequence[AlterUserScramCredentialsRequest]


class DirectoryParts(NamedTuple):
    """The inputs of a change besides settings and users."""

    files: Files
    random: Random
    now_ms: int


def plan(image: Image, requests: Requests) -> list[MetadataRecord]:
    """The records of all changes. Raises KafkaError for a change that a broker would refuse."""
    records: list[MetadataRecord] = []
    for request in requests:
        change = change_scram_credentials(image, request)
        for user, error in change.results.items():
            if error is not None:
                raise KafkaError(error.code, f"{user!r}: {error.message}")
        records += change.records
    return records


def add(config: BrokerConfig, requests: Requests, *, is_dry_run: bool) -> list[str]:
    """Write users to ZooKeeper with `zookeeper.connect`, otherwise to `log.dirs`. Returns lines for people.

    Raises KafkaError, StorageError, OSError; then nothing was written.
    """
    clock = SystemClock()
    if config.zookeeper_connect is None:
        parts = DirectoryParts(Files(), Random(), clock.now_ms())
        return add_to_directory(config, requests, parts, is_dry_run=is_dry_run)
    connection = connect(config, clock)
    assert connection is not None, "zookeeper.connect is set"
    try:
        return add_to_zookeeper(connection, requests, is_dry_run=is_dry_run)
    finally:
        connection.close()


# -------------------------------------------------------------------------------------------------- the data directory


def add_to_directory(config: BrokerConfig, requests: Requests, parts: DirectoryParts, *, is_dry_run: bool) -> list[str]:
    """Write users to the metadata log in `log.dirs`, which may be new. Returns lines for people.

    Raises DirectoryLocked while the broker runs; KafkaError, StorageError, OSError. Then nothing was written.
    """
    files = parts.files
    kafka_directory.refuse(files, config.log_directories)
    if is_dry_run and not any(map(files.exists, config.log_directories)):
        plan(Image.empty(), requests)
        return [f"{_users(requests)} would be written to {','.join(config.log_directories)}, which is new"]
    log_manager = LogManager.take(
        config.log_directories, files=files, node_id=config.node_id, config=config.log_config({}), random=parts.random
    )
    try:
        log = log_manager.open_now((METADATA_TOPIC, 0), LOG_CONFIG, parts.now_ms)
        if log is None and (len(log_manager) or log_manager.failed):
            raise log_manager.failed.get((METADATA_TOPIC, 0)) or StorageError(
                f"{log_manager.directory} has partitions but no metadata log: it is the directory of another program,"
                " or of a broker with ZooKeeper, whose users are added with --zookeeper"
            )
        image = Image.empty() if log is None else snapshot.load(log).image
        records = plan(image, requests)
        if is_dry_run:
            return [f"{_users(requests)} would be written to {log_manager.directory}"]
        if log is None:
            _begin(log_manager, records, parts)
            log_manager.close()  # with the mark of a clean stop: the first start has nothing to recover
        else:
            appending.append(log, encoded_batch(records, parts.now_ms), leader_epoch=LEADER_EPOCH, now_ms=parts.now_ms)
            closing.close(log)
    finally:
        log_manager.abandon()  # the other logs stay as the last stop left them
    return [f"{_users(requests)} is in {log_manager.directory}, and can log in once a broker serves the directory"]


def _begin(log_manager: LogManager, records: Sequence[MetadataRecord], parts: DirectoryParts) -> None:
    """Write the identity of a new directory, and its metadata log. Raises OSError."""
    log_manager.claim()
    first = next(iter(log_manager)).directory
    new_metadata_log.write(parts.files, first, records, parts.random, parts.now_ms)


def _users(requests: Requests) -> str:
    names = dict.fromkeys(change.name for request in requests for change in request.upsertions)
    return f"user {', '.join(names)}"


# ----------------------------------------------------------------------------------------------------------- ZooKeeper


def add_to_zookeeper(connection: ZooKeeperConnection, requests: Requests, *, is_dry_run: bool) -> list[str]:
    """Write users to Kafka's nodes. Returns lines for people. Raises KafkaError, StorageError."""
    records = plan(Image.empty(), requests)
    if is_dry_run:
        return [f"{_users(requests)} would be written to ZooKeeper at {connection.connect}"]
    connection.create_chroot()
    for record in records:
        assert isinstance(record, UserScramCredentialRecord)
        connection.complete(partial(_write_node, connection.session, record), f"user {record.name}")
    return [
        f"{_users(requests)} is in ZooKeeper at {connection.connect}, and can log in at every broker of the cluster"
    ]


def _write_node(session: Session, record: UserScramCredentialRecord) -> Task[None]:
    """Add a credential to the node of its user, whose other configs stay. Raises StorageError, Failed, InvalidNode."""
    entity = ConfigEntity(USERS, record.name)
    path = EntityConfigs.path(entity)
    for parent_path in (CONFIG_CHANGES_PATH, f"{CONFIG_PATH}/{USERS}"):
        yield from ensure(session, parent_path)
    found = yield from get(session, path)
    known = EntityConfigs.decode(entity, None if found is None else found.data)
    credentials, _ = credentials_of(known.configs)
    credentials[record.mechanism] = ScramCredential(
        bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations
    )
    data = known._replace(configs={**known.configs, **configs_of(credentials)}).encode()
    written: Operation = Create(path, data) if found is None else SetData(path, data, found.stat.version)
    change = Create(ConfigChange.path(), ConfigChange(entity).encode(), is_sequential=True)
    result = yield from multi(session, [written, change])
    if isinstance(result, Refused):
        raise StorageError(
            f"ZooKeeper refused to write {path}: {result.error.name}; another program writes there: run this again"
        )
