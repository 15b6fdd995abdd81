"""A new metadata log in a directory without one: complete, or not there."""

from __future__ import annotations

from random import Random

import pytest

from headgate.gateway.metadata import new_metadata_log
from headgate.gateway.metadata.metadata_log import LOG_CONFIG, replay
from headgate.gateway.metadata.new_metadata_log import UNFINISHED_SUFFIX
from headgate.gateway.metadata.new_topics import METADATA_TOPIC
from headgate.protocol.internal.metadata import MetadataRecord, ProducerIdsRecord, TopicRecord
from headgate.storage.config import LogConfig
from headgate.storage.directory.kafka_directory import OWN_METADATA
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.tests.crashing_files import CrashingFiles

RECORDS: list[MetadataRecord] = [TopicRecord(name="t", topic_id=bytes(range(16))), ProducerIdsRecord(0, 0, 5_000)]


def found(files: CrashingFiles) -> list[MetadataRecord] | None:
    """The records of the log as a start reads them; None without a log."""
    store = LogManager.take(["/d"], files=files, node_id=0, config=LogConfig(), random=Random(0)).claim()
    log = store.open_now((METADATA_TOPIC, 0), LOG_CONFIG, 0)
    records = None if log is None else list(replay(log))
    store.close()
    return records


@pytest.fixture
def files() -> CrashingFiles:
    files = CrashingFiles()
    files.make_directories("/d")
    found(files)  # the directory becomes ours
    return files


@pytest.mark.parametrize("records", [RECORDS, []])
def test_a_start_reads_the_records(files: CrashingFiles, records: list[MetadataRecord]) -> None:
    new_metadata_log.write(files, "/d", records, Random(0), 1)
    assert found(files) == records


def test_the_rest_of_an_earlier_attempt_is_replaced(files: CrashingFiles) -> None:
    files.make_directories(f"/d/{OWN_METADATA}{UNFINISHED_SUFFIX}")
    files.write(f"/d/{OWN_METADATA}{UNFINISHED_SUFFIX}/junk", b"x")
    new_metadata_log.write(files, "/d", RECORDS, Random(0), 1)
    assert found(files) == RECORDS
