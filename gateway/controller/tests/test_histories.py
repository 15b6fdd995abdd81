"""Histories: controllers that crash, writes that overtake each other, answers that are lost, doubled or late.

The store accepts a state only over the partition epoch before it, and from the newest controller alone; leaders change
their in-sync sets in it too. Brokers come and go, and controllers learn of everything late. Each accepted write is
checked; at the end the controller and a new one derive the same from what is stored. Partitions are reassigned, and a
write may leave the replicas as they were: they are in another node than the state. Planted mistakes must be found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from headgate.gateway.controller import controller as machine
from headgate.gateway.controller.cluster_view import ClusterView
from headgate.gateway.controller.controller import ControllerMachine, ControllerSettings
from headgate.gateway.controller.elections import next_state
from headgate.gateway.controller.reassignments import completed_state
from headgate.gateway.controller.tests.clusters import TOPIC_ID, brokers, settle
from headgate.gateway.metadata.image import Image, PartitionState
from headgate.gateway.metadata.records import partition_records
from headgate.protocol.internal.metadata import MetadataRecord, PartitionRecord, TopicRecord
from headgate.protocol.messages.elect_leaders import PREFERRED
from headgate.protocol.tests.examples import share
from headgate.protocol.topic_partition import TopicPartition

IDS = (1, 2, 3)
KEYS = [TopicPartition("t", number) for number in range(2)]
MISTAKEN = 400
"""The histories in which a planted mistake must be found."""
UNASSIGNED = PartitionState(-1, -1, IDS, (), -1)


class History(RuleBasedStateMachine):
    """The store, the brokers, and the controller of the moment with its writes and answers on their ways."""

    def __init__(self) -> None:
        super().__init__()
        self.stored = [UNASSIGNED, UNASSIGNED._replace(replicas=(2, 3, 1))]
        self.leaders: dict[tuple[int, int], int] = {}
        self.epochs = dict.fromkeys(IDS, 1)
        self.live = set(IDS)
        self.writes: list[MetadataRecord] = []
        self.answers: list[tuple[MetadataRecord, bool]] = []
        self.old_writes: list[MetadataRecord] = []
        self.lost: dict[tuple[int, int], int] = {}
        """The broker and the partition of each log that lost records -> the latest epoch before."""
        self.start()

    @initialize(is_moving=st.booleans())
    def begin(self, is_moving: bool) -> None:
        """Another controller may have begun to move a partition."""
        if is_moving:
            self.stored[1] = PartitionState(2, 0, (3, 2, 1), (2, 1), 0, adding_replicas=(3,), removing_replicas=(2,))
            self.start()

    def start(self) -> None:
        self.controller = ControllerMachine(self._view(), ControllerSettings(lambda topic: False), 0.0)

    def _view(self) -> ClusterView:
        records: list[MetadataRecord] = [TopicRecord(name="t", topic_id=TOPIC_ID)]
        image = Image.empty().apply_all(records + partition_records(TOPIC_ID, 0, self.stored))
        return ClusterView(image, self._brokers())

    def _brokers(self) -> dict[int, Any]:
        return {id_: broker for id_ in self.live for id_, broker in brokers(id_, epoch=self.epochs[id_]).items()}

    def _accept(self, record: MetadataRecord, *, is_whole: bool = True) -> bool:
        """Write a state of the controller, if its condition holds; without its replicas if it is not whole."""
        assert isinstance(record, PartitionRecord)
        before = self.stored[record.partition_id]
        if before.partition_epoch != record.partition_epoch - 1:
            return False
        assert record.leader_epoch == before.leader_epoch + 1
        assert record.isr
        if before.leader_epoch >= 0:
            assert set(record.isr) <= set(before.isr), "a controller never adds to the set"
        assert set(record.isr) <= set(record.replicas)
        if not set(before.replicas) <= {*record.replicas, *before.adding_replicas}:
            assert set(record.replicas) <= set(before.isr), "replicas leave once all others are in sync"
        if record.leader >= 0:
            assert record.leader in (before.isr or record.replicas), "a clean election stays in the set"
            assert record.leader in record.isr
            assert self.leaders.setdefault((record.partition_id, record.leader_epoch), record.leader) == record.leader
        after = before._replace(
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            isr=tuple(record.isr),
            partition_epoch=record.partition_epoch,
        )
        if is_whole:
            adding, removing = tuple(record.adding_replicas), tuple(record.removing_replicas)
            replicas = tuple(record.replicas)
            after = after._replace(replicas=replicas, adding_replicas=adding, removing_replicas=removing)
        self.stored[record.partition_id] = after
        return is_whole

    @rule(limit=st.integers(1, 2))
    def decide(self, limit: int) -> None:
        self.writes += self.controller.decide(0.0, limit).records

    @precondition(lambda self: self.writes)
    @rule(is_answered=st.booleans(), is_whole=st.booleans())
    def write(self, is_answered: bool, is_whole: bool = True) -> None:
        record = self.writes.pop(0)
        self.answers.append((record, self._accept(record, is_whole=is_whole) and is_answered))

    @precondition(lambda self: self.writes)
    @rule()
    def lose_write(self) -> None:
        self.answers.append((self.writes.pop(0), False))

    @precondition(lambda self: self.answers)
    @rule(is_doubled=st.booleans())
    def answer(self, is_doubled: bool) -> None:
        record, is_done = self.answers.pop(0)
        if is_done:
            self.controller.replay([record] * (1 + is_doubled))
        else:
            self.controller.write_failed([record])
        assert isinstance(record, PartitionRecord)
        if not is_done:
            self.read(record.partition_id)

    @rule(number=st.integers(0, 1))
    def read(self, number: int) -> None:
        """The controller reads a partition, for instance as a leader has told of a change."""
        self.old_writes += partition_records(TOPIC_ID, number, (self.stored[number],))
        self.controller.replay(self.old_writes[-1:])

    @precondition(lambda self: self.old_writes)
    @rule(data=st.data())
    def read_late(self, data: st.DataObject) -> None:
        before = self.controller.view.state(KEYS[0]), self.controller.view.state(KEYS[1])
        self.controller.replay([data.draw(st.sampled_from(self.old_writes))])
        after = self.controller.view.state(KEYS[0]), self.controller.view.state(KEYS[1])
        for old, new in zip(before, after, strict=True):
            assert old is not None
            assert new is not None
            assert (new.leader_epoch, new.partition_epoch) >= (old.leader_epoch, old.partition_epoch), "epochs fall"

    @rule(number=st.integers(0, 1), isr=st.sets(st.sampled_from(IDS)))
    def leader_changes_its_set(self, number: int, isr: set[int]) -> None:
        state = self.stored[number]
        if state.leader in self.live:
            wanted = tuple(sorted(isr.intersection(state.replicas) | {state.leader}))
            self.stored[number] = state._replace(isr=wanted, partition_epoch=state.partition_epoch + 1)

    @rule(broker=st.sampled_from(IDS))
    def stop_or_start(self, broker: int) -> None:
        self.live ^= {broker}
        self.epochs[broker] += broker in self.live

    @rule()
    def see_brokers(self) -> None:
        self.controller.set_brokers(self._brokers())

    @rule(broker=st.sampled_from(IDS))
    def shut_down(self, broker: int) -> None:
        if broker in self.controller.view.brokers:
            self.controller.shut_down("ticket", broker, -1)

    @rule(broker=st.sampled_from(IDS), key=st.sampled_from(KEYS), is_failed=st.booleans())
    def disk(self, broker: int, key: TopicPartition, is_failed: bool) -> None:
        self.controller.set_failed(broker, [key] * is_failed, [key] * (not is_failed))

    @rule(number=st.integers(0, 1))
    def lose_records(self, number: int) -> None:
        """The log of a leader loses records: its broker serves it no more in this epoch."""
        state = self.stored[number]
        if state.leader in self.live:
            self.lost[state.leader, number] = state.leader_epoch
            self.controller.note_departed(KEYS[number], state.leader, state.leader_epoch)

    def _waiting(self) -> list[tuple[int, int, int]]:
        """The leaders that serve nothing: they wait for a higher epoch."""
        states = [(*key, epoch, self.stored[key[1]]) for key, epoch in self.lost.items()]
        return [
            (broker, number, epoch)
            for broker, number, epoch, state in states
            if state.leader == broker and state.leader_epoch <= epoch
        ]

    @rule()
    def elect(self) -> None:
        self.controller.elect("ticket", PREFERRED, None)

    @rule(key=st.sampled_from(KEYS), replicas=st.none() | st.lists(st.sampled_from(IDS), min_size=1, unique=True))
    def reassign(self, key: TopicPartition, replicas: list[int] | None) -> None:
        self.controller.reassign("ticket", {key: replicas})

    @rule()
    def crash(self) -> None:
        """The next controller. The store refuses later writes of the old one, as its epoch has passed."""
        self.writes.clear()
        self.answers.clear()
        self.start()

    def teardown(self) -> None:
        while self.writes or self.answers:
            if self.writes:
                self.write(True)
            else:
                self.answer(False)
        for number in range(len(KEYS)):
            self.read(number)
        self.controller.set_brokers({})  # every broker has ended its stop and has new disks
        self.controller.set_brokers(self._brokers())
        for broker, number, epoch in self._waiting():  # a broker reports until the controller acts
            self.controller.note_departed(KEYS[number], broker, epoch)
        while records := self.controller.decide(0.0).records:
            assert all(self._accept(record) for record in records)
            self.controller.replay(records)
        for state in self.stored:
            is_led = state.leader in self.live
            assert is_led == bool(self.live & set(state.isr or state.replicas)), "a live in-sync replica leads"
            is_moved = state.is_reassigning and set(state.target_replicas) <= set(state.isr)
            assert not is_moved or not is_led, "a move ends once its target is in sync"
        assert not self._waiting(), "no log that lost records is led in the epoch of the loss"
        fresh = ControllerMachine(self._view(), ControllerSettings(lambda topic: False), 0.0)
        assert not settle(fresh)
        assert fresh.view.image == self.controller.view.image == self._view().image


def run(history: type[History], examples: int) -> None:
    phases = [Phase.generate] if examples == MISTAKEN else list(Phase)  # a planted mistake needs no shortest history
    chosen = settings(
        max_examples=examples, stateful_step_count=30, deadline=None, derandomize=True, phases=phases, database=None
    )
    run_state_machine_as_test(history, settings=chosen)


@pytest.mark.slow
def test_any_history_ends_with_what_is_stored() -> None:
    run(History, share(100))


def _elect_any(state: PartitionState, online: Sequence[int], stopping: Any, *, is_unclean: bool) -> Any:
    return next_state(state, online, stopping, is_unclean=True)


def _keep_epoch(state: PartitionState, online: Sequence[int], stopping: Any, *, is_unclean: bool) -> Any:
    found = next_state(state, online, stopping, is_unclean=is_unclean)
    return found and found._replace(leader_epoch=max(0, state.leader_epoch))


def _keep_lost(state: PartitionState, online: Sequence[int], stopping: Any, *, is_unclean: bool) -> Any:
    return next_state(state, (*online, state.leader), stopping, is_unclean=is_unclean)


def _move_early(state: PartitionState, online: Sequence[int], stopping: Any) -> Any:
    return completed_state(state._replace(isr=state.replicas), online, stopping)


def _keep_set(state: PartitionState, online: Sequence[int], stopping: Any) -> Any:
    found = completed_state(state, online, stopping)
    return found and found._replace(isr=state.isr)


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [_move_early, pytest.param(_keep_set, marks=pytest.mark.seeds)])
def test_mistakes_of_reassignments_are_found(mistake: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "completed_state", mistake)
    with pytest.raises(AssertionError):
        run(History, MISTAKEN)


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [_keep_epoch, _keep_lost, pytest.param(_elect_any, marks=pytest.mark.seeds)])
def test_mistakes_of_elections_are_found(mistake: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "next_state", mistake)
    with pytest.raises(AssertionError):
        run(History, MISTAKEN)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method, mistake",
    [
        pytest.param(
            "_known_epoch", lambda self, place, latest: -9, marks=pytest.mark.seeds
        ),  # old states are replayed
        ("write_failed", lambda self, records: None),  # a refused write is taken for pending
        ("note_departed", lambda self, key, broker, epoch: None),  # a log that lost records leads on
    ],
)
def test_mistakes_of_the_machine_are_found(
    method: str, mistake: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ControllerMachine, method, mistake)
    with pytest.raises(AssertionError):
        run(History, MISTAKEN)
