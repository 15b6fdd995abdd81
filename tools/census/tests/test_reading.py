"""The census of a cluster, read from its topic."""

from __future__ import annotations

import pytest

from headgate.protocol.census.records import encode_key
from headgate.protocol.census.rows import TOPIC
from headgate.protocol.messages.fetch import FetchRequest
from headgate.tools.census import reading
from headgate.tools.census.tests.census_of_cluster import CLIENT, CensusOfCluster


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
