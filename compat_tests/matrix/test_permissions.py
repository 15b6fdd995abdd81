"""What an API asks an authorizer is read out of recorded answers."""

from __future__ import annotations

import pytest

from compat_tests.matrix import permissions
from compat_tests.matrix.permissions import permissions_of

FETCH = """\
Fetch: some\t4-12\tnone\t(denied)
Fetch: some\t4-12\ttopic-READ topic-ALL\t(records)
Fetch: some\t4-12\tall\t(all records)
Fetch: some\t4-12\tbut-topic-READ but-topic-ALL\t(other records)
"""
CREATE = """\
CreateTopics: some\t0\tnone\t(denied)
CreateTopics: some\t0\ttopic-CREATE cluster-CREATE\t(made)
CreateTopics: some\t0\tall\t(made)
"""
DESCRIBE = """\
DescribeGroups: some\t5\tnone\t(denied)
DescribeGroups: some\t5\tgroup-READ\t(shown authorized_operations=264)
DescribeGroups: some\t5\tgroup-DESCRIBE\t(shown authorized_operations=256)
DescribeGroups: some\t5\tall\t(shown all authorized_operations=328)
DescribeGroups: some\t5\tbut-group-READ\t(shown all authorized_operations=320)
DescribeGroups: some\t5\tbut-group-DESCRIBE\t(denied in part)
"""
NOTHING = "ApiVersions: all\t0-3\tnone all\t()\nApiVersions: all\t5\tnone all\t()\n"


def test_a_denial_that_matters_is_an_operation_that_is_needed() -> None:
    asked = permissions_of([FETCH])["Fetch"]
    assert str(asked) == "Topic: Read"
    assert asked.versions == {*range(4, 13)}


def test_an_operation_that_is_enough_stands_behind_or() -> None:
    assert str(permissions_of([CREATE])["CreateTopics"]) == "Topic: Create or Cluster: Create"


def test_implied_operations_and_rights_of_the_client_say_nothing() -> None:
    assert str(permissions_of([DESCRIBE])["DescribeGroups"]) == "Group: Describe"


def test_an_api_for_everybody_asks_nothing() -> None:
    asked = permissions_of([NOTHING])["ApiVersions"]
    assert str(asked) == ""
    assert asked.versions == {0, 1, 2, 3, 5}


def test_the_answers_of_all_recorded_kafkas_count() -> None:
    asked = permissions_of([FETCH, FETCH.replace("4-12", "0-3")])["Fetch"]
    assert asked.versions == {*range(13)}


@pytest.mark.parametrize(
    "api, expected",
    [
        ("Heartbeat", "Group: Read"),
        ("OffsetCommit", "Topic: Read; Group: Read"),
        ("AddOffsetsToTxn", "Group: Read; TransactionalId: Write"),
        ("CreateAcls", "Cluster: Alter"),
        ("SaslHandshake", ""),
    ],
)
def test_the_recorded_kafkas_ask_what_their_page_says(api: str, expected: str) -> None:
    assert str(permissions.load()[api]) == expected
