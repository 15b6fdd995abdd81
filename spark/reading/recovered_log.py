"""The log of a partition as the next start of its broker would open it. Nothing on the disk changes.

The start's own recovery runs over files that are frozen in one moment (`frozen_files.py`): so the bounds agree with
the records that the broker serves afterwards, after a clean stop, a kill or a power cut. Beside a running broker the
result is as after a kill at this moment.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import NamedTuple

from headgate.protocol.errors import KafkaError
from headgate.protocol.steps import finish
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.frozen_files import DirectoryChanges, FrozenFiles
from headgate.spark.reading.log_reader import LogUnavailable
from headgate.storage.config import LogConfig
from headgate.storage.disk.pool import Pool
from headgate.storage.errors import StorageError
from headgate.storage.files import Files
from headgate.storage.log.log import Log
from headgate.storage.recovery.recovery_input import RecoveryInput
from headgate.storage.recovery.recovery_steps import open_log_steps
from headgate.tools.log.data_directory import DataDirectory

_ATTEMPTS = 20
_RETRY_AFTER_S = 0.05
_OPEN_SEGMENTS, _INDEX_BYTES = 4, 1 << 22
# Kafka may have other intervals. Sparse indexes in memory are small, and sparser ones on the disk need no rebuild.
_CONFIG = LogConfig(cleanup_policy=("compact",), index_interval_bytes=1 << 20)

_storage_logger = logging.getLogger("headgate.storage")


class DirectoryState(NamedTuple):
    """The files and checkpoints that a log was opened from. An equal state gives an equal log."""

    names: frozenset[tuple[str, int]]
    recovery: tuple[int, int, bool]


class OpenedLog(NamedTuple):
    """A log, the checkpoints beside it, and the state from which both were read."""

    log: Log
    data: DataDirectory
    state: DirectoryState


def open_recovered(
    disk: Files,
    data: DataDirectory,
    partition: TopicPartition,
    known: OpenedLog | None,
    sleep: Callable[[float], None],
) -> OpenedLog:
    """Open the log of a partition; `known` itself if nothing has changed. `data`: its directory, read just before.

    The log knows its offsets, not all aborted transactions: `aborted_transactions.py` has those. Raises LogUnavailable.
    """
    directory = f"{data.path}/{partition}"
    problem: Exception | None = None
    last: DirectoryState | None = None
    for _ in range(_ATTEMPTS):
        try:
            frozen = FrozenFiles(disk, directory)
            recovery = recovery_input(data, partition, directory)
            names = frozenset(frozen.list(directory).items())
            state = DirectoryState(names, (recovery.start_offset, recovery.recovery_point, recovery.is_clean))
            if known is not None and known.state == state:
                return known._replace(data=data)
            if last == state:
                break
            last = state
            pool = Pool(frozen, _OPEN_SEGMENTS, _INDEX_BYTES)
            steps = open_log_steps(pool, recovery, _CONFIG, Random(0), 0, checks_transaction_indexes=False)
            with _without_log_lines():
                return OpenedLog(finish(steps), data, state)
        except (StorageError, KafkaError, OSError, DirectoryChanges) as error:
            problem = error  # a running broker may have renamed a file meanwhile
        sleep(_RETRY_AFTER_S)
        data = DataDirectory.read(disk, data.path)  # before the names: files that a checkpoint names then exist
    raise LogUnavailable(
        f"{partition}: a start of its broker could not open {directory}: {str(problem).removeprefix(f'{partition}: ')}"
    ) from problem


def recovery_input(data: DataDirectory, partition: TopicPartition, directory: str) -> RecoveryInput:
    """The checkpointed offsets of a partition."""
    return RecoveryInput(
        *partition,
        directory=directory,
        start_offset=data.start_offsets.get(partition, 0),
        recovery_point=data.recovery_points.get(partition, 0),
        is_clean=data.is_clean and data.lock_holder is None,
        high_watermark=data.high_watermarks.get(partition, 0),
    )


@contextmanager
def _without_log_lines() -> Iterator[None]:
    """Drop this thread's log lines of the storage: they name repairs that a start would make, and none is made."""
    thread = threading.get_ident()

    def is_of_another_thread(record: logging.LogRecord) -> bool:
        return record.thread != thread

    _storage_logger.addFilter(is_of_another_thread)
    try:
        yield
    finally:
        _storage_logger.removeFilter(is_of_another_thread)
