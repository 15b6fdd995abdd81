"""Verdicts: what a client would meet on a release of Kafka."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headgate.protocol.census import kafka_versions
from headgate.protocol.census.verdicts import READS, WRITES, judge, old_format, verdict_fields

PRODUCE, FETCH, LIST_OFFSETS, JOIN_GROUP, API_VERSIONS, DESCRIBE_TOPIC_PARTITIONS = 0, 1, 2, 11, 18, 75


@pytest.mark.parametrize("release", ["4.0.0", "4.0", "4.1", "4.4"])
def test_kafka_4_refuses_what_came_before_batches(release: str) -> None:
    verdict = judge([(FETCH, 3), (PRODUCE, 2), (LIST_OFFSETS, 0)], release)
    assert verdict.breaks
    assert [(row.api_key, row.version, row.since) for row in verdict.refused] == [
        (PRODUCE, 2, "4.0"),
        (FETCH, 3, "4.0"),
        (LIST_OFFSETS, 0, "4.0"),
    ]


def test_the_first_versions_that_kafka_4_serves_are_content() -> None:
    assert not judge([(FETCH, 4), (PRODUCE, 3), (LIST_OFFSETS, 1)], "4.1").breaks


def test_kafka_3_9_serves_every_version_of_before() -> None:
    verdict = judge([(FETCH, 0), (PRODUCE, 0), (LIST_OFFSETS, 0), (API_VERSIONS, 0)], "3.9")
    assert (verdict.breaks, verdict.lacking) == (False, [])


def test_a_patch_release_may_refuse_what_the_next_one_serves() -> None:
    (row,) = judge([(JOIN_GROUP, 1)], "4.0.0").refused
    assert (row.version, row.since) == (1, "4.0.0")
    assert not judge([(JOIN_GROUP, 1)], "4.0").breaks


def test_a_client_that_asks_for_versions_takes_older_ones() -> None:
    new = [(FETCH, 18), (PRODUCE, 13)]
    (produce, fetch) = judge(new, "3.9").refused
    assert (produce.is_too_new, produce.since, fetch.is_too_new, fetch.since) == (True, "4.1", True, "4.1")
    assert not judge([*new, (API_VERSIONS, 4)], "3.9").breaks


def test_no_version_of_api_versions_breaks_a_client() -> None:
    assert not judge([(API_VERSIONS, 99)], "2.8").breaks


def test_an_api_that_a_release_lacks_is_no_break() -> None:
    verdict = judge([(API_VERSIONS, 4), (DESCRIBE_TOPIC_PARTITIONS, 0)], "3.6")
    assert (verdict.breaks, list(verdict.lacking)) == (False, [DESCRIBE_TOPIC_PARTITIONS])


@pytest.mark.parametrize(
    "api_key, version, expected",
    [
        (PRODUCE, 0, (WRITES, 0)),
        (PRODUCE, 1, (WRITES, 0)),
        (PRODUCE, 2, (WRITES, 1)),
        (PRODUCE, 3, None),
        (FETCH, 0, (READS, 0)),
        (FETCH, 1, (READS, 0)),
        (FETCH, 2, (READS, 1)),
        (FETCH, 3, (READS, 1)),
        (FETCH, 4, None),
        (LIST_OFFSETS, 0, None),
    ],
)
def test_versions_say_which_message_format_they_carry(
    api_key: int, version: int, expected: tuple[str, int] | None
) -> None:
    found = old_format(api_key, version)
    assert (found and found[:2]) == expected
    old_formats = judge([(api_key, version)], "2.8").old_formats
    assert [row[:2] for row in old_formats] == ([] if expected is None else [expected])


def test_a_verdict_has_names_in_json() -> None:
    assert verdict_fields(judge([(FETCH, 2), (DESCRIBE_TOPIC_PARTITIONS, 0), (88, 1)], "4.0")) == {
        "release": "4.0",
        "breaks": True,
        "refused": [{"api": "Fetch", "version": 2, "since": "4.0", "is_too_new": False}],
        "lacking": ["StreamsGroupHeartbeat"],
        "old_formats": [{"action": "reads", "message_format": 1, "api": "Fetch", "version": 2}],
    }


def test_clients_of_the_matrix_break_where_they_broke_on_kafka_41() -> None:
    """The versions are those that each client used with Headgate; the results those on a real Kafka 4.1."""
    compat = Path(kafka_versions.__file__).resolve().parents[2] / "compat_tests"
    used = json.loads((compat / "matrix" / "used.json").read_text())
    works = json.loads((compat / "census" / "on_kafka41.json").read_text())
    assert len(works) >= 49
    verdicts = {
        client: judge([(int(key), version) for key, versions in apis.items() for version in versions], "4.1")
        for client, apis in used.items()
        if client in works
    }
    assert {client: not verdict.breaks for client, verdict in verdicts.items()} == works
