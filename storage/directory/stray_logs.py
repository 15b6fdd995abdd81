"""Logs of topics that the metadata do not know: Kafka calls them stray.

Logs stay behind if they could not be deleted with their topic: the disk refused, or the broker died just then. The
metadata record by its id that the topic was deleted; such a log is removed at the next start. Any other log may be
newer than the metadata, as after an older copy of them was brought back: that log is named, and stays.
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
    stores: Iterable[LogDirectory], is_known: Callable[[str, int], bool], was_removed: Callable[[bytes], bool]
) -> None:
    """Delete the logs of topics that were removed, before any log is opened; the other strays stay.

    `is_known(topic, partition)` says whether there is such a partition, `was_removed(topic_id)` whether the metadata
    record that this topic was deleted.
    """
    for store in stores:
        for key in [key for key in store.unopened if not is_known(*key)]:
            path = f"{store.directory}/{layout.partition_name(*key)}"
            topic_id, is_log = None, True
            with suppress(OSError, BadFile):  # the opening says what is wrong with the log
                is_log = any(map(layout.is_of_log, store.pool.files.list(path)))
                topic_id = layout.read_topic_id(store.pool.files, path)
            if not is_log:  # the opening says that too
                continue
            if topic_id is None or not was_removed(topic_id):
                logger.warning("%s is of a topic that the metadata do not know, and is not served; it stays", path)
                continue
            logger.warning("%s is left of a topic that was deleted; it goes now", path)
            try:
                store.delete(*key, remove=False)
            except KafkaError as error:
                logger.error("%s stays until the next start: %s", path, error.message)


def topic_ids_steps(stores: Iterable[LogDirectory]) -> Steps[set[bytes]]:
    """The ids of all topics of which a log directory has a partition, in slices, for any thread.

    Logs of other topics have left the disk: a power cut does not bring a directory back, as the names are synced.
    Directories with names of deleted partitions do not count. Raises OSError for a log directory that cannot be read,
    or that is another one, for instance since its disk was unmounted.
    """
    found = set[bytes]()
    for store in stores:
        files = store.pool.files
        for name, size in files.list(store.directory).items():
            key = layout.parse_partition(name)
            if size >= 0 or key is None:
                continue
            path = f"{store.directory}/{name}"
            log = store.logs.get(key)
            topic_id = None if log is None else log.topic_id  # so 10,000 files need not be read
            if topic_id is None:
                with suppress(BadFile, FileNotFoundError):
                    topic_id = layout.read_topic_id(files, path)
            if topic_id is not None:
                found.add(topic_id)
            yield
        files.sync_directory(store.directory)
        layout.check_same(files, store.directory, store.meta)
    return found
