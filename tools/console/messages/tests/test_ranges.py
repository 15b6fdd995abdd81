"""The offsets of a search: by ends, offsets, times, pages."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.messages.ranges import SearchRanges, find_ranges
from headgate.tools.console.messages.tests.partitions import BOOTSTRAP, fill, query_of
from headgate.tools.tests.model_cluster import ModelCluster


def ranges(**options: Any) -> SearchRanges:
    with Cluster(BOOTSTRAP, timeout_s=0.2) as cluster:
        return find_ranges(cluster, query_of(**options))


def test_a_search_reads_all_up_to_the_end_of_now(model: ModelCluster) -> None:
    fill(model, partitions=2)
    model.topics["t"][0].start = 5
    assert ranges().ranges == {0: (5, 20), 1: (0, 20)}
    assert ranges(start="live").ranges == {0: (20, 20), 1: (20, 20)}


def test_readers_of_committed_records_stop_at_open_transactions(model: ModelCluster) -> None:
    fill(model, partitions=1)
    model.topics["t"][0].stable = 7
    assert ranges(isolation="read_committed").ranges == {0: (0, 7)}
    assert ranges().ranges == {0: (0, 20)}
    assert ranges().stable == {0: 7}


def test_offsets_outside_of_the_log_are_cut(model: ModelCluster) -> None:
    fill(model, partitions=1)
    model.topics["t"][0].start = 5
    assert ranges(start="offset", offset=0).ranges == {0: (5, 20)}
    assert ranges(start="offset", offset=99).ranges == {0: (20, 20)}


def test_a_partition_that_cannot_be_read_is_named(model: ModelCluster) -> None:
    fill(model)
    model.dead.add(1)
    found = ranges()
    assert set(found.ranges) == {0, 2}
    assert "t-1 cannot be read" in found.problems[0]
    model.dead.update((0, 2))
    with pytest.raises(ClientError, match="no broker answers"):
        ranges()


def test_a_time_without_an_answer_is_a_failure(model: ModelCluster) -> None:
    fill(model, partitions=1)

    def disturb(node: int, request: Any, version: int) -> Any:
        if not isinstance(request, ListOffsetsRequest) or request.topics[0].partitions[0].timestamp < 0:
            return None
        row = ListOffsetsPartitionResponse(0, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [row])])

    model.disturb = disturb
    with pytest.raises(ClientError, match="the offset of the time is not known"):
        ranges(start="time", time_ms=5)
