"""Bytes of every message and version against the classes that Apache Kafka generates: of 4.4 and 3.9, both ways.

A value of ours is written, by the compiled writer, and given to Kafka's class as JSON; the bytes are the same. What the
class reads from ours is the same value, and is written by it as the same bytes again, unknown tagged fields included.
Damaged bytes that both read are the same value to both. What a request answers where all of it failed is what Kafka's
answers.
"""

from __future__ import annotations

import base64
import contextlib
import random
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from headgate.protocol import compiler
from headgate.protocol.errors import ErrorCode, MalformedRequest
from headgate.protocol.header import RequestHeader, read_request_header, write_request_header, write_response_header
from headgate.protocol.internal import metadata, offsets
from headgate.protocol.internal.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from headgate.protocol.messages.find_coordinator import FindCoordinatorRequest
from headgate.protocol.messages.update_metadata import UpdateMetadataRequest
from headgate.protocol.registry import APIS, header_versions
from headgate.protocol.schema import Message, Struct
from headgate.protocol.tests.chosen import chosen
from headgate.protocol.tests.declared import request_class, response_class
from headgate.protocol.tests.definitions import having, in_jar, parsed
from headgate.protocol.tests.generated import BROKER, CLIENT, GeneratedClasses, in_base64, in_json, without_unknown_tags
from headgate.protocol.tests.values import LAYOUTS, VERSIONS, full, written
from headgate.protocol.wire import MAX_TEXT_SIZE

pytestmark = pytest.mark.sockets

VALUES = max(10, settings().max_examples // 20)
"""For each version of a message, dealt out in turn to the Kafkas that have it; many times as many in a soak run."""

AT_ONCE = 100
CONSUMER_PROTOCOL = (ConsumerProtocolAssignment, ConsumerProtocolSubscription)
EMBEDDED = [(cls, version) for cls in CONSUMER_PROTOCOL for version in range(4)]
MESSAGES = [*VERSIONS, *EMBEDDED]

CONTROLLED_SHUTDOWN, FETCH = 7, 1


@pytest.fixture(scope="module")
def classes() -> Iterator[dict[int, GeneratedClasses]]:
    """By generation: all of them start at once."""
    with contextlib.ExitStack() as stack:
        yield {generation: stack.enter_context(GeneratedClasses(*jars)) for generation, jars in CLIENT.items()}


@pytest.mark.parametrize("cls, version", MESSAGES, ids=[f"{cls.__name__}-v{version}" for cls, version in MESSAGES])
def test_kafkas_classes_read_and_write_the_same_bytes(
    cls: type[Message], version: int, classes: dict[int, GeneratedClasses]
) -> None:
    values = list(chosen(cls, version, VALUES))
    kafkas = list(having(cls.__name__, version))
    for place, (generation, defined) in enumerate(kafkas):
        dealt = values[place :: len(kafkas)]
        for start in range(0, len(dealt), AT_ONCE):
            compare(classes[generation], dealt[start : start + AT_ONCE], version, defined["fields"])


def compare(java: GeneratedClasses, values: list[Any], version: int, fields: list[dict[str, Any]]) -> None:
    cls: type[Message] = type(values[0])
    plain = [without_unknown_tags(value) for value in values]
    encoded = [written(value, version) for value in values]
    cases = [
        {"value": in_json(bare, fields, version, is_answer=False), "bytes": in_base64(data)}
        for bare, data in zip(plain, encoded, strict=True)
    ]
    headers, answers = java.ask(cls.__name__, version, cases)
    is_api = not cls.__module__.startswith("headgate.protocol.internal.")
    assert headers == ([*header_versions(cls.api_key, version)] if is_api else [])
    for value, bare, data, answer in zip(values, plain, encoded, answers, strict=True):
        assert "error" not in answer, (value, answer)
        theirs = base64.b64decode(answer["written"])
        assert theirs == written(bare, version), value
        assert compiler.read(cls, version, theirs) == (bare, len(theirs))
        assert base64.b64decode(answer["again"]) == data, value
        assert answer["read"] == in_json(value, fields, version, is_answer=True), value


KEYS_AND_VALUES = {cls for pair in offsets.RECORDS.values() for cls in pair}
RECORDS = sorted(KEYS_AND_VALUES | {*metadata.RECORDS.values()}, key=lambda cls: cls.__name__)


@pytest.fixture(scope="module")
def broker_classes() -> Iterator[GeneratedClasses]:
    with GeneratedClasses(*BROKER) as java:
        yield java


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: str(cls.__name__))
def test_kafkas_classes_read_and_write_the_same_bytes_of_records(
    cls: type[Message], broker_classes: GeneratedClasses
) -> None:
    """Of __consumer_offsets and of the metadata log."""
    jar = "broker/kafka-group-coordinator-[0-9]*.jar" if cls in KEYS_AND_VALUES else "broker/kafka-metadata-*.jar"
    defined = parsed(in_jar(jar)[cls.__name__])
    for version in range(cls.versions.first, cls.versions.last + 1):
        compare(broker_classes, list(chosen(cls, version, VALUES)), version, defined["fields"])


