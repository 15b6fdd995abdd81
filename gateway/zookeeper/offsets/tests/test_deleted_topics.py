"""Which topics count as deleted: a note decides, a missing node does not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import pytest

from headgate.gateway.config.offset_store import SEPARATE
from headgate.gateway.coordinator.groups.tests.groups import FakeTopics
from headgate.gateway.runtime.tasks import Task, run
from headgate.gateway.zookeeper.layout.topics import DELETED_TOPICS_PATH, DeletedTopic
from headgate.gateway.zookeeper.offsets.deleted_topics import RETRY_MS, read_notes
from headgate.gateway.zookeeper.offsets.tests.broker_parts import GROUP, TOPIC, TOPIC_ID, image_of
from headgate.gateway.zookeeper.offsets.tests.two_stores import TwoStores
from headgate.gateway.zookeeper.session import Create, Delete
from headgate.protocol.errors import ErrorCode

NEW_ID = b"another id of 16"
LATER = f"/consumers/{GROUP}/offsets/later/0"


@pytest.fixture
def stores() -> TwoStores:
    return TwoStores()


def _write_later(stores: TwoStores, data: bytes = b"77") -> None:
    stores.write(1)
    stores.keeper.transact(99, [Create(LATER.rpartition("/")[0]), Create(LATER, data)])


def _start_without_topic(stores: TwoStores) -> None:
    """Start anew, while the topic's node is missing."""
    stores.metadata.image = image_of(stores.metadata.image.configs, None)
    stores.start(topics=FakeTopics({}))
    stores.wait(2_000)


def _in_log(stores: TwoStores, topic: str) -> int | None:
    found = stores.shard.offsets.of(GROUP).get((topic, 0))
    return None if found is None else found.offset


@pytest.mark.parametrize("source", ["zookeeper", "kafka"])
def test_offsets_of_an_unknown_topic_are_carried_over(stores: TwoStores, source: str) -> None:
    _write_later(stores)
    stores.enter(source)
    stores.wait(2_000)
    assert (stores.keeper.tree.nodes[LATER].data, _in_log(stores, "later")) == (b"77", 77)
    stores.start()
    stores.wait(2_000)
    assert (stores.keeper.tree.nodes[LATER].data, _in_log(stores, "later")) == (b"77", 77)


def test_offsets_of_an_unknown_topic_stay_after_the_group_leaves(stores: TwoStores) -> None:
    _write_later(stores)
    stores.enter()
    stores.configure(SEPARATE)
    assert (stores.keeper.tree.nodes[LATER].data, _in_log(stores, "later")) == (b"77", 77)


def test_a_write_for_an_unknown_topic_is_taken_up(stores: TwoStores) -> None:
    stores.enter()
    stores.wait(1_000)
    _write_later(stores)
    stores.run()
    stores.wait(1_000)
    assert _in_log(stores, "later") == 77


def test_offsets_outlive_a_topic_node_that_was_removed_by_mistake(stores: TwoStores) -> None:
    stores.enter()
    assert stores.committed(41) == ErrorCode.NONE
    _start_without_topic(stores)
    assert (stores.in_zookeeper(), stores.in_log()) == (41, 41)
    stores.metadata.image = image_of(stores.metadata.image.configs, NEW_ID)
    assert stores.fetched() == (41, 0)


