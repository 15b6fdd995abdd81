"""Three views of lag: the endpoint of a broker, `headgate groups lag`, and kafka-consumer-groups of Kafka 4.1."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterable
from typing import Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from compat_tests.harness.apache_kafka import CONSUMER_GROUPS
from compat_tests.harness.broker import HTTP, Broker, HeadgateBroker, installed_command
from compat_tests.harness.tool_jvm import tool_output

INTERVAL_MS = 200
SETTINGS = {HTTP: "http://127.0.0.1:0", "headgate.lag.interval.ms": str(INTERVAL_MS)}
LIMIT_S = 60
SECONDS_APART = 3.0
"""The ages of two views differ by the time between them."""

Place = tuple[str, str, int]
"""A group, a topic and a partition."""


class Row(NamedTuple):
    """What a view shows of a group in a partition. `seconds` and `status`: Kafka's tool has none."""

    committed: int | None
    end: int | None
    records: int | None
    seconds: float | None = None
    status: str = ""
    member: str | None = None

    @property
    def numbers(self) -> tuple[int | None, int | None, int | None]:
        return self[:3]


def document(broker: Broker) -> Any:
    """`/v1/lag.json`, as it is now."""
    assert isinstance(broker, HeadgateBroker)
    with urllib.request.urlopen(f"{broker.http()}/v1/lag.json", timeout=LIMIT_S) as answer:  # noqa: S310  of the broker
        return json.load(answer)


def by_endpoint(brokers: Iterable[Broker]) -> dict[Place, Row]:
    """The rows of these brokers; each group is shown by one of them."""
    rows: dict[Place, Row] = {}
    for broker in brokers:
        for group in document(broker)["groups"]:
            for one in group["partitions"]:
                place = group["group"], one["topic"], one["partition"]
                assert place not in rows, f"two brokers show {place}"
                seconds = None if one["lag_ms"] is None else one["lag_ms"] / 1000
                member = one["owner"] and one["owner"]["member_id"]
                rows[place] = Row(
                    one["committed_offset"], one["end_offset"], one["lag_records"], seconds, one["status"], member
                )
    return rows


def by_metrics(broker: Broker) -> dict[Place, float]:
    """The lag in records, as Prometheus reads it."""
    assert isinstance(broker, HeadgateBroker)
    with urllib.request.urlopen(f"{broker.http()}/metrics", timeout=LIMIT_S) as answer:  # noqa: S310  of the broker
        families = text_string_to_metric_families(answer.read().decode())
    return {
        (one.labels["group"], one.labels["topic"], int(one.labels["partition"])): one.value
        for family in families
        for one in family.samples
        if one.name == "headgate_group_lag_records"
    }


def verdicts(broker: Broker) -> dict[str, str | None]:
    return {group["group"]: group["verdict"] for group in document(broker)["groups"]}


def by_command(broker: Broker, *groups: str) -> dict[Place, Row]:
    """What `headgate groups lag` shows, as it is installed."""
    typed = [*installed_command(), "groups", "lag", *groups, "--bootstrap-server", broker.bootstrap]
    done = subprocess.run(typed, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    rows = map(json.loads, done.stdout.splitlines())
    return {
        (row["group"], row["topic"], row["partition"]): Row(
            row["committed"], row["end"], row["lag"], row["lag_seconds"], row["status"], row["member_id"]
        )
        for row in rows
    }


def by_kafka(broker: Broker, *groups: str) -> dict[Place, Row]:
    """What kafka-consumer-groups prints."""
    named = [word for group in groups for word in ("--group", group)]
    said = tool_output(CONSUMER_GROUPS, "--bootstrap-server", broker.bootstrap, "--describe", *named)
    rows = [line.split() for line in said.splitlines()]
    return {
        (row[0], row[1], int(row[2])): Row(_number(row[3]), _number(row[4]), _number(row[5]), member=_text(row[6]))
        for row in rows
        if row and row[0] in groups
    }


def _number(word: str) -> int | None:
    return None if word == "-" else int(word)


def _text(word: str) -> str | None:
    return None if word == "-" else word


def assert_agree(endpoint: dict[Place, Row], command: dict[Place, Row], kafka: dict[Place, Row]) -> None:
    """The endpoint shows what the command shows, and Kafka's tool but for offsets beyond the end.

    There Kafka's tool prints a negative lag.
    """
    assert endpoint.keys() == command.keys() == kafka.keys()
    for place, row in endpoint.items():
        assert row.numbers == command[place].numbers, place
        assert (row.status, row.member) == (command[place].status, command[place].member), place
        said = kafka[place]
        records = said.records if said.records is None else max(0, said.records)
        assert row.numbers == (said.committed, said.end, records), place
        assert row.member == said.member, place
        ours, theirs = row.seconds, command[place].seconds
        if ours is None or theirs is None:
            assert ours == theirs, place
        else:
            assert abs(ours - theirs) <= SECONDS_APART, place
            assert (ours == 0) == (theirs == 0), place
