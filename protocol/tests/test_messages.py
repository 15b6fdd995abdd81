"""The declared messages against three independent implementations, and the error response of every request.

kio has the versions that Kafka 4 has, as generated classes; kafka-python has Kafka's own definitions of them, and
classes written by hand for the versions that Kafka 4 dropped. `make unit` has all of them; what Kafka's jars say
is in test_definitions.py and test_generated_classes.py.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import importlib
import inspect
import io
import pkgutil
import re
import warnings
from typing import Any
from uuid import UUID

import pytest

import headgate.protocol.messages
from headgate.protocol import compiler
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from headgate.protocol.registry import APIS, header_versions
from headgate.protocol.schema import Message, Struct, Versions, fields_in
from headgate.protocol.tests.declared import UNSERVED, request_class, response_class
from headgate.protocol.tests.definitions import assert_declared, definition, snake_case
from headgate.protocol.tests.values import VERSIONS, about, each_message, full, written

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of importlib.resources, in kafka-python
    import kafka.protocol.old
    from kio.index import load_request_schema, load_response_schema
    from kio.schema.index import schema_name_map
    from kio.serial import entity_reader, entity_writer

# ------------------------------------------------------------------------------------------ Kafka's own definitions

RENAMED_SINCE = {"TxnOffsetCommitRequest"}
"""A field has another name in Kafka 4.4 than in kafka-python's definitions."""

DEFINED = [
    (cls, version)
    for cls, version in VERSIONS
    if cls.__name__ not in RENAMED_SINCE
    if (defined := definition(cls.__name__)) and version in Versions.parse(defined["validVersions"])
]


@each_message(DEFINED)
def test_fields_are_as_in_kafkas_definition(cls: type[Message], versions: list[int]) -> None:
    defined = definition(cls.__name__)
    assert defined is not None
    assert defined["apiKey"] == cls.api_key
    for version in versions:
        with about(version):
            flexible = version in Versions.parse(defined["flexibleVersions"])
            assert flexible == (version in cls.flexible)
            assert_declared(cls, defined["fields"], version, flexible)


# ------------------------------------------------------------------------------------------------------------- bytes


def leaves(value: Any, version: int = -1) -> list[Any]:
    """Everything that a version of a message carries, in order, in plain Python."""
    if isinstance(value, Struct):
        fields = [getattr(value, field.name) for field in fields_in(type(value), version)]
    elif dataclasses.is_dataclass(value):
        fields = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif isinstance(value, list | tuple):
        fields = list(value)
    else:
        return [plain(value)]
    return [leaf for field in fields for leaf in leaves(field, version)]


def plain(value: Any) -> Any:
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(milliseconds=1)
    if isinstance(value, dt.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, UUID):
        return value.bytes
    return getattr(value, "value", value)


def is_in_kio(cls: type[Message], version: int) -> bool:
    return version in schema_name_map.get(re.sub(r"_(request|response)$", "", snake_case(cls.__name__)), {})


@each_message((cls, version) for cls, version in VERSIONS if is_in_kio(cls, version))
def test_kio_reads_and_writes_the_same_bytes(cls: type[Message], versions: list[int]) -> None:
    for version in versions:
        with about(version):
            kio_agrees(cls, version)


def kio_agrees(cls: type[Message], version: int) -> None:
    load = load_response_schema if cls.is_response else load_request_schema
    theirs = load(cls.api_key, version)
    value = full(cls, version)
    encoded = written(value, version)
    entity, size = entity_reader(theirs)(encoded, 0)
    assert size == len(encoded)
    assert leaves(entity) == leaves(value, version)
    again = io.BytesIO()
    entity_writer(theirs)(again, entity)
    assert again.getvalue() == encoded


OLD = {
    name: found
    for module in pkgutil.iter_modules(kafka.protocol.old.__path__)
    for name, found in inspect.getmembers(importlib.import_module(f"kafka.protocol.old.{module.name}"), inspect.isclass)
}
OLD.pop("DescribeLogDirsRequest_v0")  # takes one partition where Kafka takes an array
DROPPED = [
    (cls, version, OLD[f"{cls.__name__}_v{version}"])
    for cls, version in VERSIONS
    if (cls, version) not in DEFINED and f"{cls.__name__}_v{version}" in OLD
]


@pytest.mark.parametrize("cls, version, old", DROPPED, ids=[old.__name__ for _, _, old in DROPPED])
def test_kafka_python_reads_and_writes_the_same_bytes(cls: type[Message], version: int, old: Any) -> None:
    encoded = written(full(cls, version), version)
    stream = io.BytesIO(encoded)
    decoded = old.decode(stream)
    assert stream.tell() == len(encoded)
    assert decoded.encode() == encoded


# --------------------------------------------------------------------------------------------------- what holds for all


def test_every_module_is_in_the_registry() -> None:
    modules = {module.name for module in pkgutil.iter_modules(headgate.protocol.messages.__path__)}
    assert modules.isdisjoint(UNSERVED)
    assert modules | UNSERVED == {request_class(key).__module__.rpartition(".")[2] for key in APIS}


def test_the_registry_agrees_with_the_declarations() -> None:
    for key in APIS:
        for cls in (request_class(key), response_class(key)):
            assert cls.api_key == key
            assert cls.is_response == (cls is response_class(key))
            assert cls.versions == request_class(key).versions
            for version in range(cls.versions.first, cls.versions.last + 1):
                assert (header_versions(key, version)[0] == 2) == (version in cls.flexible), (cls, version)


@each_message((cls, version) for cls, version in VERSIONS if not cls.is_response)
def test_every_request_has_an_error_response(cls: type[Message], versions: list[int]) -> None:
    for version in versions:
        with about(version):
            error_response_is_right(cls, version)


def error_response_is_right(cls: type[Message], version: int) -> None:
    value: Message = full(cls, version)
    refusal = value.error_response(version, ErrorCode.UNKNOWN_SERVER_ERROR, "a sentence")
    assert type(refusal) is response_class(cls.api_key)
    sent, _ = compiler.read(type(refusal), version, written(refusal, version))
    expected = set() if cls is DescribeLogDirsRequest and version < 3 else {int(ErrorCode.UNKNOWN_SERVER_ERROR)}
    assert set(error_codes(sent, version)) == expected


def error_codes(value: Any, version: int) -> list[int]:
    if isinstance(value, list):
        return [code for element in value for code in error_codes(element, version)]
    if not isinstance(value, Struct):
        return []
    fields = [(field.name, getattr(value, field.name)) for field in fields_in(type(value), version)]
    nested = [code for _, field in fields for code in error_codes(field, version)]
    return [code for name, code in fields if name in {"error_code", "partition_error_code"}] + nested
