"""Random histories of transactional and plain commits, markers, faults and loads, over the log of a coordinator.

After each event the live offsets are those of the log: committed ones, and pending ones of open transactions.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch, Ticket
from headgate.gateway.coordinator.groups import offset_expiration, offset_requests
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.groups.tests.groups import state_of_offsets
from headgate.gateway.coordinator.log_replay import LogReplay
from headgate.gateway.coordinator.tests.coordinator_bench import Bench, refused
from headgate.gateway.tests.scripted import STORAGE_ERROR
from headgate.protocol.messages.heartbeat import HeartbeatResponse
from headgate.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headgate.protocol.records.batch import read_header
from headgate.protocol.records.control import Marker
from headgate.protocol.tests.examples import share

PRODUCERS = range(1, 4)


def rebuilt(bench: Bench) -> GroupShard:
    """The shard that a load gives now."""
    replay = LogReplay(bench.new_shard(), bench.partition.log.start_offset)
    for _ in replay.replay(b"".join(bench.partition.log.batches)):
        pass
    assert replay.skipped == replay.unknown == 0, replay.problem
    return replay.shard


class History:
    """Each event has a producer and a group; the offsets are all different."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.bench.run()
        self.last_offset = 0

    def commit(self, producer: int, group: str) -> None:
        self.last_offset += 1
        self.bench.commit(self.last_offset, group)

    def commit_staged(self, producer: int, group: str) -> None:
        self.last_offset += 1
        self.bench.stage(self.last_offset, group)

    def commit_in_transaction(self, producer: int, group: str) -> None:
        self.last_offset += 1
        self._commit_in_transaction(producer, group)

    def commit_in_transaction_staged(self, producer: int, group: str) -> None:
        self.last_offset += 1
        self._commit_in_transaction(producer, group, failure_response=refused)

    def _commit_in_transaction(self, producer: int, group: str, **options: Any) -> None:
        rows = [TxnOffsetCommitRequestPartition(0, self.last_offset)]
        topics = [TxnOffsetCommitRequestTopic("t", partitions=rows)]
        request = TxnOffsetCommitRequest("id", group, producer, 0, topics=topics)

        def decide(shard: GroupShard, ticket: Ticket) -> Decision:
            return offset_requests.commit_in_transaction(shard, request, 3, ticket)

        self.bench.ask(decide, group, **options)

    def mark_committed(self, producer: int, group: str) -> None:
        self._mark(producer, is_commit=True)

    def mark_aborted(self, producer: int, group: str) -> None:
        self._mark(producer, is_commit=False)

    def _mark(self, producer: int, *, is_commit: bool) -> None:
        def decide(_: GroupShard, ticket: Ticket) -> Decision:
            return Decision(
                replies=[(ticket, HeartbeatResponse())],
                producer=ProducerIdAndEpoch(producer, 0),
                marker=Marker(is_commit, 0),
            )

        self.bench.ask(decide, "")

    def forget_topic(self, producer: int, group: str) -> None:
        coordinator = self.bench.coordinator
        shard = coordinator.shard
        if shard is not None:
            coordinator.run_each(shard, offset_expiration.forget_topics(shard, {"t": shard.timestamp_ms()}))

    def expire(self, producer: int, group: str) -> None:
        coordinator = self.bench.coordinator
        if coordinator.shard is not None:
            late_ms = self.bench.time.clock.now_ms() + 10 * coordinator.shard.settings.offsets_retention_ms
            coordinator.run_each(coordinator.shard, offset_expiration.expire(coordinator.shard, late_ms))

    def fail(self, producer: int, group: str) -> None:
        self.bench.partition.fails, self.bench.partition.tears = STORAGE_ERROR, group == "g"

    def slow_down(self, producer: int, group: str) -> None:
        self.bench.partition.is_slow = True

    def finish_write(self, producer: int, group: str) -> None:
        if self.bench.partition.writes:
            self.bench.partition.finish_write()

    def recover(self, producer: int, group: str) -> None:
        partition = self.bench.partition
        partition.fails, partition.tears, partition.is_slow = None, False, False

    def reload(self, producer: int, group: str) -> None:
        self.bench.coordinator.reload("for a test")

    def cut(self, producer: int, group: str) -> None:
        """The log loses its last batch, if nothing is being written."""
        partition = self.bench.partition
        self.bench.batcher.write_all()
        if partition.writes or not partition.log.batches:
            return
        partition.log.end_offset = read_header(partition.log.batches.pop()).base_offset
        partition.high_watermark = min(partition.high_watermark, partition.log.end_offset)
        self.bench.cut()

    def check(self) -> None:
        """At the end of a turn, with nothing staged."""
        self.bench.batcher.write_all()
        self.bench.time.advance()
        shard = self.bench.coordinator.shard
        if shard is not None:
            assert state_of_offsets(rebuilt(self.bench).offsets) == state_of_offsets(shard.offsets)


EVENTS = [name for name in vars(History) if not name.startswith("_") and name != "check"]
EVENTS += ["commit_in_transaction", "commit_in_transaction_staged", "mark_committed"] * 2


@pytest.mark.slow
@settings(max_examples=share(80, soak=200))
@given(
    st.lists(
        st.tuples(st.sampled_from(EVENTS), st.sampled_from(PRODUCERS), st.sampled_from("gh")), min_size=10, max_size=60
    )
)
def test_the_live_offsets_are_those_of_the_log(events: list[tuple[str, int, str]]) -> None:
    history = History()
    for name, producer, group in events:
        getattr(history, name)(producer, group)
        history.check()
    history.recover(0, "g")
    while history.bench.partition.writes:
        history.finish_write(0, "g")
    for _ in range(10):
        history.bench.time.advance(1_000)
        history.check()
    assert history.bench.coordinator.shard is not None, "it is loaded in the end"
    for producer in PRODUCERS:
        history.mark_committed(producer, "g")
        history.check()
    offsets = history.bench.shard.offsets
    assert offsets.pending == {}
    assert offsets._groups_of == {}
