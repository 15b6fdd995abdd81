from __future__ import annotations

import pytest

from headgate.protocol.schema import Versions
from headgate.tools.doctor.check_result import NOTE, OK, WRONG
from headgate.tools.doctor.cluster.release import check_versions, release_of, served_clients

BASE = {0: (0, 7), 1: (0, 8), 2: (0, 5), 3: (0, 7), 9: (0, 5), 10: (0, 2), 11: (0, 3), 18: (0, 2)}


def served(**changed: tuple[int, int]) -> dict[int, Versions]:
    rows = {**BASE, **{int(api.removeprefix("a")): span for api, span in changed.items()}}
    return {api: Versions(*span) for api, span in rows.items()}


@pytest.mark.parametrize(
    "changed, release",
    [
        ({}, "2.0"),
        ({"a1": (0, 10)}, "2.1"),
        ({"a1": (0, 11)}, "2.3"),
        ({"a0": (0, 9), "a1": (0, 12)}, "2.8"),
        ({"a1": (0, 17)}, "3.9"),
        ({"a0": (0, 13), "a1": (4, 18)}, "4.1"),
        ({"a1": (0, 2)}, "older than 0.10.1"),
    ],
)
def test_the_release_of_versions(changed: dict[str, tuple[int, int]], release: str) -> None:
    assert release_of(served(**changed)) == release


def test_the_oldest_clients() -> None:
    assert served_clients(served()).oldest == "0.8"
    found = served_clients(served(a1=(4, 17), a2=(1, 10)))
    assert (found.oldest, found.refusing) == ("0.11", "Fetch from version 4 on")
    assert served_clients(served(a1=(13, 20))).oldest == "newer than 3.0"
    assert served_clients({}).oldest == "newer than 3.0"


def test_old_clients_that_cannot_are_a_note() -> None:
    assert check_versions("broker 1", served(), is_headgate=False).state == OK
    row = check_versions("broker 1", served(a1=(4, 17)), is_headgate=True, headgate="0.1")
    assert row.state == NOTE
    assert "is Headgate 0.1 with the APIs of Kafka 3.9; clients of Kafka 0.11 and newer" in row.found


def test_a_broker_without_a_version_of_this_client_is_wrong() -> None:
    row = check_versions("broker 1", served(a0=(99, 99)), is_headgate=False)
    assert row.state == WRONG
    assert "no Produce" in row.found
