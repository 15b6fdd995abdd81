"""`headgate groups` with a broker and stock clients; HEADGATE_COMPAT_TARGET=kafka has it talk to Apache Kafka."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from compat_tests.groups.committed import committed_offsets
from compat_tests.groups.group import PARTITIONS, Group
from compat_tests.groups.member import SERVER, Kind
from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import CONSUMER_GROUPS
from compat_tests.harness.broker import Broker, installed_command
from compat_tests.harness.tool_jvm import tool_output
from compat_tests.harness.topics import new_topic
from compat_tests.harness.waiting import until
from compat_tests.harness.writing import commit

CLASSIC = Kind("confluent-kafka", "range")
LIMIT_S = 60
BEHIND = 3


class Said(NamedTuple):
    """What the command said."""

    code: int
    rows: list[Any]
    errors: str


def command(broker: Broker, *arguments: str) -> Said:
    """`headgate groups`, as it is installed."""
    typed = [*installed_command(), "groups", *arguments, "--bootstrap-server", broker.bootstrap]
    done = subprocess.run(typed, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    is_document = arguments[0] == "export"
    rows = [] if is_document else [json.loads(line) for line in done.stdout.splitlines()]
    return Said(done.returncode, rows, done.stderr)


def offsets(group: Group) -> dict[int, int]:
    return committed_offsets(group.broker.bootstrap, group.name, group.topic)


@pytest.mark.parametrize("kind", [CLASSIC, Kind("confluent-kafka", SERVER)], ids=lambda kind: kind.name)
def test_members_are_described_with_what_they_have(group: Group, kind: Kind) -> None:
    members = [group.join(kind), group.join(kind)]
    group.settle()
    group.share()
    group.commit()
    said = command(group.broker, "describe", group.name)
    assert (said.code, said.errors) == (0, "")
    (row,) = said.rows
    assert (row["state"], row["type"]) == ("Stable", "consumer" if kind.assignor == SERVER else "classic")
    shown = sorted(tuple(one["partitions"][group.topic]) for one in row["members"])
    assert shown == sorted(tuple(sorted(member.owned)) for member in members)
    end = group.end()
    assert [
        (one["topic"], one["partition"], one["committed"], one["end"], one["lag"], one["lag_seconds"], one["status"])
        for one in row["partitions"]
    ] == [(group.topic, number, end, end, 0, 0.0, "ok") for number in range(PARTITIONS)]
    owners = {one["partition"]: one["member_id"] for one in row["partitions"]}
    for member in row["members"]:
        assert {owners[number] for number in member["partitions"][group.topic]} == {member["member_id"]}
    listed = {one["group"]: one["state"] for one in command(group.broker, "list", "--state", "stable").rows}
    assert listed[group.name] == "Stable"


def test_lag_is_that_of_kafkas_own_tool(group: Group) -> None:
    """While somebody reads, and behind it."""
    toolchain.jars("broker")
    group.join(CLASSIC)
    group.settle()
    group.share()
    group.commit()
    group.share()
    printed = tool_output(
        CONSUMER_GROUPS, "--bootstrap-server", group.broker.bootstrap, "--describe", "--group", group.name
    )
    theirs = sorted(line.split()[1:6] for line in printed.splitlines() if line.startswith(group.name))
    rows = command(group.broker, "lag", group.name).rows
    ours = [
        [row["topic"], *(str(row[name]) for name in ("partition", "committed", "end", "lag"))]
        for row in sorted(rows, key=lambda row: int(row["partition"]))
    ]
    assert len(ours) == PARTITIONS
    assert ours == theirs
    assert all(row["lag"] == group.end() // 2 for row in rows)


@pytest.mark.parametrize("codec", ["none", "lz4", "gzip"])
def test_lag_in_seconds_is_the_age_of_the_next_record(broker_of_groups: Broker, codec: str) -> None:
    """Of a record in the middle of a batch, on the clock of the producer."""
    topic = new_topic(broker_of_groups.bootstrap, 3)
    now_ms = time.time_ns() // 1_000_000
    producer = Producer({"bootstrap.servers": broker_of_groups.bootstrap, "compression.type": codec, "linger.ms": 50})
    for number in range(300):
        age_s = 3000 - number // 3
        producer.produce(topic, b"x" * 300, partition=number % 3, timestamp=now_ms - age_s * 1000)
    producer.flush()
    commit(broker_of_groups.bootstrap, f"aged-{topic}", topic, {0: 0, 1: 57, 2: 100})
    said = command(broker_of_groups, "lag", f"aged-{topic}", "--fail-above-seconds", "2960")
    passed_s = time.time_ns() / 1e9 - now_ms / 1000
    assert [row["lag"] for row in said.rows] == [100, 43, 0]
    for row, age_s in zip(said.rows, [3000, 2943], strict=False):
        assert age_s <= row["lag_seconds"] <= age_s + passed_s
    assert said.rows[2]["lag_seconds"] == 0
    assert said.code == BEHIND
    assert said.errors.startswith(f"headgate groups: aged-{topic} in {topic}-0: 300")
    assert len(said.errors.splitlines()) == 1


def test_lag_in_seconds_by_the_brokers_clock(broker_of_groups: Broker) -> None:
    topic = new_topic(broker_of_groups.bootstrap, 1, {"message.timestamp.type": "LogAppendTime"})
    producer = Producer({"bootstrap.servers": broker_of_groups.bootstrap})
    began_s = time.time()
    producer.produce(topic, b"x", timestamp=1)
    producer.flush()
    commit(broker_of_groups.bootstrap, f"aged-{topic}", topic, {0: 0})
    (row,) = command(broker_of_groups, "lag", f"aged-{topic}").rows
    assert 0 < row["lag_seconds"] <= time.time() - began_s


def test_offsets_out_of_range(broker_of_groups: Broker) -> None:
    """One whose record was deleted, one that no record has reached; monitoring hears of both."""
    topic = new_topic(broker_of_groups.bootstrap, 2)
    producer = Producer({"bootstrap.servers": broker_of_groups.bootstrap})
    now_ms = time.time_ns() // 1_000_000
    for number in range(20):
        producer.produce(topic, b"x", partition=number % 2, timestamp=now_ms - 50_000)
    producer.flush()
    group = f"lost-{topic}"
    commit(broker_of_groups.bootstrap, group, topic, {0: 3, 1: 99})
    admin = AdminClient({"bootstrap.servers": broker_of_groups.bootstrap})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 6)]).values():
        deleted.result(LIMIT_S)
    said = command(broker_of_groups, "lag", group, "--fail-above", "1000000")
    below, beyond = said.rows
    assert (below["status"], below["start"], below["end"], below["lag"]) == ("below the start", 6, 10, 7)
    assert 50 <= below["lag_seconds"] < 50 + LIMIT_S
    assert (beyond["status"], beyond["lag"], beyond["lag_seconds"]) == ("beyond the end", 0, 0.0)
    assert said.code == BEHIND
    assert f"{group} in {topic}-0: offset 3 is below the start (6 to 10)" in said.errors
    assert f"{group} in {topic}-1: offset 99 is beyond the end (0 to 10)" in said.errors
    said = command(broker_of_groups, "reset", group, "--to", "4", "--topic", topic)
    assert [(row["after"], row["note"]) for row in said.rows] == [(6, "4 is below the start"), (4, "")]


@pytest.mark.parametrize("kind", [CLASSIC, Kind("confluent-kafka", SERVER)], ids=lambda kind: kind.name)
def test_offsets_are_moved_when_nobody_reads_and_readers_go_on_there(group: Group, kind: Kind) -> None:
    member = group.join(kind)
    group.settle()
    group.share()
    group.commit()
    end = group.end()
    (described,) = command(group.broker, "describe", group.name).rows
    arguments = ("reset", group.name, "--by", "-5", "--topic", group.topic)
    said = command(group.broker, *arguments, "--execute")
    assert said.code == 1
    assert described["members"][0]["member_id"] in said.errors
    assert said.errors.endswith("nothing is changed\n")
    assert offsets(group) == dict.fromkeys(range(PARTITIONS), end)

    group.leave(member)
    wait_until_empty(group)
    said = command(group.broker, *arguments)
    assert [(row["before"], row["after"]) for row in said.rows] == [(end, end - 5)] * PARTITIONS
    assert offsets(group) == dict.fromkeys(range(PARTITIONS), end)
    assert command(group.broker, *arguments, "--execute").code == 0
    assert offsets(group) == dict.fromkeys(range(PARTITIONS), end - 5)

    reader = group.join(kind)
    expected = {(number, end - back) for number in range(PARTITIONS) for back in range(1, 6)}
    until(lambda: set(reader.records) >= expected, "the five records before the end", LIMIT_S)
    assert set(reader.records) == expected


def wait_until_empty(group: Group) -> None:
    def is_empty() -> bool:
        (row,) = command(group.broker, "describe", group.name).rows
        return bool(row["state"] == "Empty")

    until(is_empty, f"{group.name} to be empty", LIMIT_S)


def test_offsets_out_and_in_again(group: Group, tmp_path: Path) -> None:
    commit(group.broker.bootstrap, group.name, group.topic, {0: 0, 1: 0})
    fill(group, 10)
    assert (
        command(group.broker, "reset", group.name, "--to", "7", "--topic", f"{group.topic}:0-1", "--execute").code == 0
    )
    file = str(tmp_path / "offsets.json")
    assert command(group.broker, "export", group.name, "--output", file).code == 0
    said = command(group.broker, "delete", group.name)
    assert said.rows == [{"group": group.name, "offsets": 2, "deleted": True}]
    assert command(group.broker, "describe", group.name).code == 1
    said = command(group.broker, "import", file, "--execute")
    assert (said.code, said.errors) == (0, "")
    assert [(row["before"], row["after"], row["note"]) for row in said.rows] == [(None, 7, "the group is new")] * 2
    assert offsets(group) == {0: 7, 1: 7}
    said = command(group.broker, "delete", group.name, "--topic", f"{group.topic}:1")
    assert said.code == 0
    assert offsets(group) == {0: 7}


def fill(group: Group, count: int) -> None:
    """So many records in each of the first two partitions."""
    producer = Producer({"bootstrap.servers": group.broker.bootstrap})
    for number in range(2 * count):
        producer.produce(group.topic, b"x", partition=number % 2)
    assert producer.flush(LIMIT_S) == 0


@pytest.mark.parametrize(
    "move, expected",
    [
        (lambda now_ms: ["--to", "earliest"], 0),
        (lambda now_ms: ["--to", "latest"], 10),
        (lambda now_ms: ["--to", "99"], 10),
        (lambda now_ms: ["--to", "5500s"], 5),
        (lambda now_ms: ["--to", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_ms / 1000 - 3500))], 7),
    ],
    ids=["earliest", "latest", "beyond", "duration", "time"],
)
def test_where_offsets_may_go(broker_of_groups: Broker, move: Callable[[int], list[str]], expected: int) -> None:
    """Ten records, each a thousand seconds younger than the one before it."""
    topic = new_topic(broker_of_groups.bootstrap, 1)
    now_ms = time.time_ns() // 1_000_000
    producer = Producer({"bootstrap.servers": broker_of_groups.bootstrap})
    for number in range(10):
        producer.produce(topic, b"x", timestamp=now_ms - (10 - number) * 1_000_000)
    producer.flush()
    said = command(broker_of_groups, "reset", f"moved-{topic}", "--topic", topic, *move(now_ms), "--execute")
    assert (said.code, said.rows[0]["after"]) == (0, expected)
    assert committed_offsets(broker_of_groups.bootstrap, f"moved-{topic}", topic) == {0: expected}
