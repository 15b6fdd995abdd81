"""The offsets of deleted topics, removed from both stores of dual groups.

Only a deletion that a broker has carried out removes offsets. Its evidence is a note below `/headgate/deleted_topics`,
which ZooKeeper has since the same multi that deleted the topic. A topic may be absent for other reasons: no client has
created it yet, or its node was removed by mistake. Then there is no note, and all offsets stay.

A broker that coordinates all groups removes the note once none has such offsets, so that a crash or a lost connection
in between forgets nothing. The note waits for groups that are ENTERING, however long: without it such a group would
carry over what ZooKeeper has. Among several coordinators each removes the offsets of its own groups, as a new one does
that finds the note; the controller removes the note after a day. An offset that was written after the note belongs to a
new topic of that name, and stays.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, Protocol

from headgate.gateway.runtime.tasks import NEVER, Changes, Task, Tasks, WaitList, gather
from headgate.gateway.zookeeper.layout.consumers import ConsumerOffset, offsets_path, partition_of
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.topics import DELETED_TOPICS_PATH, DeletedTopic
from headgate.gateway.zookeeper.offsets.background import Background
from headgate.gateway.zookeeper.offsets.client_errors import ask_again
from headgate.gateway.zookeeper.offsets.partition_locks import Partition
from headgate.gateway.zookeeper.requests import Failed, checked, children, delete, exists, get, get_many
from headgate.gateway.zookeeper.session import Session, Stat
from headgate.protocol.errors import KafkaError

logger = logging.getLogger("headgate.groups")

RETRY_MS: Final = 1_000.0
KEPT_MS: Final = 24 * 3_600_000
"""How long a note stays that several coordinators may need: much longer than a lead takes to move."""
READS_AT_A_TIME: Final = 64


def read_notes(session: Session) -> Task[list[DeletedTopic]]:
    """The notes of all deletions. Raises Failed."""
    names = yield from children(session, DELETED_TOPICS_PATH)
    found = (yield from get_many(session, [f"{DELETED_TOPICS_PATH}/{name}" for name in names])) if names else []
    notes = []
    for name, node in zip(names, found, strict=True):
        try:
            notes += [] if node is None else [DeletedTopic.decode(name, node.data)]
        except InvalidNode as error:
            logger.error("%s; the offsets of that topic stay", error)
    return notes


class OffsetsOfDeletedTopic(NamedTuple):
    """The nodes of a group's offsets of a topic, and the zxid of the note of the topic's deletion."""

    note_zxid: int
    nodes: Mapping[Partition, Stat]


def read_offsets(session: Session, group_id: str, topic: str, topic_id: bytes) -> Task[OffsetsOfDeletedTopic | None]:
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
    """The part of `DualGroup` that this module uses."""

    def forget_topic(self, topic: str, topic_id: bytes, reads: Background, *, is_gone: bool) -> Task[None]: ...

    def refresh_topic(self, topic: str) -> None: ...


class Coordinator(Protocol):
    """The part of `GroupCoordinator` that this module uses."""

    @property
    def coordinates_all(self) -> bool: ...

    def forget_topics(self, deleted_ms: Mapping[str, int]) -> Task[None]: ...


class _Deletion:
    """One deleted topic whose offsets are being removed."""

    __slots__ = ("is_gone", "is_repeated", "topic", "topic_id")

    def __init__(self, topic: str, topic_id: bytes, *, is_gone: bool) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.is_gone = is_gone
        self.is_repeated = False
        """A topic with that id was deleted once more since the present attempt began."""


class DeletedTopics:
    """The deleted topics whose offsets may still be there.

    `groups` returns the groups with offsets in both stores; raises KafkaError while they are being read.
    """

    def __init__(
        self, session: Session, coordinator: Coordinator, tasks: Tasks, groups: Callable[[], Collection[Group]]
    ) -> None:
        self._session = session
        self._coordinator = coordinator
        self._tasks = tasks
        self._groups = groups
        self._pending: dict[bytes, _Deletion] = {}
        self._reads = Background(tasks, READS_AT_A_TIME)
        self._connected = WaitList()

    def forget(self, topic: str, topic_id: bytes, *, is_gone: bool) -> None:
        """Remove the offsets of a topic, if it was deleted; then the note.

        With a connection, the groups take their locks in the first call, so no later request reads these offsets. A
        call during the removal has the removal attempted once more. `is_gone`: the image has lost the topic just now,
        and has no new one.
        """
        known = self._pending.get(topic_id)
        if known is None:
            deletion = self._pending[topic_id] = _Deletion(topic, topic_id, is_gone=is_gone)
            self._tasks.start(self._remove(deletion))
        else:
            known.is_repeated = True

    def go_on(self) -> None:
        """There is a connection again."""
        self._tasks.touch(self._connected)

    def remove_old_notes(self, now_ms: int) -> Task[None]:
        """Remove the notes that every coordinator has had the time to act upon, as far as ZooKeeper answers."""
        if self._coordinator.coordinates_all:
            return
        with suppress(Failed):
            for note in (yield from read_notes(self._session)):
                if note.timestamp_ms < now_ms - KEPT_MS:
                    yield from delete(self._session, DeletedTopic.path(note.topic_id))

    def _remove(self, deletion: _Deletion) -> Task[None]:
        """Attempt until the offsets and the note are removed. Without a connection no request is served."""
        is_reported = False
        while True:
            deadline_ms = NEVER
            if self._session.is_connected:
                try:
                    yield from self._attempt(deletion)
                    break
                except InvalidNode:  # the note is not readable, and was named
                    break
                except (KafkaError, Failed) as error:
                    if not is_reported:
                        is_reported = True
                        message = "groups may have offsets of the deleted topic %s yet; the broker tries again: %s"
                        logger.warning(message, deletion.topic, error)
                deadline_ms = self._tasks.monotonic_ms() + RETRY_MS
            deletion.is_gone = False  # by then another topic may have the name
            yield Changes((self._connected,), deadline_ms)
        del self._pending[deletion.topic_id]

    def _attempt(self, deletion: _Deletion) -> Task[None]:
        """Remove the offsets from all groups, then from the coordinator; then the note. Raises KafkaError, Failed."""
        deletion.is_repeated = False
        groups = list(self._groups())
        topic, topic_id, is_gone = deletion.topic, deletion.topic_id, deletion.is_gone
        yield from gather(
            [group.forget_topic(topic, topic_id, self._reads, is_gone=is_gone) for group in groups], len(groups)
        )
        path = DeletedTopic.path(deletion.topic_id)
        found = yield from get(self._session, path)
        if found is None:
            return
        note = DeletedTopic.decode(path.rpartition("/")[2], found.data)
        yield from self._coordinator.forget_topics({note.topic: note.timestamp_ms})
        if deletion.is_repeated:
            raise ask_again("a topic with that id was deleted once more")
        if list(self._groups()) != groups:  # with a lead came groups that have the offsets
            raise ask_again("the groups with offsets in both stores have changed")
        for group in self._groups():  # an offset that ZooKeeper keeps may have gone from the log
            group.refresh_topic(note.topic)
        if self._coordinator.coordinates_all:
            yield from delete(self._session, path)
