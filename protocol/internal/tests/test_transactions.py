"""Records of `__transaction_state`: Apache Kafka's definitions, its own tool reading ours, and what is refused."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.protocol.errors import MalformedRequest
from headgate.protocol.internal import version_prefix
from headgate.protocol.internal.tests.kafka_dump import dumped
from headgate.protocol.internal.transactions import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    UnknownVersion,
    decode,
    decode_value,
    encode_common,
    encode_key,
    encode_value,
    state_name,
)
from headgate.protocol.tests.definitions import assert_defined, in_jar, parsed
from headgate.protocol.tests.examples import share
from headgate.protocol.tests.values import full, messages

THEN = 1_700_000_000_000
KEY = TransactionLogKey("pay")
ONGOING = TransactionLogValue(
    producer_id=7,
    producer_epoch=3,
    transaction_timeout_ms=60_000,
    transaction_status=1,
    transaction_partitions=[PartitionsSchema("orders", [0, 2])],
    transaction_last_update_timestamp_ms=THEN + 1,
    transaction_start_timestamp_ms=THEN,
)
EMPTY = TransactionLogValue(7, producer_epoch=3, transaction_partitions=None, transaction_start_timestamp_ms=-1)
BUMPED = TransactionLogValue(7, 6, 8, 3, 0, 60_000, 4, None, THEN, -1, 2)
ONGOING_BYTES = (
    "0000000000000000000700030000ea600100000001" + "00066f7264657273000000020000000000000002"
    "0000018bcfe568010000018bcfe56800"
)


def test_version_0_has_kafkas_bytes() -> None:
    assert encode_key(KEY).hex() == "00000003706179"
    assert encode_value(ONGOING).hex() == ONGOING_BYTES
    assert decode(bytes.fromhex("00000003706179"), bytes.fromhex(ONGOING_BYTES)) == (KEY, ONGOING)


NAMES = st.sampled_from(["t", "ü", "t" * 125, "t" * 126, "t" * 127]) | st.text(max_size=3)
INDEXES = st.lists(st.integers(0, 1 << 30), max_size=17).map(tuple)


@settings(max_examples=share(50))
@example({"t" * 126: tuple(range(15))}, 0, 0)
@example({str(number): (number,) for number in range(15)}, 0, 2)
@given(st.dictionaries(NAMES, INDEXES, max_size=17), st.integers(-1, 0x7FFF), st.sampled_from([0, 2]))
def test_common_values_have_the_bytes_of_the_general_writer(
    partitions: dict[str, tuple[int, ...]], epoch: int, client_version: int
) -> None:
    encoded = encode_common(7, epoch, 60_000, 1, partitions, THEN + 1, THEN, client_version)
    is_common = len(partitions) < 16 and all(
        len(name.encode()) < 127 and len(indexes) < 16 for name, indexes in partitions.items()
    )
    rows = [PartitionsSchema(name, list(indexes)) for name, indexes in partitions.items()]
    value = TransactionLogValue(7, -1, -1, epoch, -1, 60_000, 1, rows, THEN + 1, THEN, client_version)
    assert encoded == (encode_value(value, 1) if is_common else None)


@given(st.text())
def test_keys_have_the_bytes_of_the_general_writer(transactional_id: str) -> None:
    key = TransactionLogKey(transactional_id)
    assert encode_key(key) == version_prefix.encode(0, key, 0)


def test_a_key_that_is_too_long_is_refused() -> None:
    with pytest.raises(struct.error):
        encode_key(TransactionLogKey("k" * 0x8000))


@given(data=st.data(), version=st.sampled_from([0, 1]))
def test_written_records_are_read_back(data: st.DataObject, version: int) -> None:
    value = data.draw(messages(TransactionLogValue, version))
    assert isinstance(value, TransactionLogValue)
    key = data.draw(messages(TransactionLogKey, 0))
    assert isinstance(key, TransactionLogKey)
    assert decode(encode_key(key), encode_value(value, version)) == (key, value)


def test_a_null_value_is_a_tombstone() -> None:
    assert decode(encode_key(KEY), None) == (KEY, None)


def test_a_key_of_an_unknown_version_is_named_and_not_decoded() -> None:
    assert decode(b"\0\1?", b"?") == UnknownVersion(1)


def test_states_have_kafkas_names() -> None:
    assert [state_name(status) for status in (0, 1, 5, 7, 8, -1)] == [
        "Empty",
        "Ongoing",
        "CompleteAbort",
        "PrepareEpochFence",
        "state 8",
        "state -1",
    ]


@pytest.mark.parametrize(
    "key, value, sentence",
    [
        ("", None, "the key of a transaction's record has 0 bytes; it begins with an int16"),
        ("0000000370617900", None, "1 bytes follow a TransactionLogKey"),
        ("00000003706179", "00", "the value of a transaction's record has 1 bytes"),
        ("00000003706179", "0002", "a TransactionLogValue has version 2; 0-1 are known here"),
        ("00000003706179", ONGOING_BYTES + "00", "1 bytes follow a TransactionLogValue"),
        ("00000003706179", ONGOING_BYTES[:-2], "TransactionLogValue v0"),
    ],
)
def test_invalid_bytes_are_refused(key: str, value: str | None, sentence: str) -> None:
    with pytest.raises(MalformedRequest) as caught:
        decode(bytes.fromhex(key), None if value is None else bytes.fromhex(value))
    assert sentence in str(caught.value)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        decode_value(data)
    except MalformedRequest:
        return


@pytest.mark.sockets
def test_fields_are_those_of_kafkas_definitions() -> None:
    texts = in_jar("broker/kafka-transaction-coordinator-[0-9]*.jar")
    assert set(texts) == {"TransactionLogKey", "TransactionLogValue"}
    for cls in (TransactionLogKey, TransactionLogValue):
        assert_defined(cls, parsed(texts[cls.__name__]))


@pytest.mark.slow
@pytest.mark.sockets
def test_kafkas_tool_reads_what_we_write(tmp_path: Path) -> None:
    """A transaction under way, one that ended, one with ids before and after a bump, one with all fields, none."""
    values = [(ONGOING, 0), (EMPTY, 0), (BUMPED, 1), (full(TransactionLogValue, 1), 1), (None, 0)]
    records = [(encode_key(KEY), value and encode_value(value, version)) for value, version in values]
    rows = dumped(tmp_path, "--transaction-log-decoder", records, THEN)
    assert [key for key, _ in rows] == [{"type": "0", "data": {"transactionalId": "pay"}}] * len(values)
    for (value, version), (_, shown) in zip(values, rows, strict=True):
        if value is None:
            assert shown is None
            continue
        assert shown["version"] == str(version)
        data = shown["data"]
        assert isinstance(value, TransactionLogValue)
        assert (data["producerId"], data["producerEpoch"]) == (value.producer_id, value.producer_epoch)
        assert data["transactionStatus"] == value.transaction_status
        assert data["transactionPartitions"] == (
            None
            if value.transaction_partitions is None
            else [{"topic": one.topic, "partitionIds": one.partition_ids} for one in value.transaction_partitions]
        )
        assert data.get("previousProducerId", -1) == value.previous_producer_id
        assert data.get("nextProducerId", -1) == value.next_producer_id
        assert data.get("nextProducerEpoch", -1) == value.next_producer_epoch
        assert data.get("clientTransactionVersion", 0) == value.client_transaction_version
