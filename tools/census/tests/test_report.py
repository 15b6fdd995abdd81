"""The report about the clients of a census."""

from __future__ import annotations

from headgate.protocol.census.rows import CensusClient, CensusRow, VersionUse
from headgate.tools.census.report import report, summary

OLD = CensusClient("User:a", "billing-1", "librdkafka", "1.0.0", "192.0.2.17", "SASL_SSL")
NEW = CensusClient("User:b", None, None, None, "192.0.2.18", "PLAINTEXT")
DAY_MS = 86_400_000
TIMES = "from 1970-01-02 00:00 UTC to 1970-01-03 00:00 UTC"


def row(client: CensusClient, *versions: tuple[int, int], node_ids: tuple[int, ...] = (1,)) -> CensusRow:
    uses = [VersionUse(api_key, version, 10, DAY_MS, 2 * DAY_MS) for api_key, version in versions]
    return CensusRow(node_ids, client, uses)


def test_a_client_that_breaks_is_shown_with_each_reason() -> None:
    rows = [row(OLD, (18, 0), (1, 2), (2, 0), node_ids=(1, 2)), row(NEW, (1, 11))]
    assert list(report(rows, "4.1")) == [
        "2 clients in the census; Kafka 4.1 breaks 1.",
        "",
        f"billing-1 (librdkafka 1.0.0) as User:a from 192.0.2.17 at SASL_SSL: 30 requests to brokers 1, 2, {TIMES}",
        "  Fetch 2 is refused since Kafka 4.0; Kafka 4.1 has 4-18",
        "  ListOffsets 0 is refused since Kafka 4.0; Kafka 4.1 has 1-10",
        "  reads message format 1 (before Kafka 0.11) by Fetch 2, which Kafka 4 does not convert",
    ]
    assert summary(rows, "4.1") == "Kafka 4.1 breaks 1 of 2 clients"


def test_old_formats_are_shown_for_releases_that_convert_them() -> None:
    lines = list(report([row(OLD, (0, 1)), row(NEW, (1, 11))], "3.9"))
    assert lines[0] == "2 clients in the census; Kafka 3.9 breaks none of them."
    assert lines[2] == "Clients with old formats that go on with Kafka 3.9:"
    assert lines[5:] == ["  writes message format 0 (before Kafka 0.10) by Produce 1, which the broker converts"]


def test_all_clients_are_shown_on_demand() -> None:
    lines = list(report([row(NEW, (1, 11), (18, 3), (75, 0))], "3.6", shows_all=True))
    assert lines == [
        "1 client in the census; Kafka 3.6 breaks none of them.",
        "",
        "Clients that go on with Kafka 3.6:",
        "",
        f"no client id (unknown software) as User:b from 192.0.2.18 at PLAINTEXT: 30 requests to broker 1, {TIMES}",
        "  DescribeTopicPartitions is not in Kafka 3.6: the client does without, or fails",
    ]


def test_a_version_that_is_too_new_says_when_it_came() -> None:
    lines = list(report([row(NEW, (1, 17))], "3.8"))
    assert lines[3:] == ["  Fetch 17 comes with Kafka 3.9; Kafka 3.8 has 0-16"]
