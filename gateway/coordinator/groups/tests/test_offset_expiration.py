"""Expiry of offsets, and what becomes of those of deleted topics: Kafka's rules (KIP-211), alone and all at random."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headgate.gateway.coordinator.decision import Decision, Records
from headgate.gateway.coordinator.groups import offset_expiration, offset_requests
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.groups.settings import GroupSettings
from headgate.gateway.coordinator.groups.tests.groups import Desk, persistent_state, state_of_offsets
from headgate.protocol.errors import KafkaError
from headgate.protocol.internal.offsets import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from headgate.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headgate.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headgate.protocol.tests.examples import share

HOUR = 3_600_000
RETENTION = 24 * HOUR
TOPICS = {"t": 3, "u": 2}


class Members:
    """A group with members, as far as expiry asks it."""

    kind, protocol_type, due_ms = "classic", "consumer", float("inf")

    def __init__(self, state: str = "Stable", topics: tuple[str, ...] = (), since_ms: int | None = None) -> None:
        self.group_id, self.state, self.topics, self._since_ms = "g", state, topics, since_ms

    def subscribes_to(self, topic: str) -> bool:
        return topic in self.topics

    def expires_from(self, committed_ms: int) -> int | None:
        if self.state == "PreparingRebalance":
            return None
        return committed_ms if self._since_ms is None else self._since_ms

    def tombstones(self) -> Records:
        return [(GroupMetadataKey(self.group_id), None)]


@pytest.fixture
def desk() -> Desk:
    return Desk(topics=TOPICS, settings=GroupSettings(offsets_retention_ms=RETENTION))


def commit(desk: Desk, places: list[tuple[str, int]], group: str = "g", version: int = 8, **options: Any) -> None:
    topics = [
        OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(index, 5)]) for topic, index in places
    ]
    request = OffsetCommitRequest(group, topics=topics, **options)
    desk.run(offset_requests.commit(desk.shard, request, version, desk.ticket(), desk.now_ms))


def sweep(desk: Desk) -> list[tuple[Any, ...]]:
    """Look for expired offsets; what was ended, as (topic, partition) or (group,)."""
    before = len(desk.records)
    for decision in offset_expiration.expire(desk.shard, desk.timestamp_ms):
        desk.run(decision)
    return ended(desk, before)


def ended(desk: Desk, since: int) -> list[tuple[Any, ...]]:
    assert all(value is None for _, value in desk.records[since:])
    return [
        (key.topic, key.partition) if isinstance(key, OffsetCommitKey) else (key.group,)  # type: ignore[attr-defined]
        for key, _ in desk.records[since:]
    ]


def test_offsets_of_a_simple_group_expire_after_their_commit(desk: Desk) -> None:
    commit(desk, [("t", 0)])
    desk.advance(HOUR)
    commit(desk, [("t", 1), ("u", 0)])
    desk.advance(RETENTION - HOUR - 1)
    assert sweep(desk) == []
    desk.advance(1)
    assert sweep(desk) == [("t", 0)]
    assert sweep(desk) == []
    assert list(desk.shard.groups) == ["g"]
    desk.advance(HOUR)
    assert sweep(desk) == [("t", 1), ("u", 0), ("g",)]
    assert desk.shard.groups == {}
    desk.check_rebuilt()


def test_a_commit_starts_the_time_again(desk: Desk) -> None:
    commit(desk, [("t", 0)])
    desk.advance(RETENTION - 1)
    commit(desk, [("t", 0)])
    desk.advance(RETENTION - 1)
    assert sweep(desk) == []
    desk.advance(1)
    assert sweep(desk) == [("t", 0), ("g",)]


def test_a_commit_may_have_a_retention_of_its_own(desk: Desk) -> None:
    commit(desk, [("t", 0)], version=3, retention_time_ms=HOUR)
    commit(desk, [("t", 1)], version=3, retention_time_ms=2 * RETENTION)
    commit(desk, [("t", 2)], version=3, retention_time_ms=-1)
    desk.advance(HOUR - 1)
    assert sweep(desk) == []
    desk.advance(1)
    assert sweep(desk) == [("t", 0)]
    desk.advance(RETENTION - HOUR)
    assert sweep(desk) == [("t", 2)]
    desk.advance(RETENTION)
    assert sweep(desk) == [("t", 1), ("g",)]


def test_v1_says_from_when_it_counts(desk: Desk) -> None:
    partition = OffsetCommitRequestPartition(0, 5, commit_timestamp=desk.timestamp_ms - RETENTION)
    request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=[partition])])
    desk.run(offset_requests.commit(desk.shard, request, 1, desk.ticket(), desk.now_ms))
    assert sweep(desk) == [("t", 0), ("g",)]


def empty_group(desk: Desk, since_ms: int) -> None:
    """What a group leaves behind when its last member is gone."""
    value = GroupMetadataValue("consumer", 7, None, None, since_ms)
    desk.run(Decision([(GroupMetadataKey("g"), value)]))


def test_an_empty_group_is_counted_from_when_it_became_so(desk: Desk) -> None:
    commit(desk, [("t", 0)])
    desk.advance(10 * RETENTION)
    empty_group(desk, desk.timestamp_ms)
    commit(desk, [("t", 1)], version=3, retention_time_ms=HOUR)
    desk.advance(HOUR)
    assert sweep(desk) == [("t", 1)]
    desk.advance(RETENTION - HOUR - 1)
    commit(desk, [("u", 0)])  # by an admin: it goes with the others all the same
    assert sweep(desk) == []
    desk.advance(1)
    assert sweep(desk) == [("t", 0), ("u", 0), ("g",)]
    desk.check_rebuilt()


def test_an_empty_group_of_before_kip_211_is_counted_from_the_commit(desk: Desk) -> None:
    empty_group(desk, -1)
    commit(desk, [("t", 0)])
    desk.advance(RETENTION - 1)
    assert sweep(desk) == []
    desk.advance(1)
    assert sweep(desk) == [("t", 0), ("g",)]


def test_an_empty_group_without_offsets_goes_at_once(desk: Desk) -> None:
    empty_group(desk, desk.timestamp_ms)
    assert sweep(desk) == [("g",)]


def test_topics_in_use_are_kept(desk: Desk) -> None:
    commit(desk, [("t", 0), ("t", 1), ("u", 0)])
    desk.shard.groups["g"] = Members(topics=("t",))  # type: ignore[assignment]
    desk.advance(RETENTION)
    assert sweep(desk) == [("u", 0)]
    assert list(desk.shard.offsets.of("g")) == [("t", 0), ("t", 1)]


def test_nothing_expires_in_a_rebalance(desk: Desk) -> None:
    commit(desk, [("t", 0)], version=3, retention_time_ms=HOUR)
    desk.shard.groups["g"] = Members("PreparingRebalance")  # type: ignore[assignment]
    desk.advance(10 * RETENTION)
    assert sweep(desk) == []


def test_a_group_with_members_stays_without_offsets(desk: Desk) -> None:
    commit(desk, [("u", 0)])
    desk.shard.groups["g"] = Members(topics=("t",))  # type: ignore[assignment]
    desk.advance(RETENTION)
    assert sweep(desk) == [("u", 0)]
    assert sweep(desk) == []


def test_open_transactions_keep_offsets_and_groups(desk: Desk) -> None:
    commit(desk, [("t", 0), ("t", 1)])
    desk.shard.offsets.pending["g"] = {4: {"t": {1: b""}}}
    desk.advance(RETENTION)
    assert sweep(desk) == [("t", 0)]
    del desk.shard.offsets.pending["g"]
    assert sweep(desk) == [("t", 1), ("g",)]


def test_a_group_stays_for_what_a_transaction_will_bring(desk: Desk) -> None:
    commit(desk, [("t", 0)])
    desk.shard.offsets.pending["g"] = {4: {"u": {0: b""}}}
    desk.advance(RETENTION)
    assert sweep(desk) == [("t", 0)]
    assert sweep(desk) == []
    assert list(desk.shard.groups) == ["g"]


# In steps


def steps_of(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(offset_expiration, "OFFSETS_A_STEP", size)


def test_many_offsets_are_looked_at_in_steps(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    steps_of(monkeypatch, 10)
    for group in range(30):
        commit(desk, [("t", 0), ("t", 1), ("u", 0)], group=f"g{group}")
    desk.advance(RETENTION)
    sizes = []
    for decision in offset_expiration.expire(desk.shard, desk.timestamp_ms):
        assert not decision.is_atomic
        sizes.append(len(decision.records))
        desk.run(decision)
    assert max(sizes) <= 14
    assert sum(sizes) == 30 * 4
    assert persistent_state(desk.shard) == ({}, {})


def test_a_group_that_spans_steps_goes_with_the_last(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    steps_of(monkeypatch, 1)
    commit(desk, [("t", 0), ("t", 1), ("u", 0)])
    desk.advance(RETENTION)
    batches = [
        len(decision.records)
        for decision in offset_expiration.expire(desk.shard, desk.timestamp_ms)
        if desk.run(decision) == []
    ]
    assert batches == [1, 1, 1, 1, 0]
    assert persistent_state(desk.shard) == ({}, {})


def test_a_commit_between_two_steps_keeps_the_group(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    steps_of(monkeypatch, 1)
    commit(desk, [("t", 0), ("u", 0)])
    desk.advance(RETENTION)
    steps = offset_expiration.expire(desk.shard, desk.timestamp_ms)
    desk.run(next(steps))
    commit(desk, [("t", 0)])
    for decision in steps:
        desk.run(decision)
    assert list(desk.shard.offsets.of("g")) == [("t", 0)]
    assert list(desk.shard.groups) == ["g"]


def test_a_step_that_could_not_be_written_keeps_the_group(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    steps_of(monkeypatch, 1)
    commit(desk, [("t", 0), ("u", 0)])
    desk.advance(RETENTION)
    steps = offset_expiration.expire(desk.shard, desk.timestamp_ms)
    desk.fail(next(steps))
    for decision in steps:
        desk.run(decision)
    assert list(desk.shard.offsets.of("g")) == [("t", 0)]
    assert list(desk.shard.groups) == ["g"]
    assert sweep(desk) == [("t", 0), ("g",)]


def test_groups_may_go_between_steps(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    steps_of(monkeypatch, 1)
    for group in ("g", "h", "i"):
        commit(desk, [("t", 0), ("u", 0)], group=group)
    desk.advance(RETENTION)
    steps = offset_expiration.expire(desk.shard, desk.timestamp_ms)
    desk.run(next(steps))
    for group in ("g", "h"):
        records = [*desk.shard.offsets.tombstones(group), *desk.shard.groups[group].tombstones()]
        desk.run(Decision(records))
    for decision in steps:
        desk.run(decision)
    assert persistent_state(desk.shard) == ({}, {})
    desk.check_rebuilt()


# Deleted topics


def forget(desk: Desk, *names: str) -> list[tuple[Any, ...]]:
    before = len(desk.records)
    for decision in offset_expiration.forget_topics(desk.shard, dict.fromkeys(names, desk.timestamp_ms)):
        desk.run(decision)
    return ended(desk, before)


def test_offsets_of_deleted_topics_are_forgotten(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    steps_of(monkeypatch, 2)
    for group in ("g", "h"):
        commit(desk, [("t", 0), ("t", 2), ("u", 1)], group=group)
    commit(desk, [("u", 0)], group="i")
    assert forget(desk, "t", "other") == [("t", 0), ("t", 2)] * 2
    assert list(desk.shard.groups) == ["g", "h", "i"]
    assert forget(desk, "u") == [("u", 1), ("u", 1), ("u", 0)]
    assert state_of_offsets(desk.shard.offsets) == {}
    assert list(desk.shard.groups) == ["g", "h", "i"]


def test_a_topic_that_is_made_again_while_the_old_one_is_forgotten(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    steps_of(monkeypatch, 1)
    commit(desk, [("t", 0), ("t", 1), ("t", 2)])
    desk.topics.set("t", 0)
    steps = offset_expiration.forget_topics(desk.shard, {"t": desk.timestamp_ms})
    desk.advance(1)
    desk.topics.set("t", 3)
    commit(desk, [("t", 0)])
    desk.run(next(steps))
    commit(desk, [("t", 1)])
    for decision in steps:
        assert len(decision.records) <= 1
        desk.run(decision)
    assert list(desk.shard.offsets.of("g")) == [("t", 0), ("t", 1)]


def test_what_a_transaction_is_about_to_commit_is_forgotten_too(desk: Desk) -> None:
    desk.shard.offsets.pending["g"] = {4: {"t": {1: b""}}}
    assert forget(desk, "t") == [("t", 1)]


# All of it, at random


PLACES = st.lists(
    st.tuples(st.sampled_from(["t", "u", "gone"]), st.integers(0, 3)), min_size=1, max_size=4, unique=True
)
GROUPS = st.sampled_from(["g", "h", "", "a longer name"])


class Model:
    """What the groups of a shard have, in the words of the rules: offset, metadata, from when, until when."""

    def __init__(self) -> None:
        self.offsets: dict[tuple[str, str, int], tuple[int, str, int, int]] = {}
        self.groups: dict[str, int | None] = {}
        """When it became empty; None for a simple group."""

    def of(self, group: str) -> list[tuple[str, str, int]]:
        return [place for place in self.offsets if place[0] == group]

    def expire(self, now_ms: int) -> None:
        for group, empty_ms in list(self.groups.items()):
            for place in self.of(group):
                _, _, since_ms, until_ms = self.offsets[place]
                if empty_ms is not None:
                    since_ms = empty_ms
                if now_ms >= (since_ms + RETENTION if until_ms == -1 else until_ms):
                    del self.offsets[place]
            if not self.of(group):
                del self.groups[group]


class Machine(RuleBasedStateMachine):
    """Commits, deletions, time, expiry and lost writes, beside a model; and the records alone make the same state."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk(topics=TOPICS, settings=GroupSettings(offsets_retention_ms=RETENTION))
        self.model = Model()

    @initialize(step=st.sampled_from([1, 3, 1000]))
    def steps(self, step: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(offset_expiration, "OFFSETS_A_STEP", step)

    def teardown(self) -> None:
        self.patch.undo()

    @property
    def shard(self) -> GroupShard:
        return self.desk.shard

    @rule(
        group=GROUPS,
        places=PLACES,
        offset=st.integers(0, 1 << 50),
        metadata=st.sampled_from(["", "note", "x" * 5000]),
        retention_ms=st.sampled_from([-1, 0, HOUR, 3 * RETENTION]),
        age_ms=st.sampled_from([0, HOUR, RETENTION]),
        version=st.sampled_from([1, 3, 8]),
        is_written=st.sampled_from([True, True, True, False]),
    )
    def commit(
        self,
        group: str,
        places: list[tuple[str, int]],
        offset: int,
        metadata: str,
        retention_ms: int,
        age_ms: int,
        version: int,
        is_written: bool,
    ) -> None:
        now_ms = self.desk.timestamp_ms
        since_ms = now_ms - age_ms if version == 1 else now_ms
        topics = [
            OffsetCommitRequestTopic(
                topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        index,
                        offset,
                        commit_timestamp=since_ms if version == 1 else -1,
                        committed_metadata=metadata,
                    )
                ],
            )
            for topic, index in places
        ]
        own_ms = retention_ms if version == 3 else -1
        request = OffsetCommitRequest(group, retention_time_ms=own_ms, topics=topics)
        decision = offset_requests.commit(self.shard, request, version, self.desk.ticket(), self.desk.now_ms)
        if not is_written:
            self.desk.fail(decision)
            return
        self.desk.run(decision)
        for topic, index in places:
            if index < self.desk.topics.partitions_of(topic) and len(metadata) <= 4096:
                self.model.groups.setdefault(group, None)
                until_ms = -1 if own_ms == -1 else now_ms + own_ms
                self.model.offsets[group, topic, index] = (offset, metadata, since_ms, until_ms)

    @rule(group=GROUPS)
    def empty(self, group: str) -> None:
        now_ms = self.desk.timestamp_ms
        value = GroupMetadataValue("consumer", 1, None, None, now_ms)
        self.desk.run(Decision([(GroupMetadataKey(group), value)]))
        self.model.groups[group] = now_ms

    @rule(group=GROUPS, places=PLACES)
    def delete(self, group: str, places: list[tuple[str, int]]) -> None:
        topics = [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(index)]) for topic, index in places]
        request = OffsetDeleteRequest(group, topics)
        if group not in self.model.groups:
            with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
                offset_requests.delete(self.shard, request, self.desk.ticket())
            return
        self.desk.run(offset_requests.delete(self.shard, request, self.desk.ticket()))
        for topic, index in places:
            if index < self.desk.topics.partitions_of(topic):
                self.model.offsets.pop((group, topic, index), None)

    @rule(group=GROUPS)
    def delete_group(self, group: str) -> None:
        there = self.shard.groups.get(group)
        if there is not None:
            self.desk.run(Decision([*self.shard.offsets.tombstones(group), *there.tombstones()]))
        for place in self.model.of(group):
            del self.model.offsets[place]
        self.model.groups.pop(group, None)

    @rule(topic=st.sampled_from(sorted(TOPICS)))
    def delete_or_make_topic(self, topic: str) -> None:
        if not self.desk.topics.partitions_of(topic):
            self.desk.topics.set(topic, TOPICS[topic])
            return
        self.desk.topics.set(topic, 0)
        for decision in offset_expiration.forget_topics(self.shard, {topic: self.shard.timestamp_ms()}):
            self.desk.run(decision)
        for place in [place for place in self.model.offsets if place[1] == topic]:
            del self.model.offsets[place]

    @rule(milliseconds=st.sampled_from([1, HOUR - 1, HOUR, RETENTION - HOUR, RETENTION]))
    def wait(self, milliseconds: int) -> None:
        self.desk.advance(milliseconds)

    @rule()
    def expire(self) -> None:
        for decision in offset_expiration.expire(self.shard, self.desk.timestamp_ms):
            self.desk.run(decision)
        self.model.expire(self.desk.timestamp_ms)

    @invariant()
    def it_is_what_the_rules_say(self) -> None:
        assert set(self.shard.groups) == set(self.model.groups)
        live = {
            (group, topic, index): _seen(value)
            for group in self.shard.offsets.groups
            for (topic, index), value in self.shard.offsets.of(group).items()
        }
        assert live == self.model.offsets

    @invariant()
    def the_records_make_the_same(self) -> None:
        self.desk.check_rebuilt()


def _seen(value: OffsetCommitValue) -> tuple[int, str, int, int]:
    return value.offset, value.metadata, value.commit_timestamp, value.expire_timestamp


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=share(40, soak=60), stateful_step_count=30, deadline=None)
TestMachine.pytestmark = [pytest.mark.slow]  # type: ignore[attr-defined]