# ------------------------------------------------------------------------------------------------------- bad bytes


@pytest.mark.parametrize("cls, version", LAYOUTS, ids=[f"{cls.__name__}-v{version}" for cls, version in LAYOUTS])
def test_kafka_reads_the_same_from_damaged_bytes(
    cls: type[Message], version: int, classes: dict[int, GeneratedClasses]
) -> None:
    """We refuse some that Kafka's classes read: negative lengths, text that is not UTF-8.

    They refuse some that we read: a tag that only another version has is an unknown one to us.
    """
    chance = random.Random(f"{cls.__name__} {version}")
    generation, defined = next(having(cls.__name__, version))
    read: list[tuple[bytes, dict[str, Any]]] = []
    for value in chosen(cls, version, VALUES):
        data = damaged(written(value, version), chance)
        with contextlib.suppress(MalformedRequest):
            found, position = compiler.read(cls, version, data)
            if position == len(data):
                read.append((data, in_json(found, defined["fields"], version, is_answer=True)))
    _, answers = classes[generation].ask(cls.__name__, version, [{"bytes": in_base64(data)} for data, _ in read])
    for (_, ours), answer in zip(read, answers, strict=True):
        if "is not valid for version" not in answer.get("error", ""):
            assert repr(answer.get("read")) == repr(ours), answer  # as NaN is not equal to itself


def damaged(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2)) if changed else 0):
        changed[chance.randrange(len(changed))] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    return bytes(changed)


@pytest.mark.parametrize("size, is_read", [(MAX_TEXT_SIZE, True), (MAX_TEXT_SIZE + 1, False)])
@pytest.mark.parametrize("version", [3, 4])  # a text, and an array of texts
def test_kafka_has_the_same_limit_of_a_text(
    version: int, size: int, is_read: bool, classes: dict[int, GeneratedClasses]
) -> None:
    asked = FindCoordinatorRequest(key="k" * size, coordinator_keys=["k" * size])
    data = written(asked, version)
    _, (answer,) = classes[4].ask("FindCoordinatorRequest", version, [{"bytes": in_base64(data)}])
    assert ("error" not in answer) == is_read
    with contextlib.nullcontext() if is_read else pytest.raises(MalformedRequest, match=f"length {size}"):
        compiler.read(FindCoordinatorRequest, version, data)


# ---------------------------------------------------------------------------------------------------------- headers


