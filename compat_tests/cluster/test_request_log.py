"""The request log of a leader: a slow acks=all produce names the replica that it has waited for."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from compat_tests.cluster.cluster import HEADGATE, IDS, Cluster
from compat_tests.harness.topics import create_topics
from compat_tests.harness.waiting import until
from compat_tests.harness.writing import send

SLOW_MS, PAUSE_S, LIMIT_S = 300, 1.5, 30.0
SETTINGS = {
    "headgate.log.format": "json",
    "headgate.request.log.slow.ms": str(SLOW_MS),
    "replica.lag.time.max.ms": "60000",
}


def slow_produces(lines: list[str]) -> list[dict[str, Any]]:
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    return [line for line in logged if line["logger"] == "headgate.request" and line.get("api") == "Produce"]


def test_a_slow_produce_names_the_replica_that_is_late(tmp_path: Path) -> None:
    with Cluster(tmp_path, HEADGATE, SETTINGS) as cluster:
        create_topics(cluster.brokers[0].bootstrap, {"orders": {}}, 1, 3)
        cluster.wait_for_topic("orders", 1)
        [state] = cluster.states("orders")
        leader = cluster.brokers[state.leader]
        late = max(set(IDS) - {state.leader})
        # An idempotent producer would ask any broker for an id, also the late one
        send(leader.bootstrap, "orders", ["before"], is_idempotent=False)
        cluster.pause(late)
        timer = threading.Timer(PAUSE_S, cluster.resume, [late])
        timer.start()
        send(leader.bootstrap, "orders", ["meanwhile"], is_idempotent=False)
        timer.join()
        awaited = f"acks of replica {late} of orders-0"
        # A line follows its reply
        until(lambda: awaited in str(slow_produces(leader.error_lines())), "the line of the slow request", LIMIT_S)
        line = slow_produces(leader.error_lines())[-1]
        assert line["parked_for"] == awaited
        assert line["park_ms"] >= SLOW_MS
        assert line["topics"] == ["orders"]
