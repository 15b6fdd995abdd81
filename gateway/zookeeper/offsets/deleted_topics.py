"""The offsets of deleted topics, removed from both stores of dual groups.

Only a deletion that a broker has carried out removes offsets. Its evidence is a note below `/headgate/deleted_topics`,
which ZooKeeper has since the same multi that deleted the topic. A topic may be absent for other reasons: nobody has
created it yet, or somebody has removed its node by mistake. Then there is no note, and all offsets stay.

The note goes once no dual group has such offsets, so that a crash or a lost connection in between forgets nothing. It
waits for groups that are ENTERING, however long: without the note such a group would carry over what ZooKeeper has. An
offset that was written after the note belongs to a new topic of that name, and stays.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

from headgate.gateway.zookeeper.layout.consumers import ConsumerOffset, offsets_path, partition_of
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.topics import DELETED_TOPICS_PATH, DeletedTopic
from headgate.gateway.zookeeper.offsets.background import Background
from headgate.gateway.zookeeper.offsets.partition_locks import Partition
from headgate.gateway.zookeeper.offsets.waiting_request import ask_again
from headgate.gateway.zookeeper.session import Session, Stat
from headgate.gateway.zookeeper.steps import Steps, checked, children, delete, exists, get, get_many, run
from headgate.protocol.errors import KafkaError

logger = logging.getLogger("headgate.groups")

RETRY_MS: Final = 1_000.0
READS_AT_A_TIME: Final = 64


def read_notes(session: Session) -> Steps[list[DeletedTopic]]:
    """The notes of all deletions. Raises Failed."""
    names = yield from children(session, DELETED_TOPICS_PATH)
    found = yield from get_many(session, [f"{DELETED_TOPICS_PATH}/{name}" for name in names]) if names else _nothing()
    notes = []
    for name, node in zip(names, found, strict=True):
        try:
            notes += [] if node is None else [DeletedTopic.decode(name, node.data)]
        except InvalidNode as error:
            logger.error("%s; the offsets of that topic stay", error)
    return notes


def _nothing() -> Steps[list[None]]:
    yield from ()
    return []


class OffsetsOfDeletedTopic(NamedTuple):
    """The nodes of a group's offsets of a topic, and the zxid of the note of the topic's deletion."""

    note_zxid: int
    nodes: Mapping[Partition, Stat]


def read_offsets(session: Session, group_id: str, topic: str, topic_id: bytes) -> Steps[OffsetsOfDeletedTopic | None]:
    """The group's offsets of a topic; None if no note says that the topic was deleted. Raises Failed."""
    parent = offsets_path(group_id, topic)
    checked(parent, (yield partial(session.sync, parent)))
    note = yield from exists(session, DeletedTopic.path(topic_id))
    if note is None:
        return None
    paths: dict[str, Partition] = {}
    for name in (yield from children(session, parent)):
        try:
            index = partition_of(parent, name)
        except InvalidNode:
            continue
        paths[ConsumerOffset.path(group_id, topic, index)] = topic, index
    found = (yield from get_many(session, list(paths))) if paths else []
    nodes = {place: one.stat for place, one in zip(paths.values(), found, strict=True) if one is not None}
    return OffsetsOfDeletedTopic(note.czxid, nodes)


class Group(Protocol):
    """What is used of a `DualGroup`."""

    def forget_topic(
        self,
        topic: str,
        topic_id: bytes,
        reads: Background,
        done: Callable[[KafkaError | None], None],
        *,
        is_gone: bool,
    ) -> None: ...

    def look_at_topic(self, topic: str) -> None: ...


class Coordinator(Protocol):
    """What is used of the `GroupCoordinator`."""

    def forget_topics(self, deleted_ms: Mapping[str, int], done: Callable[[], None]) -> None: ...


class Scheduling(Protocol):
    """What is used of a `Scheduler`."""

    def call_after(self, delay_ms: float, callback: Callable[[], None]) -> object: ...


