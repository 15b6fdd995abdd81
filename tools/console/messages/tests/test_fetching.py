"""Fetches: the isolation that tells about transactions, large batches, answers without progress."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.protocol.client.failure import Failure
from headgate.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.messages.fetching import PieceFetcher
from headgate.tools.console.messages.record_batches import FetchedPiece
from headgate.tools.console.messages.tests.partitions import BOOTSTRAP, append, fill, text
from headgate.tools.tests.model_cluster import Log, ModelCluster


def fetch(
    offsets: dict[int, int], stable: dict[int, int], *, is_committed: bool = False, size: int = 1 << 20
) -> tuple[dict[int, FetchedPiece], dict[int, Failure]]:
    with Cluster(BOOTSTRAP, timeout_s=0.2) as cluster:
        fetcher = PieceFetcher(cluster, "t", stable, is_committed=is_committed, sleep=lambda _: None)
        return fetcher.fetch(offsets, size)


def isolations(model: ModelCluster) -> list[int]:
    return [request.isolation_level for request in model.of(FetchRequest)]


@pytest.mark.parametrize(
    "offset, is_committed, isolation", [(3, False, 1), (3, True, 1), (10, False, 0), (10, True, 1), (15, False, 0)]
)
def test_only_records_behind_the_stable_offset_are_fetched_uncommitted(
    model: ModelCluster, offset: int, is_committed: bool, isolation: int
) -> None:
    fill(model, partitions=1)
    pieces, _ = fetch({0: offset}, {0: 10}, is_committed=is_committed)
    assert set(isolations(model)) == {isolation}
    assert (pieces[0].aborted is None) is (isolation == 0)


def test_many_partitions_take_one_request_a_leader(model: ModelCluster) -> None:
    fill(model, partitions=9)
    pieces, failures = fetch(dict.fromkeys(range(9), 0), dict.fromkeys(range(9), 20))
    assert (len(pieces), failures, len(model.of(FetchRequest))) == (9, {}, 3)


def test_a_batch_that_had_no_room_is_fetched_alone(model: ModelCluster) -> None:
    for _ in range(2):
        model.topics["t"].append(Log())
        append(model.topics["t"][-1], [text(1, "x" * 5000)])
    pieces, _ = fetch({0: 0, 1: 0}, {0: 1, 1: 1}, size=1000)
    assert [len(piece.data) > 5000 for piece in pieces.values()] == [True, True]


def test_the_end_of_the_log_is_the_last_piece(model: ModelCluster) -> None:
    fill(model, partitions=1)
    model.topics["t"][0].end = 50
    pieces, _ = fetch({0: 30}, {0: 50})
    assert pieces[0].is_last


def test_deleted_offsets_lead_to_the_new_start(model: ModelCluster) -> None:
    fill(model, partitions=1)
    model.topics["t"][0].start = 10
    pieces, _ = fetch({0: 3}, {0: 20})
    assert (pieces[0].start_offset, pieces[0].data) == (10, b"")
    _, failures = fetch({0: 99}, {0: 20})
    assert "ends before offset 99" in failures[0].text


def test_a_throttled_reader_waits_and_asks_again(model: ModelCluster) -> None:
    fill(model, partitions=1)
    throttled = 2

    def disturb(node: int, request: Any, version: int) -> Any:
        nonlocal throttled
        if not isinstance(request, FetchRequest) or not throttled:
            return None
        throttled -= 1
        row = PartitionData(0, 0, 20, records=b"")
        return FetchResponse(throttle_time_ms=70, responses=[FetchableTopicResponse(topic="t", partitions=[row])])

    model.disturb = disturb
    slept: list[float] = []
    with Cluster(BOOTSTRAP, sleep=slept.append) as cluster:
        pieces, failures = PieceFetcher(cluster, "t", {0: 20}, is_committed=False, sleep=slept.append).fetch({0: 0}, 1)
    assert failures == {}
    assert not pieces[0].is_last
    assert 0.07 in slept


def test_half_a_batch_for_ever_is_a_failure(model: ModelCluster) -> None:
    fill(model, partitions=1)

    def disturb(node: int, request: Any, version: int) -> Any:
        if not isinstance(request, FetchRequest):
            return None
        row = PartitionData(0, 0, 20, records=model.topics["t"][0].batches[0][:-3])
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[row])])

    model.disturb = disturb
    _, failures = fetch({0: 0}, {0: 20})
    assert "a part of a batch only" in failures[0].text
