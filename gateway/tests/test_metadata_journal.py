"""The metadata log: one batch a change, read back as it was written, never guessed."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from gateway.metadata.journal import LOG_CONFIG, Journal
from protocol.errors import ErrorCode, KafkaError
from protocol.internal.metadata import FeatureLevelRecord, ProducerIdsRecord, TopicRecord
from protocol.records.batch import Record, build
from storage.errors import StorageError
from storage.files import Files
from storage.log import Log
from storage.store import Store

TOPIC = TopicRecord(name="a", topic_id=b"a" * 16)
FEATURE = FeatureLevelRecord(name="f", feature_level=1)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    store = Store.open(str(tmp_path), files=Files(), node_id=0, config=LOG_CONFIG, now_ms=0, random=Random(0))
    yield store.create("m", 0, bytes(16), LOG_CONFIG)
    store.close()


def test_what_is_appended_is_replayed(log: Log) -> None:
    journal = Journal(log)
    assert list(journal.replay()) == []
    journal.append([TOPIC, FEATURE], 1_000)
    journal.append([ProducerIdsRecord(next_producer_id=5)], 2_000)
    assert list(Journal(log).replay()) == [TOPIC, FEATURE, ProducerIdsRecord(next_producer_id=5)]


def test_a_change_is_one_batch_and_on_disk(log: Log) -> None:
    Journal(log).append([TOPIC, FEATURE], 1_000)
    (header,) = log.headers(0)
    assert (header.records_count, header.max_timestamp) == (2, 1_000)
    assert log.recovery_point == log.end_offset == 2


def test_a_long_log_is_read_in_pieces(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.metadata.journal._READ_BYTES", 100)
    journal = Journal(log)
    for level in range(20):
        journal.append([FeatureLevelRecord(name="f", feature_level=level)] * 3, 0)
    assert [record.feature_level for record in journal.replay() if isinstance(record, FeatureLevelRecord)] == [
        level for level in range(20) for _ in range(3)
    ]


def test_a_record_of_the_future_is_not_guessed(log: Log) -> None:
    Journal(log).append([TOPIC], 0)
    log.append(build([Record(value=bytes((1, 99, 0)))]), leader_epoch=0, now_ms=0)
    with pytest.raises(StorageError, match=r"at offset 1: a metadata record has type 99.*newer version of Headgate"):
        list(Journal(log).replay())


def test_a_damaged_record_is_not_guessed(log: Log) -> None:
    Journal(log).append([TOPIC], 0)
    path = Path(log.directory, "0" * 20 + ".log")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(StorageError, match="at offset 0: its checksum is wrong"):
        list(Journal(log).replay())


def test_without_descriptors_nothing_is_written_and_the_next_change_succeeds(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(log)
    with monkeypatch.context() as patch:
        patch.setattr(Files, "sync_directory", lambda *_: (_ for _ in ()).throw(OSError(24, "Too many open files")))
        with pytest.raises(KafkaError, match="Too many open files"):
            journal.append([TOPIC], 0)
    assert log.end_offset == 0
    journal.append([FEATURE], 0)
    assert list(Journal(log).replay()) == [FEATURE]


def test_after_a_failed_sync_nothing_more_is_written(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(log)
    with monkeypatch.context() as patch:
        patch.setattr(Log, "flush", lambda log: (_ for _ in ()).throw(OSError(5, "I/O error")))
        with pytest.raises(KafkaError) as first:
            journal.append([TOPIC], 0)
    assert first.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    end_offset = log.end_offset
    with pytest.raises(KafkaError, match="restart the broker"):
        journal.append([FEATURE], 0)
    assert log.end_offset == end_offset
