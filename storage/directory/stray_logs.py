"""Stray logs (Kafka's term): logs of topics that the metadata do not know.

A log stays behind if the disk refused its deletion, or if the broker died just then. The metadata record the ids of
deleted topics; the next start removes such a log. Any other stray log may be newer than the metadata, for example after
a restore of an older copy of the metadata: that log is reported, and stays.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

from headgate.protocol.errors import KafkaError
from headgate.protocol.steps import Steps
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.disk import layout
from headgate.storage.errors import BadFile

logger = logging.getLogger("headgate.storage")


def remove(
    log_directories: Iterable[LogDirectory], is_known: Callable[[str, int], bool], was_removed: Callable[[bytes], bool]
) -> None:
    """Delete the logs of deleted topics, before any log is opened; other stray logs stay.

    `is_known(topic, partition)` says whether the partition exists, `was_removed(topic_id)` whether the metadata record
    the topic as deleted.
    """
    for log_directory in log_directories:
        for key in [key for key in log_directory.unopened if not is_known(*key)]:
            path = f"{log_directory.directory}/{layout.partition_name(*key)}"
            topic_id, is_log = None, True
            with suppress(OSError, BadFile):  # the opening reports the error
                is_log = any(map(layout.is_of_log, log_directory.pool.files.list(path)))
                topic_id = layout.read_topic_id(log_directory.pool.files, path)
            if not is_log:  # the opening reports that too
                continue
            if topic_id is None or not was_removed(topic_id):
                logger.warning("%s belongs to no topic in the metadata; the log is not served, and stays", path)
                continue
            logger.warning("%s belongs to a deleted topic; removing the log", path)
            try:
                log_directory.delete(*key, remove=False)
            except KafkaError as error:
                logger.error("%s stays until the next start: %s", path, error.message)


def topic_ids_steps(log_directories: Iterable[LogDirectory]) -> Steps[set[bytes]]:
    """The ids of all topics with a partition in a log directory, in slices, for any thread.

    Logs of other topics are off the disk: the directory names are synced here, so a power cut cannot bring one back.
    Directories renamed for deletion do not count. Raises OSError for a log directory that is unreadable, or that is
    another one, for example since its disk was unmounted.
    """
    topic_ids = set[bytes]()
    for log_directory in log_directories:
        files = log_directory.pool.files
        for name, size in files.list(log_directory.directory).items():
            key = layout.parse_partition(name)
            if size >= 0 or key is None:
                continue
            path = f"{log_directory.directory}/{name}"
            log = log_directory.logs.get(key)
            topic_id = None if log is None else log.topic_id  # this saves reading 10,000 files
            if topic_id is None:
                with suppress(BadFile, FileNotFoundError):
                    topic_id = layout.read_topic_id(files, path)
            if topic_id is not None:
                topic_ids.add(topic_id)
            yield
        files.sync_directory(log_directory.directory)
        layout.check_same(files, log_directory.directory, log_directory.meta)
    return topic_ids
