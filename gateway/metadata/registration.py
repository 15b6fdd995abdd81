"""The registration of a start, which raises the leader epochs of all partitions (KIP-101, KIP-320).

A stop may lose records that clients have seen. Other records then get the same offsets, and a client that continues at
its old position would miss them without an error. A higher leader epoch prevents this: the client asks where the epoch
of its position ends, and finds that its position is beyond.

A start writes one record for all partitions, as a broker of KRaft registers itself (KIP-631). The replay of the record
raises the leader epoch of every partition that exists then and is led by that broker (`image.py`). The record is on the
disk before the broker serves anything. So each epoch is above all epochs that were served before, whatever the logs
have: a log that lost its end looks like a log that never had it.

While the broker runs, a partition gets a PartitionRecord of its own (`gateway.replication.leader_epoch_bumps`).
"""

from __future__ import annotations

import logging
from random import Random
from typing import TYPE_CHECKING

from headgate.gateway.metadata.new_topics import new_topic_id
from headgate.gateway.metadata.planning.leader_epochs import register_broker
from headgate.protocol.errors import KafkaError
from headgate.protocol.internal.metadata import RegisterBrokerRecord
from headgate.storage.errors import StorageError
from headgate.storage.files import NO_ROOM, parent

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig
    from headgate.gateway.metadata.image import Image
    from headgate.gateway.metadata.metadata_log_store import MetadataLogStore
    from headgate.gateway.runtime.scheduler import Scheduler
    from headgate.storage.disk.reserve import Reserve

logger = logging.getLogger("headgate.metadata")


def register(
    metadata: MetadataLogStore, config: BrokerConfig, random: Random, reserve: Reserve, *, was_clean: bool
) -> bool:
    """Write the registration of this start. Returns True if the leader epochs have risen.

    On a full disk a part of the reserve is given up. If the record still cannot be written, a broker that was stopped
    cleanly (`was_clean`) goes on with the old epochs: nothing was lost. Any other start is refused, unless the broker
    leads no partition. Raises StorageError, OSError.
    """
    broker_epoch = metadata.end_offset  # as KRaft: the offset of this record
    record = register_broker(config.node_id, config.broker_rack, new_topic_id(random, ()), broker_epoch)
    try:
        _write(metadata, record, reserve)
    except KafkaError as error:
        if not (was_clean or _leads_nothing(metadata.image, config.node_id)):
            raise StorageError(_refusal(metadata.directory, error)) from error
        logger.warning("the leader epochs stay as they are, since nothing was lost: %s", error.message)
        return False
    try:
        reserve.fill()
    except OSError as error:
        logger.warning("%s cannot be filled: %s", reserve.path, error)
    return True


def refill(reserve: Reserve, scheduler: Scheduler, directory: str) -> None:
    """Have a thread fill the reserve of a log directory that has room again."""

    def filled(result: object) -> None:
        if isinstance(result, BaseException):
            logger.warning("%s cannot be filled: %s", reserve.path, result)

    if directory == parent(reserve.path):
        scheduler.in_thread(reserve.fill, filled)


def _write(metadata: MetadataLogStore, record: RegisterBrokerRecord, reserve: Reserve) -> None:
    """Raises KafkaError(KAFKA_STORAGE_ERROR)."""
    while True:
        try:
            metadata.register(record)
        except KafkaError as error:
            if not _lacks_room(error) or not _gives_up(reserve):
                raise
            logger.warning("the disk is full: a part of %s makes room for the record of this start", reserve.path)
        else:
            return


def _lacks_room(error: KafkaError) -> bool:
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in NO_ROOM


def _gives_up(reserve: Reserve) -> bool:
    try:
        return reserve.give_up()
    except OSError as error:
        logger.warning("%s cannot be given up: %s", reserve.path, error)
        return False


def _leads_nothing(image: Image, node_id: int) -> bool:
    return not any(state.leader == node_id for topic in image.topics.values() for state in topic.partitions)


def _refusal(directory: str, error: KafkaError) -> str:
    return (
        f"the start cannot be recorded in {directory}: {error.message}; the last stop was not clean, so records may be"
        " lost, and without that record clients would not notice: free some room on that disk, or repair it, and start"
        " again; nothing was served"
    )
