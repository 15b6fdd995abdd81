"""Records as rows: texts and other bytes, and what internal topics hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.protocol.internal import metadata, offsets, transactions
from headgate.protocol.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode,
)
from headgate.protocol.internal.metadata import PartitionRecord, TopicRecord
from headgate.protocol.internal.offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from headgate.protocol.internal.transactions import PartitionsSchema, TransactionLogKey, TransactionLogValue
from headgate.protocol.records.batch import Record, build
from headgate.storage.disk.pool import Pool
from headgate.tools.log import decoding
from headgate.tools.log.overlay import Overlay
from headgate.tools.log.segment_reader import LogFile, iterate_batches

ID = bytes(range(16))
ID_TEXT = "AAECAwQFBgcICQoLDA0ODw"


def rows(tmp_path: Path, topic: str, *records: Record, **settings: Any) -> list[dict[str, Any]]:
    (tmp_path / f"{0:020}.log").write_bytes(build(records, **settings))
    (stored,) = iterate_batches([LogFile(Pool(Overlay()), str(tmp_path / f"{0:020}.log"))])
    return [dict(decoding.record_row(stored, record, topic)) for record in stored.records()]


def pair(tmp_path: Path, topic: str, key: bytes | None, value: bytes | None) -> tuple[Any, Any]:
    (row,) = rows(tmp_path, topic, Record(key=key, value=value))
    return row["key"], row["value"]


@pytest.mark.parametrize(
    "data, shown",
    [(None, None), (b"", ""), ("größer".encode(), "größer"), (b"\xff\x00", {"base64": "/wA="})],
)
def test_bytes(tmp_path: Path, data: bytes | None, shown: object) -> None:
    assert pair(tmp_path, "t", data, data) == (shown, shown)


def test_all_of_a_record(tmp_path: Path) -> None:
    record = Record(timestamp=5, key=b"k", value=b"v", headers=[("a", b"1"), ("b", None), ("c", b"\xff")])
    assert rows(tmp_path, "t", record, record, producer_id=9, producer_epoch=2, base_sequence=30)[1] == {
        "offset": 1,
        "timestamp": 5,
        "timestamp_type": "CreateTime",
        "key": "k",
        "value": "v",
        "headers": [["a", "1"], ["b", None], ["c", {"base64": "/w=="}]],
        "producer_id": 9,
        "producer_epoch": 2,
        "sequence": 31,
        "transactional": False,
        "control": False,
    }


def test_a_committed_offset(tmp_path: Path) -> None:
    key = offsets.encode_key(OffsetCommitKey("group", "orders", 3))
    value = offsets.encode_value(OffsetCommitValue(42, 5, "note", 1_000, topic_id=ID))
    assert pair(tmp_path, "__consumer_offsets", key, value) == (
        {"type": "OffsetCommit", "group": "group", "topic": "orders", "partition": 3},
        {
            "offset": 42,
            "leader_epoch": 5,
            "metadata": "note",
            "commit_timestamp": 1_000,
            "expire_timestamp": -1,
            "topic_id": ID_TEXT,
        },
    )
    assert pair(tmp_path, "__consumer_offsets", key, None)[1] is None


def test_a_classic_group_with_what_its_members_told_each_other(tmp_path: Path) -> None:
    wants = encode(ConsumerProtocolSubscription(["orders"]), 0)
    has = encode(ConsumerProtocolAssignment([TopicPartition("orders", [0, 1])]), 0)
    members = [MemberMetadata("one", subscription=wants, assignment=has), MemberMetadata("two", subscription=b"\xff")]
    value = offsets.encode_value(GroupMetadataValue("consumer", 7, "range", "one", members=members))
    key, shown = pair(tmp_path, "__consumer_offsets", offsets.encode_key(GroupMetadataKey("group")), value)
    assert key == {"type": "GroupMetadata", "group": "group"}
    one, two = shown["members"]
    assert one["subscription"]["topics"] == ["orders"]
    assert one["assignment"]["assigned_partitions"] == [{"topic": "orders", "partitions": [0, 1]}]
    assert (two["subscription"], two["assignment"]) == ({"base64": "/w=="}, None)


def test_a_transaction(tmp_path: Path) -> None:
    value = TransactionLogValue(7, transaction_status=1, transaction_partitions=[PartitionsSchema("orders", [0])])
    key = transactions.encode_key(TransactionLogKey("pay"))
    shown = pair(tmp_path, "__transaction_state", key, transactions.encode_value(value))
    assert shown[0] == {"transactional_id": "pay"}
    assert shown[1]["transaction_status"] == "Ongoing"
    assert shown[1]["transaction_partitions"] == [{"topic": "orders", "partition_ids": [0]}]


@pytest.mark.parametrize("topic", decoding.METADATA_LOGS)
def test_metadata(tmp_path: Path, topic: str) -> None:
    record = PartitionRecord(0, ID, [1], [1], leader=1, directories=[ID])
    assert pair(tmp_path, topic, None, metadata.encode(TopicRecord("orders", ID)))[1] == {
        "type": "Topic",
        "name": "orders",
        "topic_id": ID_TEXT,
    }
    shown = pair(tmp_path, topic, None, metadata.encode(record, 1))[1]
    assert (shown["topic_id"], shown["directories"]) == (ID_TEXT, [ID_TEXT])


@pytest.mark.parametrize(
    "topic, key, value, shown",
    [
        ("__consumer_offsets", b"\x00\x63?", b"?", ({"type": 99, "base64": "AGM/"}, "?")),
        ("__transaction_state", b"\x00\x05?", b"?", ({"version": 5, "base64": "AAU/"}, "?")),
        ("__cluster_metadata", None, b"\x01\x1b\x00?", (None, {"type": 27, "base64": "ARsAPw=="})),
    ],
)
def test_what_a_newer_program_wrote(tmp_path: Path, topic: str, key: bytes | None, value: bytes, shown: Any) -> None:
    assert pair(tmp_path, topic, key, value) == shown


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_what_nobody_wrote(tmp_path: Path, topic: str) -> None:
    key, value = pair(tmp_path, topic, b"\x00", b"\xff")
    assert (key["base64"], value) == ("AA==", {"base64": "/w=="})
    assert key["error"]


@pytest.mark.parametrize(
    "name, value, shown",
    [
        ("listener.name.ssl.ssl.keystore.password", "hush", "[hidden]"),
        ("listener.name.ssl.ssl.keystore.key", "hush", "[hidden]"),
        ("listener.name.ssl.ssl.key.password", None, None),
        ("listener.name.ssl.ssl.keystore.location", "/store", "/store"),
    ],
)
def test_passwords_of_brokers_are_hidden(tmp_path: Path, name: str, value: str | None, shown: str | None) -> None:
    record = metadata.ConfigRecord(4, "1", name, value)
    decoded = pair(tmp_path, "__cluster_metadata", None, metadata.encode(record, 0))[1]
    assert (decoded["name"], decoded["value"]) == (name, shown)


def test_keys_of_users_are_hidden(tmp_path: Path) -> None:
    record = metadata.UserScramCredentialRecord("ann", 1, b"salt", b"stored", b"server", 4096)
    assert pair(tmp_path, "__headgate_metadata", None, metadata.encode(record, 0))[1] == {
        "type": "UserScramCredential",
        "name": "ann",
        "mechanism": 1,
        "salt": "[hidden]",
        "stored_key": "[hidden]",
        "server_key": "[hidden]",
        "iterations": 4096,
    }
