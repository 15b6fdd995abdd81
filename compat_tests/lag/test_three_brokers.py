"""Lag in a cluster: each broker shows the groups that it coordinates, whoever leads their partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.cluster.cluster import HEADGATE, IDS, Cluster
from compat_tests.harness import toolchain
from compat_tests.harness.broker import TARGET
from compat_tests.harness.topics import placed_topic
from compat_tests.harness.waiting import until
from compat_tests.harness.writing import commit, send
from compat_tests.lag.views import SETTINGS, Place, Row, assert_agree, by_command, by_endpoint, by_kafka, document

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.skipif(TARGET != "headgate", reason="the endpoint is Headgate's own"),
]

GROUPS = tuple(f"group-{number}" for number in range(12))
RECORDS = 40


def lag(cluster: Cluster, *brokers: int) -> dict[Place, Row]:
    return by_endpoint(cluster.brokers[number] for number in brokers or IDS)


def test_a_cluster_shows_each_group_once(tmp_path: Path) -> None:
    toolchain.jars("broker")
    with Cluster(tmp_path, HEADGATE, {**SETTINGS, "offsets.topic.num.partitions": "6"}) as cluster:
        alone = placed_topic(cluster.bootstrap, [(number,) for number in IDS])
        shared = placed_topic(cluster.bootstrap, [(number, (number + 1) % 3, (number + 2) % 3) for number in IDS])
        first = cluster.brokers[0]
        for topic in (alone, shared):
            cluster.wait_for_topic(topic, len(IDS))
            send(cluster.bootstrap, topic, [b"v" * 100] * RECORDS)
        for number, group in enumerate(GROUPS):
            for topic in (alone, shared):
                commit(cluster.bootstrap, group, topic, dict.fromkeys(range(3), number % 3))
        places = {(group, topic, index) for group in GROUPS for topic in (alone, shared) for index in range(3)}

        def is_known(*brokers: int) -> bool:
            rows = lag(cluster, *brokers)
            unread = [row for row in rows.values() if row.records is None or (row.records and row.seconds is None)]
            return rows.keys() == places and not unread

        until(is_known, "the surveys of all brokers")
        coordinators = {broker.bootstrap: document(broker)["groups"] for broker in cluster.brokers.values()}
        assert all(coordinators.values()), "each broker coordinates some groups"
        assert_agree(lag(cluster), by_command(first, *GROUPS), by_kafka(first, *GROUPS))

        # Of a dead leader's only replica nothing is known, which is not 0; of all others everything is
        dead = cluster.roles().idle
        cluster.kill(dead)
        cluster.wait_for_session_end(dead)
        left = [number for number in IDS if number != dead]

        def has_moved() -> bool:
            rows = lag(cluster, *left)
            gone = {place for place, row in rows.items() if row.status == "unknown"}
            return rows.keys() == places and gone == {(group, alone, dead) for group in GROUPS}

        until(has_moved, "the groups at other coordinators")
        rows = lag(cluster, *left)
        assert {row[2:4] for place, row in rows.items() if place[1:] == (alone, dead)} == {(None, None)}
        cluster.start(dead)
        until(is_known, "the lag of all partitions")
