"""What consumers tell each other: the bytes of Kafka's own clients, of later ones, and bytes that nobody wrote."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.errors import MalformedRequest
from headgate.protocol.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    decode_topics,
    encode,
)
from headgate.protocol.tests.definitions import assert_defined, definition
from headgate.protocol.tests.values import messages

OWNED = [TopicPartition("orders", [0, 2])]
SUBSCRIPTION_V0 = "00000000000100066f72646572730000000109"
OWNED_BYTES = "0000000100066f7264657273000000020000000000000002"

# Written by org.apache.kafka.clients.consumer.internals.ConsumerProtocol 4.1
SUBSCRIPTIONS = [
    (0, ConsumerProtocolSubscription(["orders"], b"\x09"), SUBSCRIPTION_V0),
    (1, ConsumerProtocolSubscription(["orders"], b"\x09", OWNED), "0001" + SUBSCRIPTION_V0[4:] + OWNED_BYTES),
    (
        2,
        ConsumerProtocolSubscription(["orders"], b"\x09", OWNED, 7),
        "0002" + SUBSCRIPTION_V0[4:] + OWNED_BYTES + "00000007",
    ),
    (
        3,
        ConsumerProtocolSubscription(["orders"], b"\x09", OWNED, 7, "rack"),
        "0003" + SUBSCRIPTION_V0[4:] + OWNED_BYTES + "0000000700047261636b",
    ),
]
ASSIGNMENT = ConsumerProtocolAssignment(OWNED, b"\x09")
ASSIGNMENT_BYTES = OWNED_BYTES + "0000000109"

BOTH = pytest.mark.parametrize("cls", [ConsumerProtocolSubscription, ConsumerProtocolAssignment])


@pytest.mark.parametrize("version, subscription, kafkas", SUBSCRIPTIONS)
def test_a_subscription_has_the_bytes_of_kafkas_client(
    version: int, subscription: ConsumerProtocolSubscription, kafkas: str
) -> None:
    assert encode(subscription, version).hex() == kafkas
    assert decode_subscription(bytes.fromhex(kafkas)) == subscription


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_has_the_bytes_of_kafkas_client(version: int) -> None:
    assert encode(ASSIGNMENT, version).hex() == f"{version:04x}{ASSIGNMENT_BYTES}"
    assert decode_assignment(memoryview(bytes.fromhex(f"{version:04x}{ASSIGNMENT_BYTES}"))) == ASSIGNMENT


def test_no_user_data_is_null() -> None:
    assert encode(ConsumerProtocolSubscription(["orders"]), 0).hex() == "00000000000100066f7264657273ffffffff"


@BOTH
def test_fields_are_those_of_kafkas_definition(
    cls: type[ConsumerProtocolSubscription | ConsumerProtocolAssignment],
) -> None:
    defined = definition(cls.__name__)
    assert defined is not None
    assert_defined(cls, defined)


@pytest.mark.parametrize("version", [4, 9, 0x7FFF])
def test_a_later_version_is_read_as_the_newest_known_one(version: int) -> None:
    _, subscription, kafkas = SUBSCRIPTIONS[-1]
    assert decode_subscription(bytes.fromhex(f"{version:04x}{kafkas[4:]}0123")) == subscription
    assert decode_assignment(bytes.fromhex(f"{version:04x}{ASSIGNMENT_BYTES}0123")) == ASSIGNMENT


def test_bytes_after_the_known_fields_are_ignored() -> None:
    """Clients append bytes of their own, and fields of later versions come last."""
    for _, subscription, kafkas in SUBSCRIPTIONS:
        assert decode_subscription(bytes.fromhex(kafkas + "0123")) == subscription
    assert decode_assignment(bytes.fromhex(f"0000{ASSIGNMENT_BYTES}0123")) == ASSIGNMENT


@pytest.mark.parametrize("version", [1, 2, 3, 4, 0x7FFF])
@pytest.mark.parametrize("until, subscription, kafkas", SUBSCRIPTIONS[:-1])
def test_missing_fields_of_later_versions_are_at_their_defaults(
    version: int, until: int, subscription: ConsumerProtocolSubscription, kafkas: str
) -> None:
    """As kafkajs 1 writes them: version 1 with the fields of version 0."""
    if version > until:
        assert decode_subscription(bytes.fromhex(f"{version:04x}{kafkas[4:]}")) == subscription


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_field_that_is_cut_is_not_missing(version: int) -> None:
    whole = bytes.fromhex(SUBSCRIPTIONS[version][2])
    ends = {len(bytes.fromhex(kafkas)) for _, _, kafkas in SUBSCRIPTIONS[:version]}
    for end in range(2, len(whole)):
        if end not in ends:
            with pytest.raises(MalformedRequest):
                decode_subscription(whole[:end])


@pytest.mark.parametrize("version", [-0x8000, -1, 0, 1, 2, 3, 4, 0x7FFF])
@pytest.mark.parametrize("rest", ["", "00", "7fffffff", OWNED_BYTES])
def test_topics_are_read_whatever_comes_behind(version: int, rest: str) -> None:
    prefix = version.to_bytes(2, "big", signed=True)
    assert decode_topics(prefix + bytes.fromhex(SUBSCRIPTION_V0[4:] + rest)) == ["orders"]


@pytest.mark.parametrize("size", range(len(SUBSCRIPTION_V0) // 2))
def test_topics_need_the_fields_of_version_0(size: int) -> None:
    with pytest.raises(MalformedRequest):
        decode_topics(bytes.fromhex(SUBSCRIPTION_V0)[:size])


@BOTH
@pytest.mark.parametrize("version", range(4))
@given(data=st.data())
@settings(max_examples=settings().max_examples // 5)
def test_written_messages_are_read_back(
    cls: type[ConsumerProtocolSubscription | ConsumerProtocolAssignment], version: int, data: st.DataObject
) -> None:
    message = data.draw(messages(cls, version))
    decode = decode_subscription if cls is ConsumerProtocolSubscription else decode_assignment
    assert decode(encode(message, version)) == message


@pytest.mark.parametrize(
    "data, sentence",
    [
        ("", "has 0 bytes; it begins with an int16"),
        ("00", "has 1 bytes"),
        ("ffff" + ASSIGNMENT_BYTES, "has version -1"),
        ("0000", "v0, at byte 2"),
        ("00007fffffff", "cannot have length 2147483647"),
    ],
)
def test_invalid_bytes_are_refused(data: str, sentence: str) -> None:
    for decode in (decode_subscription, decode_assignment):
        with pytest.raises(MalformedRequest) as caught:
            decode(bytes.fromhex(data))
        assert sentence in str(caught.value)


@given(version=st.integers(-1, 5), data=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(version: int, data: bytes) -> None:
    bytes_read = version.to_bytes(2, "big", signed=True) + data
    for decode in (decode_subscription, decode_assignment):
        try:
            message = decode(bytes_read)
        except MalformedRequest:
            continue
        assert version >= 0
        written = encode(message, min(version, 3))[2:]
        assert data.startswith(written) or written.startswith(data), "the end is missing, and is the defaults"
