"""Records of `__consumer_offsets`: the bytes of Apache Kafka 4.1, its definitions, and its own tool reading ours."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol import compiler
from headgate.protocol.errors import MalformedRequest
from headgate.protocol.internal.offsets import (
    UNREVOKED_PARTITIONS,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    PartitionMetadata,
    TopicMetadata,
    TopicPartitions,
    UnknownType,
    check_offset,
    decode,
    decode_offset,
    encode_key,
    encode_value,
)
from headgate.protocol.internal.tests.kafka_dump import dumped
from headgate.protocol.reading import MAX_ELEMENTS_AT_ONCE
from headgate.protocol.schema import Message, Struct, fields_in, tree
from headgate.protocol.tests.definitions import assert_defined, in_jar, parsed
from headgate.protocol.tests.values import full, messages
from headgate.protocol.wire import ZERO_UUID

# More in a soak run, which asks for more of everything
few = settings(max_examples=settings().max_examples // 5)

TOPIC_ID = bytes(range(1, 17))
THEN = 1_700_000_000_000
OFFSET_KEY = OffsetCommitKey("group", "orders", 3)
OFFSET_KEY_BYTES = "0001000567726f757000066f726465727300000003"
MEMBER = MemberMetadata("one", "instance", "client", "/127.0.0.1", 300_000, 45_000, b"\0\1", b"\2\3")
EMPTY_GROUP = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=THEN)


def a_group(**changes: Any) -> GroupMetadataValue:
    fields = {"generation": 7, "protocol": "range", "leader": "one", "current_state_timestamp": THEN}
    return GroupMetadataValue(protocol_type="consumer", **{"members": [MEMBER], **fields, **changes})


def an_old_member(rebalance_timeout: int = -1) -> MemberMetadata:
    return MemberMetadata("one", None, "client", "/127.0.0.1", rebalance_timeout, 45_000, b"\0\1", b"\2\3")


# What Kafka writes today, as its GroupCoordinatorRecordHelpers and GroupCoordinatorRecordSerde made it
KAFKAS: dict[str, tuple[Message, Message | None, str, str | None]] = {
    "offset": (
        OFFSET_KEY,
        OffsetCommitValue(offset=42, leader_epoch=5, metadata="note", commit_timestamp=THEN, topic_id=TOPIC_ID),
        OFFSET_KEY_BYTES,
        "0004000000000000002a00000005056e6f74650000018bcfe568000100100102030405060708090a0b0c0d0e0f10",
    ),
    "offset without epoch and topic id": (
        OFFSET_KEY,
        OffsetCommitValue(offset=42, commit_timestamp=THEN),
        OFFSET_KEY_BYTES,
        "0004000000000000002affffffff010000018bcfe5680000",
    ),
    "offset that expires": (
        OFFSET_KEY,
        OffsetCommitValue(offset=42, metadata="note", commit_timestamp=THEN, expire_timestamp=THEN + 600_000),
        OFFSET_KEY_BYTES,
        "0001000000000000002a00046e6f74650000018bcfe568000000018bcfee8fc0",
    ),
    "no offset": (OFFSET_KEY, None, OFFSET_KEY_BYTES, None),
    "group": (
        GroupMetadataKey("group"),
        a_group(),
        "0002000567726f7570",
        (
            "00030008636f6e73756d657200000007000572616e676500036f6e650000018bcfe568000000000100036f6e650008696e7374616e6365"
            "0006636c69656e74000a2f3132372e302e302e31000493e00000afc8000000020001000000020203"
        ),
    ),
    "group without members": (
        GroupMetadataKey("group"),
        EMPTY_GROUP,
        "0002000567726f7570",
        "0003000000000000ffffffff0000018bcfe5680000000000",
    ),
    "consumer group": (
        ConsumerGroupMetadataKey("group"),
        ConsumerGroupMetadataValue(7, 99),
        "0003000567726f7570",
        "0000000000070100080000000000000063",
    ),
    "topics of a consumer group": (
        ConsumerGroupPartitionMetadataKey("group"),
        ConsumerGroupPartitionMetadataValue([TopicMetadata(TOPIC_ID, "orders", 2, [PartitionMetadata(1, ["a", "b"])])]),
        "0004000567726f7570",
        "0000020102030405060708090a0b0c0d0e0f10076f72646572730000000202000000010302610262000000",
    ),
    "member": (
        ConsumerGroupMemberMetadataKey("group", "one"),
        ConsumerGroupMemberMetadataValue(
            "instance", None, "client", "/127.0.0.1", ["orders"], "or.*", 300_000, None, None
        ),
        "0005000567726f757000036f6e65",
        "000009696e7374616e63650007636c69656e740b2f3132372e302e302e3102076f7264657273056f722e2a000493e00001000100",
    ),
    "member that speaks the classic protocol": (
        ConsumerGroupMemberMetadataKey("group", "one"),
        ConsumerGroupMemberMetadataValue(
            None,
            "rack",
            "client",
            "/127.0.0.1",
            ["orders"],
            "",
            300_000,
            "uniform",
            ClassicMemberMetadata(45_000, [ClassicProtocol("range", b"\0\1")]),
        ),
        "0005000567726f757000036f6e65",
        (
            "000000057261636b07636c69656e740b2f3132372e302e302e3102076f726465727301000493e008756e69666f726d"
            "010011010000afc8020672616e67650300010000"
        ),
    ),
    "target": (
        ConsumerGroupTargetAssignmentMetadataKey("group"),
        ConsumerGroupTargetAssignmentMetadataValue(7),
        "0006000567726f7570",
        "00000000000700",
    ),
    "target of a member": (
        ConsumerGroupTargetAssignmentMemberKey("group", "one"),
        ConsumerGroupTargetAssignmentMemberValue([TopicPartitions(TOPIC_ID, [0, 2])]),
        "0007000567726f757000036f6e65",
        "0000020102030405060708090a0b0c0d0e0f100300000000000000020000",
    ),
    "current assignment": (
        ConsumerGroupCurrentMemberAssignmentKey("group", "one"),
        ConsumerGroupCurrentMemberAssignmentValue(
            7, 6, UNREVOKED_PARTITIONS, [TopicPartitions(TOPIC_ID, [0])], [TopicPartitions(TOPIC_ID, [2])]
        ),
        "0008000567726f757000036f6e65",
        (
            "0000000000070000000601020102030405060708090a0b0c0d0e0f10020000000000020102030405060708090a0b0c0d0e0f10"
            "02000000020000"
        ),
    ),
    "regular expression": (
        ConsumerGroupRegularExpressionKey("group", "or.*"),
        ConsumerGroupRegularExpressionValue(["orders"], 12, THEN),
        "0010000567726f757000046f722e2a",
        "000002076f7264657273000000000000000c0000018bcfe5680000",
    ),
}

# What older Kafkas wrote
OLD: dict[str, tuple[Message, Message, str, str]] = {
    "offset of type 0": (
        OFFSET_KEY,
        OffsetCommitValue(offset=42, metadata="note", commit_timestamp=THEN),
        "0000000567726f757000066f726465727300000003",
        "0000000000000000002a00046e6f74650000018bcfe56800",
    ),
    "offset v0": (
        OFFSET_KEY,
        OffsetCommitValue(offset=42, metadata="note", commit_timestamp=THEN),
        OFFSET_KEY_BYTES,
        "0000000000000000002a00046e6f74650000018bcfe56800",
    ),
    "offset v2": (
        OFFSET_KEY,
        OffsetCommitValue(offset=42, metadata="note", commit_timestamp=THEN),
        OFFSET_KEY_BYTES,
        "0002000000000000002a00046e6f74650000018bcfe56800",
    ),
    "offset v3": (
        OFFSET_KEY,
        OffsetCommitValue(offset=42, leader_epoch=5, metadata="note", commit_timestamp=THEN),
        OFFSET_KEY_BYTES,
        "0003000000000000002a0000000500046e6f74650000018bcfe56800",
    ),
    "group v0": (
        GroupMetadataKey("group"),
        a_group(current_state_timestamp=-1, members=[an_old_member()]),
        "0002000567726f7570",
        (
            "00000008636f6e73756d657200000007000572616e676500036f6e650000000100036f6e650006636c69656e74000a2f3132372e302e302e"
            "310000afc8000000020001000000020203"
        ),
    ),
    "group v1": (
        GroupMetadataKey("group"),
        a_group(current_state_timestamp=-1, members=[an_old_member(300_000)]),
        "0002000567726f7570",
        (
            "00010008636f6e73756d657200000007000572616e676500036f6e650000000100036f6e650006636c69656e74000a2f3132372e302e302e"
            "31000493e00000afc8000000020001000000020203"
        ),
    ),
    "group v2": (
        GroupMetadataKey("group"),
        a_group(members=[an_old_member(300_000)]),
        "0002000567726f7570",
        (
            "00020008636f6e73756d657200000007000572616e676500036f6e650000018bcfe568000000000100036f6e650006636c69656e74000a2f"
            "3132372e302e302e31000493e00000afc8000000020001000000020203"
        ),
    ),
    "group v4": (
        GroupMetadataKey("group"),
        a_group(),
        "0002000567726f7570",
        (
            "000409636f6e73756d6572000000070672616e6765046f6e650000018bcfe5680002046f6e6509696e7374616e636507636c69656e740b2f"
            "3132372e302e302e31000493e00000afc80300010302030000"
        ),
    ),
}

PAIRS: list[tuple[type[Message], type[Message]]] = list(
    {type(key): (type(key), type(value)) for key, value, *_ in KAFKAS.values() if value is not None}.values()
)
VALUES = [(key, value, version) for key, value in PAIRS for version in range(value.versions.last + 1)]
VALUE_IDS = [f"{value.__name__}-v{version}" for _, value, version in VALUES]


def written(message: Message, version: int, prefix: int) -> bytes:
    out = bytearray(prefix.to_bytes(2, "big"))
    compiler.write(message, version, out, [])
    return bytes(out)


def encoded(value: Message | None) -> bytes | None:
    return None if value is None else encode_value(value)


@pytest.mark.parametrize("name", KAFKAS)
def test_records_have_kafkas_bytes(name: str) -> None:
    key, value, key_bytes, value_bytes = KAFKAS[name]
    assert encode_key(key).hex() == key_bytes
    expected = None if value_bytes is None else bytes.fromhex(value_bytes)
    assert encoded(value) == expected
    assert decode(bytes.fromhex(key_bytes), expected) == (key, value)


@pytest.mark.parametrize("name", OLD)
def test_records_of_older_kafka_versions_are_read(name: str) -> None:
    key, value, key_bytes, value_bytes = OLD[name]
    assert decode(bytes.fromhex(key_bytes), bytes.fromhex(value_bytes)) == (key, value)


@pytest.mark.parametrize("key_class, value_class, version", VALUES, ids=VALUE_IDS)
@given(data=st.data())
@few
def test_every_version_is_read(
    key_class: type[Message], value_class: type[Message], version: int, data: st.DataObject
) -> None:
    key, value = data.draw(messages(key_class, 0)), data.draw(messages(value_class, version))
    encoded = written(value, version, version)
    assert decode(encode_key(key), memoryview(encoded)) == (key, value)
    assert tree(value_class, version).build(value) == encoded[2:]
    assert tree(value_class, version).parse(encoded[2:]) == value


@pytest.mark.parametrize("key_class, value_class", PAIRS)
@given(data=st.data())
@few
def test_written_records_are_read_back(
    key_class: type[Message], value_class: type[Message], data: st.DataObject
) -> None:
    """An offset has either an expiry of its own or what came later: epoch and topic id."""
    version = 3 if value_class is GroupMetadataValue else value_class.versions.last
    key, value = data.draw(messages(key_class, 0)), data.draw(messages(value_class, version))
    assert decode(encode_key(key), encode_value(value)) == (key, value)
    assert encode_value(value)[:2] == version.to_bytes(2, "big")


INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
COMMITTED = st.builds(
    OffsetCommitValue,
    offset=INT64,
    leader_epoch=st.integers(-1, (1 << 31) - 1),
    metadata=st.just("") | st.text(max_size=200),
    commit_timestamp=INT64,
    topic_id=st.just(ZERO_UUID) | st.binary(min_size=16, max_size=16),
)


@given(value=COMMITTED, tags=st.none() | st.just({3: b"x"}))
@few
def test_the_fast_path_writes_the_same_bytes(value: OffsetCommitValue, tags: dict[int, bytes] | None) -> None:
    value.unknown_tags = tags
    assert encode_value(value) == written(value, 4, 4)
    assert decode_offset(encode_value(value)) == value


@given(value=COMMITTED, damage=st.sampled_from(["longer", "shorter", "other"]), place=st.integers(0, 41))
@few
def test_the_fast_path_reads_the_same_values(value: OffsetCommitValue, damage: str, place: int) -> None:
    data = bytearray(encode_value(value))
    if damage == "longer":
        data.append(0)
    elif damage == "shorter":
        del data[-1]
    elif place < len(data):
        data[place] ^= 1
    try:
        _, expected = decode(encode_key(OffsetCommitKey("g", "t", 0)), bytes(data))  # type: ignore[misc]
    except MalformedRequest:
        for read in (decode_offset, check_offset):
            with pytest.raises(MalformedRequest):
                read(bytes(data))
    else:
        assert decode_offset(bytes(data)) == expected
        check_offset(bytes(data))


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("metadata", ["", "note"])
def test_offsets_of_older_brokers_are_read(version: int, metadata: str) -> None:
    value = OffsetCommitValue(5, 2 if version >= 3 else -1, metadata, 1_000, 2_000 if version == 1 else -1)
    assert decode_offset(written(value, version, version)) == value


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("kind", [-1, 9, 11, 15, 17, 23, 24, 0x7FFF])
def test_unknown_types_are_named_and_not_decoded(kind: int) -> None:
    """Those of share and streams groups too: neither their keys nor their values are looked at."""
    key = kind.to_bytes(2, "big", signed=True)
    assert decode(key + b"?", b"?") == decode(key, None) == UnknownType(kind)


@pytest.mark.parametrize(
    "key, value, sentence",
    [
        ("", None, "the key of a record of a group has 0 bytes; it begins with an int16"),
        ("00", None, "the key of a record of a group has 1 bytes"),
        ("0002000567726f7570", "00", "the value of a record of a group has 1 bytes"),
        ("0002000567726f7570", "0005", "a GroupMetadataValue has version 5; 0-4 are known here"),
        ("0002000567726f7570", "ffff", "a GroupMetadataValue has version -1"),
        ("0002000567726f757000", None, "1 bytes follow a GroupMetadataKey"),
        ("0006000567726f7570", "000000000007000000", "2 bytes follow a ConsumerGroupTargetAssignmentMetadataValue"),
        ("0002000667726f7570", None, "GroupMetadataKey v0, at byte 4"),
        ("0002000567726f7570", "000000", "GroupMetadataValue v0, at byte 2"),
    ],
)
def test_invalid_bytes_are_refused(key: str, value: str | None, sentence: str) -> None:
    with pytest.raises(MalformedRequest) as caught:
        decode(bytes.fromhex(key), None if value is None else bytes.fromhex(value))
    assert sentence in str(caught.value)


@given(key=st.binary(max_size=40), value=st.none() | st.binary(max_size=60), kind=st.none() | st.integers(0, 16))
def test_any_bytes_are_read_or_refused(key: bytes, value: bytes | None, kind: int | None) -> None:
    if kind is not None:
        key = kind.to_bytes(2, "big") + key
    try:
        decoded = decode(key, value)
    except MalformedRequest:
        return
    if not isinstance(decoded, UnknownType):
        assert encode_key(decoded[0])[2:] == key[2:]


@pytest.mark.parametrize("name", [*KAFKAS, *OLD])
@given(place=st.integers(0, 200), byte=st.integers(0, 255), cut=st.integers(0, 200))
@few
def test_damaged_bytes_are_refused_or_read(name: str, place: int, byte: int, cut: int) -> None:
    _, _, key_bytes, value_bytes = {**KAFKAS, **OLD}[name]
    key, value = bytes.fromhex(key_bytes), bytearray.fromhex(value_bytes or "0000")
    value[place % len(value)] = byte
    try:
        decoded = decode(key, bytes(value[: len(value) - cut % len(value)]))
    except MalformedRequest:
        return
    assert not isinstance(decoded, UnknownType)


def test_a_record_has_no_limit_of_elements() -> None:
    """The limit for what a request may hold is not one for records."""
    value = ConsumerGroupRegularExpressionValue([f"t{number}" for number in range(MAX_ELEMENTS_AT_ONCE + 1)])
    key = ConsumerGroupRegularExpressionKey("group", ".*")
    assert decode(encode_key(key), encode_value(value)) == (key, value)


# --------------------------------------------------------------------------------------------------------- Kafka's jars


@pytest.mark.sockets
def test_fields_are_those_of_kafkas_definitions() -> None:
    """All of Kafka's definitions but those of the kinds of groups that are not built are compared."""
    texts = in_jar("broker/kafka-group-coordinator-[0-9]*.jar")
    # One struct of ours has two names there
    defined = {
        name: parsed(text.replace('"[]TopicPartition"', '"[]TopicPartitions"'))
        for name, text in texts.items()
        if not name.startswith(("Share", "Streams"))
    }
    for cls in [cls for pair in PAIRS for cls in pair]:
        kafkas = defined.pop(cls.__name__)
        assert cls.api_key == kafkas["apiKey"]
        assert_defined(cls, kafkas)
    assert set(defined) == {"LegacyOffsetCommitKey", "LegacyOffsetCommitValue"}