class _Deletion:
    """One deleted topic whose offsets are being removed; `waits_for`: groups that have not answered yet."""

    __slots__ = ("error", "is_gone", "is_reported", "topic", "topic_id", "waits_for")

    def __init__(self, topic: str, topic_id: bytes, *, is_gone: bool) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.is_gone = is_gone
        self.waits_for = 0
        self.error: Exception | None = None
        self.is_reported = False


class DeletedTopics:
    """The deleted topics whose offsets may still be there. `groups` returns the groups with offsets in both stores."""

    def __init__(
        self,
        session: Session,
        coordinator: Coordinator,
        scheduler: Scheduling,
        groups: Callable[[], Collection[Group]],
    ) -> None:
        self._session = session
        self._coordinator = coordinator
        self._scheduler = scheduler
        self._groups = groups
        self._pending: dict[bytes, _Deletion] = {}
        self._reads = Background(READS_AT_A_TIME)

    def forget(self, topic: str, topic_id: bytes, *, is_gone: bool) -> None:
        """Remove the offsets of a topic, if it was deleted; then the note.

        The groups take their locks at once, so no later request reads these offsets. `is_gone`: the image has lost the
        topic just now, and has no new one.
        """
        known = self._pending.get(topic_id)
        if known is None:
            deletion = self._pending[topic_id] = _Deletion(topic, topic_id, is_gone=is_gone)
            self._begin(deletion)
        else:
            known.error = known.error or ask_again("a topic with that id was deleted once more")

    def go_on(self) -> None:
        """There is a connection again."""
        for deletion in list(self._pending.values()):
            if not deletion.waits_for:
                self._begin(deletion)

    def _begin(self, deletion: _Deletion) -> None:
        """Without a connection no request is served, and `go_on` begins."""
        if not self._session.is_connected:
            deletion.is_gone = False  # by then another topic may have the name
            return
        groups = list(self._groups())
        deletion.error, deletion.waits_for = None, 1 + len(groups)
        ended = partial(self._ended, deletion)
        for group in groups:
            group.forget_topic(deletion.topic, deletion.topic_id, self._reads, ended, is_gone=deletion.is_gone)
        ended(None)

    def _ended(self, deletion: _Deletion, error: KafkaError | None) -> None:
        deletion.error = deletion.error or error
        deletion.waits_for -= 1
        if deletion.waits_for:
            return
        if deletion.error is not None:
            self._try_again(deletion, deletion.error)
        else:
            deletion.waits_for = 1
            run(self._remove_note(deletion), partial(self._removed, deletion))

    def _remove_note(self, deletion: _Deletion) -> Steps[None]:
        path = DeletedTopic.path(deletion.topic_id)
        found = yield from get(self._session, path)
        if found is not None:
            note = DeletedTopic.decode(path.rpartition("/")[2], found.data)
            yield partial(self._forget_in_coordinator, note)
            if deletion.error is not None:
                raise deletion.error
            for group in self._groups():  # an offset that ZooKeeper keeps may have gone from the log
                group.look_at_topic(note.topic)
            yield from delete(self._session, path)

    def _forget_in_coordinator(self, note: DeletedTopic, done: Callable[[None], None]) -> None:
        self._coordinator.forget_topics({note.topic: note.timestamp_ms}, partial(done, None))

    def _removed(self, deletion: _Deletion, result: Exception | None) -> None:
        deletion.waits_for = 0
        if result is None or isinstance(result, InvalidNode):
            del self._pending[deletion.topic_id]
        else:
            self._try_again(deletion, result)

    def _try_again(self, deletion: _Deletion, error: Exception) -> None:
        if not deletion.is_reported:
            deletion.is_reported = True
            logger.warning(
                "groups may have offsets of the deleted topic %s yet; the broker tries again: %s", deletion.topic, error
            )
        deletion.is_gone = False
        self._scheduler.call_after(RETRY_MS, partial(self._go_on_with, deletion))

    def _go_on_with(self, deletion: _Deletion) -> None:
        if not deletion.waits_for and self._pending.get(deletion.topic_id) is deletion:
            self._begin(deletion)