@pytest.mark.parametrize("client_id", [None, "", "a client", "é" * 200])
@pytest.mark.parametrize("key, version", [(CONTROLLED_SHUTDOWN, 0), (FETCH, 11), (FETCH, 12)])
def test_request_headers_equal_kafkas(
    key: int, version: int, client_id: str | None, classes: dict[int, GeneratedClasses]
) -> None:
    header = RequestHeader(key, version, -5, client_id)
    out = bytearray()
    write_request_header(out, header)
    header_version, _ = header_versions(key, version)
    value = {"requestApiKey": key, "requestApiVersion": version, "correlationId": -5, "clientId": client_id}
    if header_version == 0:
        del value["clientId"]
    same_header(classes, "RequestHeader", header_version, value, out)


def test_kafka_reads_the_same_client_id_from_invalid_utf_8(classes: dict[int, GeneratedClasses]) -> None:
    data = struct.pack(">hhih", FETCH, 11, 1, 12) + b"B\xfcro \xe2\x82 \xc3\x28\xff!"
    _, (answer,) = classes[4].ask("RequestHeader", 1, [{"bytes": in_base64(data)}])
    assert read_request_header(memoryview(data))[3] == answer["read"]["clientId"] == "B\ufffdro \ufffd \ufffd(\ufffd!"


@pytest.mark.parametrize("version", [11, 12])
def test_response_headers_equal_kafkas(version: int, classes: dict[int, GeneratedClasses]) -> None:
    out = bytearray()
    write_response_header(out, 7, FETCH, version)
    _, header_version = header_versions(FETCH, version)
    same_header(classes, "ResponseHeader", header_version, {"correlationId": 7}, out)


def same_header(
    classes: dict[int, GeneratedClasses], name: str, version: int, value: dict[str, Any], data: bytearray
) -> None:
    for generation, _ in having(name, version):
        case = {"value": value, "bytes": in_base64(data)}
        _, (answer,) = classes[generation].ask(name, version, [case])
        assert answer == {"written": in_base64(data), "read": value, "again": in_base64(data)}


# -------------------------------------------------------------------------------------------------- error responses

OTHERWISE = {
    "CreateDelegationToken": "Kafka names the principal that asked, which the bytes of a request do not say",
    "DescribeUserScramCredentials": "Kafka also has a row without a name for every user",
    "JoinGroup": "ours says which member it was, as the coordinator's own answers do",
    "ListPartitionReassignments": "Kafka repeats the partitions that were asked for, as if they were on their way",
}
"""Where our answer to a request that failed is another than Kafka's."""


def request_of(key: int, version: int) -> Any:
    value = full(request_class(key), version)
    if isinstance(value, UpdateMetadataRequest):  # Kafka makes names of listeners from these
        for endpoint in (endpoint for broker in value.live_brokers for endpoint in broker.endpoints):
            endpoint.security_protocol = 0
    return value


def told(value: Any) -> Any:
    """What a response tells, but for its sentences, for the order of rows, and for records that are empty, not null."""
    if isinstance(value, list):
        return sorted(map(told, value), key=repr)
    if isinstance(value, Struct):
        parts = {field.name: getattr(value, field.name) for field in type(value).fields}
        return [(name, told(part)) for name, part in parts.items() if name != "error_message"]
    return bytes(value) or None if isinstance(value, memoryview) else value


@pytest.mark.parametrize("key", APIS, ids=[api.name for api in APIS.values()])
def test_error_responses_equal_kafkas(key: int, classes: dict[int, GeneratedClasses]) -> None:
    cls, error = request_class(key), ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for version in range(cls.versions.first, cls.versions.last + 1):
        generation, _ = next(having(cls.__name__, version))
        value = request_of(key, version)
        case = {"refused": in_base64(written(value, version)), "code": int(error)}
        _, (answer,) = classes[generation].ask(cls.__name__, version, [case])
        theirs, _ = compiler.read(response_class(key), version, base64.b64decode(answer["written"]))
        ours, _ = compiler.read(response_class(key), version, written(value.error_response(version, error), version))
        assert (told(ours) == told(theirs)) == (APIS[key].name not in OTHERWISE), (version, ours, theirs)