def test_version_zero_knows_no_offset_of_an_unknown_topic(stores: TwoStores) -> None:
    """As Kafka 3.9 answers, whatever the node."""
    stores.enter()
    stores.committed(41)
    _start_without_topic(stores)
    assert stores.fetched(version=0) == (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert stores.fetched() == (41, 0)


def test_an_offset_behind_the_deletion_belongs_to_the_new_topic(stores: TwoStores) -> None:
    stores.enter()
    stores.committed(41, 0)
    stores.committed(42, 1)
    old = stores.metadata.image
    stores.keeper.cut(stores.broker.session)
    for path in ("/headgate", DELETED_TOPICS_PATH):
        stores.keeper.transact(99, [Create(path)])
    note = DeletedTopic(TOPIC_ID, TOPIC, 0)
    stores.keeper.transact(99, [Create(DeletedTopic.path(TOPIC_ID), note.encode())])
    stores.write(7, 1)
    stores.keeper.connect(stores.broker.session)
    stores.run()
    stores.metadata.image = image_of(old.configs, NEW_ID)
    stores.broker.stores.follow(old, stores.metadata.image, [TOPIC])
    stores.wait(RETRY_MS)
    assert [stores.in_zookeeper(index) for index in (0, 1)] == [None, 7]
    stores.wait(RETRY_MS)
    assert stores.in_log(0) is None
    assert not stores.keeper.tree.nodes[DELETED_TOPICS_PATH].children


def test_another_id_without_a_note_is_no_deletion(stores: TwoStores) -> None:
    stores.enter()
    stores.committed(41)
    old, stores.metadata.image = stores.metadata.image, image_of(stores.metadata.image.configs, NEW_ID)
    stores.broker.stores.follow(old, stores.metadata.image, [TOPIC])
    stores.run()
    assert (stores.in_zookeeper(), stores.in_log()) == (41, 41)


def test_a_note_of_a_topic_that_was_written_again_is_void(stores: TwoStores) -> None:
    """The node is there with its id before the broker has noticed the deletion: so are the records."""
    stores.enter()
    stores.committed(41)
    for path in ("/headgate", DELETED_TOPICS_PATH):
        stores.keeper.transact(99, [Create(path)])
    path = DeletedTopic.path(TOPIC_ID)
    stores.keeper.transact(99, [Create(path, DeletedTopic(TOPIC_ID, TOPIC, 0).encode())])
    stores.metadata.image.topic_names[TOPIC_ID] = TOPIC
    stores.start()
    assert (stores.in_zookeeper(), stores.in_log()) == (41, 41)
    assert path not in stores.keeper.tree.nodes


def test_a_note_that_cannot_be_read_is_named_and_stays(stores: TwoStores, caplog: pytest.LogCaptureFixture) -> None:
    for path in ("/headgate", DELETED_TOPICS_PATH, f"{DELETED_TOPICS_PATH}/no"):
        stores.keeper.transact(99, [Create(path)])
    found: list[object] = []
    run(read_notes(stores.broker.session), found.append)
    stores.run()
    assert found == [[]]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert f"{DELETED_TOPICS_PATH}/no" in caplog.text


def test_a_node_without_a_number_is_named_once(stores: TwoStores, caplog: pytest.LogCaptureFixture) -> None:
    stores.enter()
    stores.write(b"nonsense")
    for _ in range(3):
        assert stores.fetched() == (-1, 0)
    stores.wait(1_000)
    assert caplog.text.count("t-0 of group g has no number in ZooKeeper") == 1
    stores.write(5)
    assert stores.fetched() == (5, 0)
    stores.write(b"nonsense")
    stores.fetched()
    assert caplog.text.count("t-0 of group g has no number in ZooKeeper") == 2


def test_a_first_offset_is_seen_however_it_comes(stores: TwoStores) -> None:
    """The group's first offset is written between the list of the offsets and the watch for the first one."""
    stores.configure("dual", "zookeeper", runs=False)
    session, parent = stores.broker.session, f"/consumers/{GROUP}/offsets"
    exists = session.exists

    def planted(path: str, *arguments: object, **options: object) -> None:
        if path == parent and parent not in stores.keeper.tree.nodes:
            stores.write(5)
        exists(path, *arguments, **options)

    session.exists = planted
    stores.run()
    stores.wait(2_000)
    assert stores.in_log() == 5


def test_a_note_goes_with_the_last_offset(stores: TwoStores) -> None:
    stores.enter()
    stores.committed(41)
    stores.delete_topic()
    stores.wait(RETRY_MS)
    assert (stores.in_zookeeper(), stores.in_log()) == (None, None)
    assert not stores.keeper.tree.nodes[DELETED_TOPICS_PATH].children
    assert not isinstance(stores.keeper.transact(99, [Delete(DELETED_TOPICS_PATH)]), Exception)


def test_groups_are_asked_again_after_a_second_deletion(stores: TwoStores, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node is written again with its id, and deleted again, while the first deletion waits for the log."""
    stores.enter()
    stores.committed(41)
    forget, waiting = stores.broker.groups.forget_topics, list[Callable[[None], None]]()

    def forget_later(deleted_ms: Mapping[str, int]) -> Task[None]:
        yield waiting.append
        yield from forget(deleted_ms)

    monkeypatch.setattr(stores.broker.groups, "forget_topics", forget_later)
    before = stores.metadata.image
    stores.delete_topic()
    assert (len(waiting), stores.in_zookeeper()) == (1, None)
    stores.write(50)
    stores.keeper.transact(99, [Delete(DeletedTopic.path(TOPIC_ID))])
    stores.metadata.image = before
    stores.clock.elapsed_ms += 10
    stores.delete_topic()
    for _ in range(3):
        for call in waiting:
            call(None)
        waiting.clear()
        stores.wait(RETRY_MS)
    assert (stores.in_zookeeper(), stores.in_log()) == (None, None)
    assert not stores.keeper.tree.nodes[DELETED_TOPICS_PATH].children
