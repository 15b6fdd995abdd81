"""`headgate census` over a modelled cluster."""

from __future__ import annotations

import pytest

from headgate.protocol.census.records import encode_key, encode_value
from headgate.protocol.census.rows import TOPIC, CensusClient, VersionUse
from headgate.protocol.messages.fetch import FetchRequest
from headgate.protocol.records import batch
from headgate.tools.arguments import now_ms
from headgate.tools.census import reading
from headgate.tools.census.command import main
from headgate.tools.tests.command_output import CommandOutput
from headgate.tools.tests.model_cluster import Log, ModelCluster

CLIENT = CensusClient("User:a", "old", "librdkafka", "1.0.0", "192.0.2.1", "SSL")
HOUR_MS = 3_600_000


class CensusOfCluster:
    """A modelled cluster whose topic a test fills."""

    def __init__(self, model: ModelCluster, capsys: pytest.CaptureFixture[str]) -> None:
        self.model = model
        self._capsys = capsys

    def keep(self, *records: tuple[bytes, bytes | None]) -> None:
        """One batch of the topic, whose leader is the second broker."""
        if TOPIC not in self.model.topics:
            self.model.topics[TOPIC].append(Log(leader=1))
        log = self.model.topics[TOPIC][0]
        rows = [batch.Record(log.end + number, 1, *record) for number, record in enumerate(records)]
        log.batches.append(bytes(batch.build(rows, base_offset=log.end)))
        log.end += len(records)

    def client(self, client_id: str, *versions: tuple[int, int], node_id: int = 0, age_ms: int = 0) -> None:
        last_ms = now_ms() - age_ms
        uses = [VersionUse(api_key, version, 5, last_ms - 10, last_ms) for api_key, version in versions]
        self.keep((encode_key(node_id, CLIENT._replace(client_id=client_id)), encode_value(uses)))

    def run(self, *arguments: str) -> CommandOutput:
        code = main(arguments)
        captured = self._capsys.readouterr()
        return CommandOutput(code, captured.out, captured.err)


@pytest.fixture
def census(model: ModelCluster, capsys: pytest.CaptureFixture[str]) -> CensusOfCluster:
    return CensusOfCluster(model, capsys)


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


def test_brokers_are_merged(census: CensusOfCluster) -> None:
    census.client("old", (1, 2), node_id=0)
    census.client("old", (1, 2), (1, 4), node_id=2)
    (row,) = census.run("--json").rows
    assert (row["node_ids"], row["requests"]) == ([0, 2], 15)


def test_the_last_record_of_a_client_counts_over_many_pieces(
    census: CensusOfCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PIECE_BYTES", 1_000)
    for number in range(40):
        census.client(f"client-{number}", (1, 2), (0, 7))
        census.client("again", (1, 11 + number % 2))
    census.keep((b"not ours", None), (encode_key(0, CLIENT._replace(client_id="client-3")), None))
    output = census.run("--json")
    assert len(output.rows) == 40
    assert len(census.model.of(FetchRequest)) > 10
    assert output.errors[1] == "1 records of the topic are none of this version's, and are left out"


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


def test_a_leader_that_is_gone_is_an_error(census: CensusOfCluster) -> None:
    census.client("old", (1, 2))
    census.model.dead.add(1)
    output = census.run("--timeout", "0.2")
    assert output.code == 1
    assert output.errors[0].startswith("the census cannot be read: ")


def test_damage_is_an_error(census: CensusOfCluster) -> None:
    census.client("old", (1, 2))
    log = census.model.topics[TOPIC][0]
    log.batches[0] = log.batches[0][:61] + b"\xff" * (len(log.batches[0]) - 61)
    output = census.run()
    assert output.code == 1
    assert output.errors[0].startswith("__headgate_census is damaged behind offset 0: ")


@pytest.mark.parametrize("target", ["5.0", "newest", ""])
def test_an_unknown_release_is_refused(
    census: CensusOfCluster, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        census.run("--target", target)
    assert ended.value.code == 2
    assert "is no known release of Kafka; these are known: 2.3, " in capsys.readouterr().err
