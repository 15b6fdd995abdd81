"""Live: only what comes from now on, a bounded number of rows, and readers that cannot keep up."""

from __future__ import annotations

from typing import Any

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.messages.tail import Tail
from headgate.tools.console.messages.tests.partitions import (
    BOOTSTRAP,
    Clock,
    append,
    decoder_of,
    fill,
    query_of,
    text,
    values_of,
)
from headgate.tools.tests.model_cluster import ModelCluster


class Follower:
    """A tail that a test reads round by round."""

    def __init__(self, **options: Any) -> None:
        query = query_of(start="live", **options)
        self.clock = Clock()
        self.cluster = Cluster(BOOTSTRAP)
        self._events = Tail(self.cluster, query, decoder_of(query), self.clock.time).run()
        assert next(self._events)["event"] == "start"

    def round(self) -> list[dict[str, Any]]:
        """The events of a round; the last one is its progress."""
        events = [next(self._events)]
        while events[-1]["event"] == "rows":
            events.append(next(self._events))
        return events


def test_new_messages_are_shown_and_old_ones_are_not(model: ModelCluster) -> None:
    fill(model)
    tail = Follower()
    assert values_of(tail.round()) == []
    append(model.topics["t"][1], [text(1001, "new 1"), text(1003, "new 3")])
    append(model.topics["t"][0], [text(1002, "new 2")])
    assert values_of(tail.round()) == ["new 1", "new 2", "new 3"]
    assert values_of(tail.round()) == []
    assert tail.clock.slept  # a quiet topic is asked twice a second


def test_filters_and_isolation_hold(model: ModelCluster) -> None:
    fill(model, partitions=1)
    log = model.topics["t"][0]
    tail = Follower(filters={"text": "yes"}, isolation="read_committed")
    append(log, [text(1, "yes"), text(2, "no")])
    log.stable = log.end
    append(log, [text(3, "yes, but open")], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert values_of(tail.round()) == ["yes"]
    assert values_of(tail.round()) == []
    log.stable = None
    assert values_of(tail.round()) == ["yes, but open"]


def test_a_flood_shows_the_newest_and_counts_the_others(model: ModelCluster) -> None:
    fill(model, partitions=1)
    tail = Follower()
    append(model.topics["t"][0], [text(at, f"message {at}") for at in range(1000)])
    events = tail.round()
    assert values_of(events)[-1] == "message 999"
    assert len(values_of(events)) == 100
    assert events[-1]["rows_skipped"] == 900


def test_a_reader_that_is_far_behind_goes_on_near_the_end(model: ModelCluster) -> None:
    fill(model, partitions=1)
    tail = Follower()
    for _ in range(60):
        append(model.topics["t"][0], [text(1, "x" * 100)] * 1000)
    assert tail.round()[-1]["offsets_skipped"] > 50_000
    append(model.topics["t"][0], [text(2, "the last")])
    assert values_of(tail.round())[-1] == "the last"


def test_a_failure_is_told_and_passes(model: ModelCluster) -> None:
    fill(model, partitions=1)
    tail = Follower()

    def disturb(node: int, request: Any, version: int) -> Any:
        if not isinstance(request, FetchRequest):
            return None
        row = PartitionData(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1, records=b"")
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[row])])

    model.disturb = disturb
    assert "TOPIC_AUTHORIZATION_FAILED" in tail.round()[-1]["problems"][0]
    model.disturb = lambda node, request, version: None
    append(model.topics["t"][0], [text(1, "again")])
    events = tail.round()
    assert values_of(events) == ["again"]
    assert events[-1]["problems"] == []
