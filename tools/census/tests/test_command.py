"""`headgate census` over a modelled cluster."""

from __future__ import annotations

import pytest

from headgate.tools.census import reading
from headgate.tools.census.tests.census_of_cluster import HOUR_MS, CensusOfCluster


def test_clients_that_break_are_an_alarm(census: CensusOfCluster) -> None:
    census.client("old", (1, 2), (0, 7))
    census.client("new", (1, 11), (18, 3))
    output = census.run("--target", "4.1", "--json")
    assert output.code == 3
    assert {row["client_id"]: row["kafka"]["breaks"] for row in output.rows} == {"old": True, "new": False}
    old = next(row for row in output.rows if row["client_id"] == "old")
    assert old["kafka"]["refused"] == [{"api": "Fetch", "version": 2, "since": "4.0", "is_too_new": False}]
    assert output.errors == ["Kafka 4.1 breaks 1 of 2 clients"]


def test_nobody_breaks_on_a_release_that_has_all_versions(census: CensusOfCluster) -> None:
    census.client("old", (1, 2))
    assert census.run("--target", "3.9").code == 0
    assert census.run().code == 3, "the newest release is the default"


def test_clients_that_are_gone_can_be_left_out(census: CensusOfCluster) -> None:
    census.client("old", (1, 2), age_ms=3 * HOUR_MS)
    census.client("new", (1, 11))
    assert census.run("--seen", "2h").code == 0
    assert census.run("--seen", "4h").code == 3


def test_a_report_is_for_people(census: CensusOfCluster) -> None:
    census.client("old\x1b[31m", (1, 2))
    output = census.run("--table")
    assert output.code == 3
    assert output.out.startswith("1 client in the census; Kafka 4.4 breaks 1.\n\nold\\x1b[31m (librdkafka 1.0.0)")
    assert "  Fetch 2 is refused since Kafka 4.0; Kafka 4.4 has 4-18\n" in output.out
    assert output.errors == []


def test_a_cluster_without_a_census_says_what_to_do(census: CensusOfCluster) -> None:
    output = census.run("--timeout", "1")
    assert output.code == 1
    assert output.errors == [reading.NO_CENSUS]


@pytest.mark.parametrize("target", ["5.0", "newest", ""])
def test_an_unknown_release_is_refused(
    census: CensusOfCluster, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        census.run("--target", target)
    assert ended.value.code == 2
    assert "is no known release of Kafka; these are known: 2.3, " in capsys.readouterr().err
