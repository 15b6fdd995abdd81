"""Kafka's own definitions of messages (`common/message/*.json`), and declared messages compared with them.

Those of requests and responses come with kafka-python; the newest, and those of the records of internal topics, are in
Kafka's jars. What needs these is marked `sockets`, which leaves it out of `make unit`: that installs no jars.
"""

from __future__ import annotations

import functools
import json
import os
import re
import warnings
import zipfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from headgate.protocol import wire
from headgate.protocol.emitter import fixed_format
from headgate.protocol.schema import Field, Message, Struct, Versions, fields_in

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of importlib.resources, in kafka-python
    DEFINITIONS = resources.files("kafka.protocol.schemas") / "resources"

JARS: Final = Path(__file__).resolve().parents[2] / "build" / "jars"
# By Kafka's generation: the newest of all, and the last one with what Kafka 4 dropped
CLIENTS: Final = {4: "clients/kafka-clients-*.jar", 3: "schemas/kafka-clients-*.jar"}

FORMATS: Final = {
    "?": "bool",
    "d": "float64",
    "b": "int8",
    "h": "int16",
    "H": "uint16",
    "l": "int32",
    "q": "int64",
    "16s": "uuid",
}

# Where those of a request and a response have one name in Kafka: ours -> Kafka's
RENAMED: Final = {
    "RequestedTopicData": "TopicData",
    "RequestedPartitionData": "PartitionData",
    "AlteredEntryData": "EntryData",
}

# What is said of a field; the second row says nothing about bytes
KNOWN: Final = {"name", "type", "versions", "fields", "nullableVersions", "default", "tag", "taggedVersions"} | {
    *("about", "entityType", "ignorable", "mapKey", "zeroCopy")
}


def missing(reason: str) -> NoReturn:
    """End the test: where CI=true as a failure."""
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def in_jar(pattern: str) -> dict[str, str]:
    """The texts of the definitions in a jar, by name; `pattern` is below build/jars."""
    jar = next(JARS.glob(pattern), None)
    if jar is None:
        missing(f"{JARS / pattern} is not here: run `make jars`")
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"common/(message|metadata)/\w+\.json", name)]
        return {Path(name).stem: archive.read(name).decode() for name in names}


@functools.cache
def of_kafka(generation: int) -> dict[str, dict[str, Any]]:
    """All definitions in the jar of the Java client, by name."""
    return {name: parsed(text) for name, text in in_jar(CLIENTS[generation]).items()}


def having(name: str, version: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Kafka's definitions of a message that have this version, the newest first, each with its generation.

    A version that was unstable in Kafka 3 is left out where Kafka 4 has it: it may have become another.
    """
    found = False
    for generation in CLIENTS:
        defined = of_kafka(generation).get(name, {"validVersions": "none"})
        versions = Versions.parse(defined["validVersions"])
        asked = of_kafka(generation).get(name.replace("Response", "Request"), {})
        is_draft = asked.get("latestVersionUnstable", False) and version == versions.last
        if version in versions and not (found and is_draft):
            found = True
            yield generation, defined


@functools.cache
def definition(name: str) -> dict[str, Any] | None:
    """Kafka's definition of a message, if kafka-python has it."""
    file = DEFINITIONS / f"{name}.json"
    return parsed(file.read_text()) if file.is_file() else None


def parsed(text: str) -> dict[str, Any]:
    """A definition from its file: JSON with comments. Where a field names a common struct, it gets its fields."""
    defined: dict[str, Any] = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    common = {struct["name"]: struct["fields"] for struct in defined.get("commonStructs", ())}
    for fields in (defined.get("fields", []), *common.values()):  # none is left of a message that was removed
        resolve(fields, common)
    return defined


def resolve(fields: list[dict[str, Any]], common: dict[str, list[dict[str, Any]]]) -> None:
    for field in fields:
        name = field["type"].removeprefix("[]")
        if name in common:
            field["fields"] = common[name]
        elif "fields" in field:
            resolve(field["fields"], common)


def assert_declared(cls: type[Struct], fields: list[dict[str, Any]], version: int, flexible: bool) -> None:
    """A version of a declared struct has the fields of Kafka's: names, order, types, nulls, tags and defaults."""
    ours = list(fields_in(cls, version))
    # A field of tagged versions alone need not say it twice
    theirs = [field for field in fields if version in Versions.parse(field.get("versions") or field["taggedVersions"])]
    expected = [defined_field(field, version) for field in theirs]
    assert [described(field, version, flexible) for field in ours] == expected, f"{cls.__name__} v{version}"
    for our, their in zip(ours, theirs, strict=True):
        if "fields" in their:
            assert_declared(element(our), their["fields"], version, flexible)


def assert_defined(cls: type[Message], defined: dict[str, Any]) -> None:
    """Compare a declared message with Kafka's definition, in all versions."""
    assert cls.versions == Versions.parse(defined["validVersions"])
    for version in range(cls.versions.last + 1):
        flexible = version in Versions.parse(defined["flexibleVersions"])
        assert flexible == (version in cls.flexible)
        assert_declared(cls, defined["fields"], version, flexible)


def element(field: Field) -> type[Struct]:
    """The struct that a field holds one or many of."""
    struct: type[Struct] = field.element
    return struct


def described(field: Field, version: int, flexible: bool) -> tuple[Any, ...]:
    """A declared field in the terms of Kafka's definitions."""
    node = field.lower(version, flexible)
    default = field.default()
    is_null = isinstance(node, wire.NullableStructNode) or getattr(getattr(node, "length", None), "nullable", False)
    inner = node.element if isinstance(node, wire.Array) else node
    kind = ("[]" if isinstance(node, wire.Array) else "") + type_name(inner)
    return field.name, kind, is_null, field.tag, "struct" if isinstance(default, Struct) else default


def type_name(node: Any) -> str:
    if isinstance(node, wire.NullableStructNode):
        node = node.inner
    if isinstance(node, wire.StructNode):
        name: str = node.cls.__name__
        return RENAMED.get(name, name)
    names = {wire.Text: "string", wire.Blob: "bytes", wire.Records: "records"}
    return names.get(type(node)) or FORMATS[str(fixed_format(node))]


def defined_field(field: dict[str, Any], version: int) -> tuple[Any, ...]:
    assert set(field) <= KNOWN
    nullable = version in Versions.parse(field.get("nullableVersions", "none"))
    tag = field["tag"] if version in Versions.parse(field.get("taggedVersions", "none")) else None
    return snake_case(field["name"]), field["type"], nullable, tag, defined_default(field)


def defined_default(field: dict[str, Any]) -> Any:
    kind, default = field["type"], field.get("default")
    if default == "null" or kind == "records":  # null without quotes is no default
        return None
    if kind.startswith("[]"):
        return []
    if kind[0].isupper():
        return "struct"
    zeros: dict[str, Any] = {"string": "", "bytes": b"", "uuid": bytes(16)}
    if kind in zeros:
        return default or zeros[kind]
    return str(default).lower() == "true" if kind == "bool" else int(str(default or 0), 0)


def snake_case(name: str) -> str:
    words = name.replace("2Pc", "_2pc").replace("ELR", "Elr").replace("KRaft", "Kraft")
    return re.sub(r"(?<!^)(?=[A-Z])", "_", words).lower()
