"""Offsets of topics that come and go: histories by seed, and planted mistakes that they find."""

from __future__ import annotations

import os
from typing import Any

import pytest

from headgate.gateway.runtime.tasks import Task
from headgate.gateway.zookeeper.layout.topics import DeletedTopic
from headgate.gateway.zookeeper.offsets import dual_group, offset_stores
from headgate.gateway.zookeeper.offsets.deleted_topics import read_offsets
from headgate.gateway.zookeeper.offsets.offset_nodes import OffsetNodes
from headgate.gateway.zookeeper.offsets.tests.topic_history import TopicHistory, TopicWorld
from headgate.gateway.zookeeper.requests import delete
from headgate.protocol.tests.examples import first_in_unit

SEEDS = range(20_000) if "HEADGATE_SOAK" in os.environ else range(100)
PARTS = 10


def _run(seed: int) -> None:
    history = TopicHistory(seed)
    try:
        history.run()
    except BaseException as error:
        error.add_note(f"seed {seed}: {'; '.join(history.log)}")
        raise


@pytest.mark.slow
@pytest.mark.parametrize("part", list(first_in_unit(range(PARTS), 2)))
def test_histories_by_seed(part: int) -> None:
    for seed in SEEDS[part::PARTS]:
        _run(seed)


def _take_missing_for_deleted(patch: pytest.MonkeyPatch) -> None:
    """The offsets of a topic that the broker does not know are deleted from both stores."""
    build, read_all, worlds = TopicWorld.build, OffsetNodes.read_all, list[TopicWorld]()

    def built(self: TopicWorld) -> None:
        worlds.append(self)
        build(self)

    def planted(self: OffsetNodes, watch: Any = None) -> Task[Any]:
        found = yield from read_all(self, watch)
        gone = [place for place in found if place[0] not in worlds[-1].metadata.image.topics]
        yield from self.write(dict.fromkeys(gone))
        return {place: node for place, node in found.items() if place not in gone}

    patch.setattr(TopicWorld, "build", built)
    patch.setattr(OffsetNodes, "read_all", planted)


def _forget_notes_of_earlier_starts(patch: pytest.MonkeyPatch) -> None:
    def planted(_: Any) -> Any:
        yield from ()
        return []

    patch.setattr(offset_stores, "read_notes", planted)


def _remove_note_first(patch: pytest.MonkeyPatch) -> None:
    """The note is gone before the offsets are."""

    def planted(session: Any, group_id: str, topic: str, topic_id: bytes) -> Task[Any]:
        found = yield from read_offsets(session, group_id, topic, topic_id)
        yield from delete(session, DeletedTopic.path(topic_id))
        return found

    patch.setattr(dual_group, "read_offsets", planted)


@pytest.mark.slow
@pytest.mark.parametrize(
    "plant, first",
    # The groups are known after the first attempt: a note that goes first does harm only if a kill follows at once
    [(_take_missing_for_deleted, 0), (_forget_notes_of_earlier_starts, 0), (_remove_note_first, 1100)],
)
def test_a_planted_mistake_is_found(plant: Any, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        _run_all(range(first, first + 400))


def _run_all(seeds: range) -> None:
    for seed in seeds:
        _run(seed)
