"""Kafka's own tools on our groups: kafka-consumer-groups, kafka-dump-log, and the console consumer's formatters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from compat_tests.groups.committed import committed_offsets
from compat_tests.groups.group import PARTITIONS, Group
from compat_tests.groups.member import SERVER, Kind
from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import CONSOLE_CONSUMER, CONSUMER_GROUPS, DUMP_LOG, run_tool
from compat_tests.harness.tool_jvm import tool_output
from compat_tests.harness.topics import new_topic

OFFSETS_TOPIC = "__consumer_offsets"
OFFSET_KEY, GROUP_KEY = 1, 2
CLASSIC = Kind("confluent-kafka", "range")
SHORT = Kind("kafkajs-1.12", "roundrobin", has_static_members=False)
"""Its subscription has version 1, and the fields of version 0 alone."""


@pytest.fixture(autouse=True)
def jars() -> None:
    toolchain.jars("broker")


def consumer_groups(group: Group, *arguments: str) -> list[list[str]]:
    """The rows of what kafka-consumer-groups prints, in words; without what is empty."""
    said = tool_output(CONSUMER_GROUPS, "--bootstrap-server", group.broker.bootstrap, *arguments)
    return [line.split() for line in said.splitlines() if line.strip()]


@pytest.mark.parametrize("kind", [CLASSIC, Kind("confluent-kafka", SERVER)], ids=lambda kind: kind.name)
def test_a_group_is_described(group: Group, kind: Kind) -> None:
    """Offsets, lag, members with what they have, and state."""
    two = [group.join(kind), group.join(kind)]
    group.settle()
    group.share()
    group.commit()

    rows = [row for row in consumer_groups(group, "--describe", "--group", group.name) if row[0] == group.name]
    end = str(group.end())
    assert sorted(row[1:6] for row in rows) == [[group.topic, str(n), end, end, "0"] for n in range(PARTITIONS)]
    members = {row[6] for row in rows}
    assert len(members) == 2

    rows = [row for row in consumer_groups(group, "--describe", "--members", "--group", group.name) if len(row) > 4]
    counts = sorted((row[1], row[4]) for row in rows if row[0] == group.name)
    assert counts == sorted((member, str(PARTITIONS // 2)) for member in members)

    _, state = consumer_groups(group, "--describe", "--state", "--group", group.name)
    assert (state[0], *state[-2:]) == (group.name, "Stable", "2")
    assert two[0].owned | two[1].owned == set(range(PARTITIONS))


def test_offsets_are_reset_and_deleted_and_groups_too(group: Group) -> None:
    """Of a group that nobody is in; while somebody is, it is refused."""
    member = group.join(CLASSIC)
    group.settle()
    group.share()
    group.commit()
    name = ("--group", group.name)
    refusal = consumer_groups(group, "--delete", *name)
    assert "GroupNotEmptyException" in str(refusal), refusal
    assert [group.name] in consumer_groups(group, "--list")
    group.leave(member)

    topic = ("--topic", group.topic)
    consumer_groups(group, "--reset-offsets", *name, *topic, "--to-offset", "7", "--execute")
    assert committed(group) == dict.fromkeys(range(PARTITIONS), 7)
    listed = consumer_groups(group, "--list", "--state")
    assert [group.name, "Empty"] in listed

    consumer_groups(group, "--delete-offsets", *name, "--topic", f"{group.topic}:0,1")
    assert committed(group) == dict.fromkeys(range(2, PARTITIONS), 7)

    assert "successful" in str(consumer_groups(group, "--delete", *name))
    assert [group.name] not in consumer_groups(group, "--list")
    assert committed(group) == {}


def test_offsets_of_a_topic_that_no_member_reads_are_deleted(group: Group) -> None:
    """While the group has members. Kafka's coordinator reads the fields of version 0 of their subscriptions alone."""
    other = new_topic(group.broker.bootstrap, 1)
    name = ("--group", group.name)
    for topic in (group.topic, other):
        consumer_groups(group, "--reset-offsets", *name, "--topic", topic, "--to-offset", "0", "--execute")
    group.join(SHORT)
    group.settle()
    said = consumer_groups(group, "--delete-offsets", *name, "--topic", group.topic, "--topic", other)
    assert [other, "0", "Successful"] in said
    refused = [" ".join(row) for row in said if row[0] == group.topic]
    assert len(refused) == PARTITIONS
    assert all("subscribed" in row for row in refused), refused


def committed(group: Group) -> dict[int, int]:
    found = committed_offsets(group.broker.bootstrap, group.name, group.topic)
    return {partition: offset for partition, offset in found.items() if offset >= 0}


def test_kafkas_decoders_read_the_log(group: Group) -> None:
    """What is stored is Kafka's: the last value of each key says what was committed, and who is in the group."""
    group.join(CLASSIC)
    group.settle()
    group.share()
    group.commit()
    lines = dump(group)
    offsets_shown, groups_shown = (console(group, kind) for kind in ("Offsets", "GroupMetadata"))
    for found in (latest(group, decoded(lines)), latest(group, offsets_shown + groups_shown)):
        offsets = {
            key["data"]["partition"]: value["data"]["offset"]
            for key, value in found
            if int(key["type"]) == OFFSET_KEY and key["data"]["topic"] == group.topic
        }
        assert offsets == dict.fromkeys(range(PARTITIONS), group.end())
        (value,) = [value["data"] for key, value in found if int(key["type"]) == GROUP_KEY]
        assert (value["protocolType"], value["protocol"]) == ("consumer", "range")
        assert [member["memberId"] for member in value["members"]] == [value["leader"]]


Found = list[tuple[dict[str, Any], dict[str, Any]]]


def latest(group: Group, found: Found) -> Found:
    """The last value of each key of the group."""
    own = [(key, value) for key, value in found if key["data"].get("group") == group.name]
    return list({json.dumps(key): (key, value) for key, value in own}.values())


def dump(group: Group) -> list[str]:
    """The lines of kafka-dump-log about the records in the files."""
    files = sorted(str(log) for log in group.broker.data.glob(f"{OFFSETS_TOPIC}-*/*.log"))
    said = tool_output(DUMP_LOG, "--offsets-decoder", "--files", ",".join(files))
    return [line for line in said.splitlines() if line.startswith("|")]


def decoded(lines: Sequence[str]) -> Found:
    """Those that are no deletions."""
    searched = [re.search(r" key: (\{.*\}) payload: (\{.*\})$", line) for line in lines]
    return [(json.loads(found[1]), json.loads(found[2])) for found in searched if found]


def console(group: Group, kind: str) -> Found:
    """What kafka-console-consumer shows through one of its formatters, until nothing comes any more.

    It reads as a group itself, whose own records are among the others: their number says nothing.
    """
    arguments = ("--topic", OFFSETS_TOPIC, "--from-beginning", "--timeout-ms", "4000")
    formatting = ("--formatter", f"org.apache.kafka.tools.consumer.{kind}MessageFormatter")
    said = run_tool(CONSOLE_CONSUMER, "--bootstrap-server", group.broker.bootstrap, *arguments, *formatting)
    return [(one["key"], one["value"]) for one in objects(said) if one["value"]]


def objects(said: str) -> Iterator[Any]:
    """What follows each other without anything between."""
    decoder, position = json.JSONDecoder(), 0
    while position < len(said.rstrip()):
        found, position = decoder.raw_decode(said, position)
        yield found
