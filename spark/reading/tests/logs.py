"""Logs for the tests of readers: on a simulated disk, with transactions over several segments."""

from __future__ import annotations

from headgate.protocol.topic_partition import TopicPartition
from headgate.storage.config import LogConfig
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.log.log import Log
from headgate.storage.tests.builders import SMALL, append, append_own, batch, marker, open_store, transactional
from headgate.storage.tests.crashing_files import CrashingFiles

PARTITION = TopicPartition("t", 0)
DIRECTORY = "/data/t-0"
TOPIC_ID = bytes(range(16))


def new_store(config: LogConfig = SMALL) -> tuple[CrashingFiles, LogDirectory, Log]:
    """A disk, a store on it, and the empty log of `PARTITION`."""
    files = CrashingFiles()
    store = open_store(files, config)
    return files, store, store.create("t", 0, TOPIC_ID, config, 0)


def fill(log: Log, count: int = 30) -> None:
    """Append so many batches of two records, over several segments."""
    append(log, *(batch(2, timestamp=1000 + number, size=50) for number in range(count)))


def transact(log: Log, rounds: int = 12) -> None:
    """Transactions of three producers that overlap over segments; each producer aborts every other one."""
    for number in range(rounds):
        for producer in (5, 6, 7):
            if number and (number + producer) % 3 == 0:
                append_own(log, marker((number + producer) % 2 == 0, producer_id=producer))
            append_own(log, transactional(number * 2, 2, producer_id=producer, size=60))
    append_own(log, marker(is_commit=False, producer_id=5), marker(is_commit=True, producer_id=6))
