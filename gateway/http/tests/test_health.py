"""The conditions of health, and what a probe is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from headgate.gateway.http import health
from headgate.gateway.http.health import LOOP, Disk, HealthCondition, Loading


def test_a_broker_is_ready_once_all_conditions_are_met() -> None:
    rows: list[Mapping[str, Any]] = [
        {"name": "loop", "is_met": True, "waits_for": None},
        {"name": "logs", "is_met": True, "waits_for": None},
    ]
    assert health.report([LOOP, HealthCondition("logs", is_met=True)]) == (200, "ready", rows)
    status, word, rows = health.report(
        [LOOP, HealthCondition("logs", is_met=False, waits_for="a log", progress={"bytes_done": 5})]
    )
    assert (status, word) == (503, "waiting")
    assert rows[1] == {"name": "logs", "is_met": False, "waits_for": "a log", "bytes_done": 5}


@pytest.mark.parametrize(
    "condition, waits_for",
    [
        (health.listeners(is_open=True), ""),
        (health.listeners(is_open=False), "the start of this broker"),
        (health.listeners(is_open=True, is_stopping=True), "nothing: this broker is stopping"),
        (health.coordinators({"__consumer_offsets": 0, "__transaction_state": 0}), ""),
        (health.coordinators({"__consumer_offsets": 3, "a": 0}), "3 partitions of __consumer_offsets to load"),
        (health.coordinators({"a": 3, "b": 1}), "3 partitions of a to load and 1 partitions of b to load"),
        (health.registration(is_registered=True, connect="h:1"), ""),
        (health.registration(is_registered=False, connect="h:1"), "the registration in ZooKeeper at h:1"),
        (
            health.registration(is_registered=True, connect="h:1", is_in_doubt=True),
            "ZooKeeper at h:1 to confirm the session, as this process stood still",
        ),
        (health.controller(is_known=True, knows_topics=True), ""),
        (health.controller(is_known=True, knows_topics=False), "the controller to send the topics"),
        (health.controller(is_known=False, knows_topics=True), "a broker to be the controller"),
        (health.disks([Disk("/a", None, is_hung=False)]), ""),
        (
            health.disks([Disk("/a", "it is gone", is_hung=True), Disk("/b", None, is_hung=True)]),
            "/a, which is offline: it is gone; /b, whose disk does not respond",
        ),
    ],
)
def test_a_condition_says_what_it_waits_for(condition: HealthCondition, waits_for: str) -> None:
    assert condition.waits_for == waits_for
    assert condition.is_met == (not waits_for)


def test_the_opening_of_logs_shows_how_far_it_is() -> None:
    loading = Loading(
        is_done=False, partitions_done=3, partitions_total=10, bytes_done=5, bytes_total=50, seconds_left=None
    )
    condition = health.logs(loading)
    assert condition.waits_for == "the opening of 7 of 10 partitions"
    assert condition.progress == {
        "partitions_done": 3,
        "partitions_total": 10,
        "bytes_done": 5,
        "bytes_total": 50,
        "seconds_left": None,
    }
    done = health.logs(loading._replace(is_done=True, partitions_done=10, seconds_left=0.0))
    assert (done.is_met, done.waits_for) == (True, "")
