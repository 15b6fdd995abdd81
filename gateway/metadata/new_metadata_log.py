"""A new metadata log in a data directory that has none: written under another name, and renamed once it is complete."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from headgate.gateway.metadata.metadata_log import LOG_CONFIG, encoded_batch
from headgate.gateway.metadata.new_topics import METADATA_TOPIC, METADATA_TOPIC_ID
from headgate.protocol.internal.metadata import MetadataRecord
from headgate.storage.directory.kafka_directory import OWN_METADATA
from headgate.storage.disk import layout
from headgate.storage.disk.pool import Pool
from headgate.storage.files import Files
from headgate.storage.log import appending, closing
from headgate.storage.log.log import Log
from headgate.storage.segment.segment import Segment

UNFINISHED_SUFFIX: Final = ".adopting"


def write(files: Files, path: str, records: Sequence[MetadataRecord], random: Random, now_ms: int) -> None:
    """Write the metadata log of a data directory, atomically. Raises OSError."""
    directory = f"{path}/{OWN_METADATA}"
    unfinished = directory + UNFINISHED_SUFFIX
    if files.exists(unfinished):
        files.remove_tree(unfinished)
    files.make_directories(unfinished)
    layout.write_topic_id(files, unfinished, METADATA_TOPIC_ID)
    pool = Pool(files)
    segments = [Segment.create(pool, unfinished, 0, now_ms)]
    log = Log(pool, unfinished, METADATA_TOPIC, 0, METADATA_TOPIC_ID, LOG_CONFIG, segments, random, names_unsynced=True)
    if records:
        appending.append(log, encoded_batch(records, now_ms), leader_epoch=0, now_ms=now_ms)
    closing.close(log)
    files.rename(unfinished, directory)
    files.sync_directory(path)


def keep_from_kafka(files: Files, paths: Sequence[str]) -> None:
    """Write `meta.properties` in the version that a Kafka with ZooKeeper refuses: its metadata are outdated now."""
    for path in paths:
        meta = layout.read_meta(files, path)
        if meta is not None and meta.version == 0:
            layout.write_meta(files, path, meta._replace(version=1))