@pytest.mark.slow
@pytest.mark.sockets
def test_kafkas_tool_reads_what_we_write(tmp_path: Path) -> None:
    """Every record, and one with something in every field of each value, as kafka-dump-log shows them."""
    records: list[tuple[Message, Message | None]] = [(key, value) for key, value, *_ in KAFKAS.values()]
    for key_class, value_class in PAIRS:
        version = 3 if value_class is GroupMetadataValue else value_class.versions.last
        records.append((full(key_class, 0), full(value_class, version)))
    encoded_records = [(encode_key(key), encoded(value)) for key, value in records]
    read = dumped(tmp_path, "--offsets-decoder", encoded_records, THEN)
    assert read == [shown(key, value) for key, value in records]


def shown(key: Message, value: Message | None) -> tuple[Any, Any]:
    """A record as Kafka's tool shows it; its strings are JSON's."""
    shown_key = {"type": str(key.api_key), "data": as_json(key, 0, [])}
    if value is None:
        return shown_key, None
    version = int.from_bytes(encode_value(value)[:2], "big")
    return shown_key, {"version": str(version), "data": as_json(value, version, [])}


def as_json(value: Any, version: int, path: list[str]) -> Any:
    if isinstance(value, Struct):
        present = {field.name: getattr(value, field.name) for field in fields_in(type(value), version)}
        for name, default in (("topic_id", bytes(16)), ("metadata_hash", 0)):
            if isinstance(value, OffsetCommitValue | ConsumerGroupMetadataValue) and present.get(name) == default:
                del present[name]  # a tagged field that has its default is not shown
        return {camel_case(name): as_json(held, version, [*path, name]) for name, held in present.items()}
    if isinstance(value, list):
        return [as_json(held, version, path) for held in value]
    if isinstance(value, bytes):
        if path[-1] == "topic_id":
            return base64.urlsafe_b64encode(value).decode().rstrip("=")
        return base64.b64encode(value).decode()
    return value


def camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
