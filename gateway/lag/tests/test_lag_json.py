"""`/v1/lag.json`: whole JSON in small slices, null for what is not known."""

from __future__ import annotations

import json
from typing import Any, cast

from headgate.gateway.lag import lag_json
from headgate.gateway.lag.lag_collector import LagCollector
from headgate.gateway.lag.readers import Committed, GroupLag, GroupPartitionLag, LagSurvey, OwningMember
from headgate.protocol.lag.verdicts import Verdict
from headgate.protocol.steps import Steps

OWNER = OwningMember("m-1", "m", "/192.0.2.1")
ROW = GroupPartitionLag("t", 0, Committed(5, 1_000), 0, 9, 4, 1.2345, "ok", Verdict.WARN, 3, OWNER, 7)
UNKNOWN = GroupPartitionLag('"\n', 1, Committed(5, -1), None, None, None, None, "unknown", None, None, None)


class Surveyed:
    """A collector with one survey, which takes two steps."""

    interval_ms = 10_000.0

    def __init__(self, *groups: GroupLag) -> None:
        self.groups = groups

    def survey(self) -> Steps[LagSurvey]:
        yield
        yield
        return LagSurvey(77, self.groups)


def group(name: str, *rows: GroupPartitionLag, error: str | None = None) -> GroupLag:
    return GroupLag(name, "classic", "", 2, 4, 1.2345, Verdict.WARN, error, rows)


def slices(*groups: GroupLag) -> list[bytes]:
    return list(lag_json.slices(cast("LagCollector", Surveyed(*groups)), 3))


def parsed(*groups: GroupLag) -> Any:
    return json.loads(b"".join(slices(*groups)))


def test_a_group_with_its_partitions() -> None:
    value = parsed(group("g", ROW, UNKNOWN, error="e"))
    assert value == {
        "node_id": 3,
        "measured_ms": 77,
        "interval_ms": 10_000,
        "groups": [
            {
                "group": "g", "type": "classic", "state": None, "members": 2, "verdict": "WARN", "lag_records": 4,
                "lag_ms": 1234, "error": "e",
                "partitions": [
                    {
                        "topic": "t", "partition": 0, "committed_offset": 5, "committed_ms": 1_000, "start_offset": 0,
                        "end_offset": 9, "stable_end_offset": 7, "lag_records": 4, "lag_ms": 1234, "status": "ok",
                        "verdict": "WARN", "leader": 3,
                        "owner": {"member_id": "m-1", "client_id": "m", "host": "/192.0.2.1"},
                    },
                    {
                        "topic": '"\n', "partition": 1, "committed_offset": 5, "committed_ms": None,
                        "start_offset": None, "end_offset": None, "stable_end_offset": None, "lag_records": None,
                        "lag_ms": None, "status": "unknown", "verdict": None, "leader": None, "owner": None,
                    },
                ],
            }
        ],
    }  # fmt: skip


def test_no_groups() -> None:
    assert parsed()["groups"] == []
    assert parsed(group("a"), group("b"))["groups"][1]["partitions"] == []


def test_slices_are_small_in_large_groups_and_with_many() -> None:
    large, many = group("g", *[ROW] * 1_000), [group(str(number)) for number in range(1_000)]
    assert len(parsed(large, *many)["groups"]) == 1_001
    made = slices(large, *many)
    assert made[:2] == [b"", b""]
    assert max(map(len, made)) <= 1.1 * (lag_json.ROWS_AT_ONCE + 1) * len(json.dumps(lag_json.partition_fields(ROW)))
