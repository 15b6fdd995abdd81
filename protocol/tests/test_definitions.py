"""Every field of every message against the definitions in the jars of Kafka 4.4 and, for what Kafka 4 dropped, 3.9."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from headgate.protocol.registry import APIS
from headgate.protocol.schema import Message, Versions
from headgate.protocol.tests.declared import request_class
from headgate.protocol.tests.definitions import CLIENTS, assert_declared, having, of_kafka
from headgate.protocol.tests.values import MESSAGES

LEFT_OUT = {
    "Envelope": ("0", "requests that a broker forwards to KRaft's controller"),
    "AddRaftVoter": ("0-1", "KRaft's quorum has no counterpart here"),
    "RemoveRaftVoter": ("0", "KRaft's quorum has no counterpart here"),
    "UnregisterController": ("0", "KRaft's quorum has no counterpart here"),
    "ListClientMetricsResources": ("0", "what Kafka 3 called ListConfigResources"),
    "ShareGroupHeartbeat": ("0", "an early access, which Kafka 4.1 took back"),
    "ShareGroupDescribe": ("0", "an early access, which Kafka 4.1 took back"),
    "ShareFetch": ("0", "an early access, which Kafka 4.1 took back"),
    "ShareAcknowledge": ("0", "an early access, which Kafka 4.1 took back"),
}
"""Versions of what brokers of Kafka listen to that are not declared, each with the reason."""

LISTENERS = {"broker", "zkBroker"}


def numbers(versions: Versions) -> set[int]:
    return set(range(versions.first, versions.last + 1))


@pytest.mark.sockets
@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: str(cls.__name__))
def test_every_field_is_as_in_kafkas_newest_definition(cls: type[Message]) -> None:
    for version in numbers(cls.versions):
        _, defined = next(having(cls.__name__, version))  # one of them has every version
        flexible = version in Versions.parse(defined["flexibleVersions"])
        kind = "response" if cls.is_response else "request"
        assert (defined["type"], defined["apiKey"]) == (kind, cls.api_key)
        assert flexible == (version in cls.flexible)
        assert_declared(cls, defined["fields"], version, flexible)


@pytest.mark.sockets
def test_every_api_of_kafka_is_declared_or_omitted_with_reason() -> None:
    offered: dict[str, set[int]] = {}
    for generation in CLIENTS:
        for name, defined in of_kafka(generation).items():
            if LISTENERS.intersection(defined.get("listeners", ())):
                versions = numbers(Versions.parse(defined["validVersions"]))
                offered.setdefault(name.removesuffix("Request"), set()).update(versions)
    declared = {api.name: numbers(request_class(key).versions) for key, api in APIS.items()}
    assert {name for name in declared if declared[name] - offered[name]} == set()
    absent = {name: versions - declared.get(name, set()) for name, versions in offered.items()}
    left_out = {name: numbers(Versions.parse(versions)) for name, (versions, _) in LEFT_OUT.items()}
    assert {name: versions for name, versions in absent.items() if versions} == left_out


# -------------------------------------------------------------------------------------- what the comparison would see


def rename(fields: list[dict[str, Any]]) -> None:
    fields[0]["name"] += "s"


def retype(fields: list[dict[str, Any]]) -> None:
    fields[0]["type"] = "int64"


def make_nullable(fields: list[dict[str, Any]]) -> None:
    fields[-1]["nullableVersions"] = "0+"


def tag_otherwise(fields: list[dict[str, Any]]) -> None:
    fields[1].update(tag=7, taggedVersions="0+")


def change_default(fields: list[dict[str, Any]]) -> None:
    fields[0]["default"] = "5"


def swap(fields: list[dict[str, Any]]) -> None:
    fields[0], fields[1] = fields[1], fields[0]


def remove(fields: list[dict[str, Any]]) -> None:
    del fields[0]


def say_more(fields: list[dict[str, Any]]) -> None:
    fields[0]["flexibleVersions"] = "none"


CHANGES = [rename, retype, make_nullable, tag_otherwise, change_default, swap, remove, say_more]


@pytest.mark.sockets
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_the_comparison_finds_a_change(change: Callable[[list[dict[str, Any]]], None], nested: bool) -> None:
    cls = request_class(2)  # ListOffsets: all that can be changed is in it twice
    _, defined = next(having(cls.__name__, 11))
    fields = copy.deepcopy(defined["fields"])
    assert_declared(cls, fields, 11, flexible=True)
    change(fields[2]["fields"][1]["fields"] if nested else fields)
    with pytest.raises(AssertionError):
        assert_declared(cls, fields, 11, flexible=True)
