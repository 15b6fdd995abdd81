"""The offsets of one group in ZooKeeper: nodes below `/consumers/<group>/offsets`, read and written by callbacks.

A write of many partitions is one multi for every MOST_A_MULTI of them. It has for each node the version that `versions`
knows, or that a read found just before: so a request that a lost connection has left behind
cannot replace what another client wrote after it. ZooKeeper's servers may lag behind: a read begins with a sync.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from headgate.gateway.zookeeper.layout.consumers import (
    CONSUMERS_PATH,
    ConsumerOffset,
    group_path,
    offsets_path,
    partition_of,
)
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.offsets.combined_writes import CombinedWrites
from headgate.gateway.zookeeper.offsets.partition_locks import Partition
from headgate.gateway.zookeeper.session import (
    OVERHEAD_BYTES,
    READ_AT_ONCE,
    Children,
    Create,
    Delete,
    KeeperError,
    NodeData,
    Operation,
    Refused,
    Session,
    SetData,
    Stat,
    Watch,
)

ABSENT: Final = -2
"""Instead of a version: the node does not exist."""
MOST_A_MULTI: Final = 100
MULTI_BYTES: Final = 256 * 1024
IN_FLIGHT: Final = 64
"""Reads of one group that are asked at a time."""
ATTEMPTS: Final = 8
"""Multis of one write, while other clients write the same nodes."""
_CONFLICTS: Final = frozenset((KeeperError.BAD_VERSION, KeeperError.NO_NODE, KeeperError.NODE_EXISTS))


class NodeOffset(NamedTuple):
    """What a node has: the offset, None where the data are no number; and the version, or ABSENT."""

    offset: int | None
    version: int


NO_OFFSET: Final = NodeOffset(None, ABSENT)
Found = dict[Partition, NodeOffset]
Targets = Mapping[Partition, int | None]
"""The offsets to write; None: the node is to be deleted."""
Answered = Callable[[KeeperError | None], None]
Written = Callable[[dict[Partition, KeeperError]], None]
"""Called with the partitions that were not written, and why."""


class OffsetNodes:
    """The nodes of one group. `versions`: the version of each node that is known; reads and writes keep it."""

    def __init__(self, session: Session, writes: CombinedWrites, group_id: str) -> None:
        """Raises InvalidNode for a group id that cannot be in ZooKeeper."""
        self.group_path = group_path(group_id)
        self.path = f"{self.group_path}/offsets"
        self.versions: dict[Partition, int] = {}
        self.knows_all = False
        """Whether `versions` has every node: since a whole read no version was forgotten."""
        self.own: set[Partition] = set()
        """The nodes that this broker was the last to write, as far as it knows."""
        self.session = session
        self.writes = writes
        self.group_id = group_id
        self._parents: set[str] = set()
        self._watched: set[Partition] = set()

    def place_of(self, path: str) -> tuple[str | None, int | None]:
        """The topic and the partition that a path of this group stands for, as far as there are any."""
        names = path.removeprefix(self.path).split("/")[1:]
        try:
            topic = names[0] if names else None
            return topic, partition_of(path, names[1]) if topic is not None and len(names) > 1 else None
        except InvalidNode:
            return None, None

    # Reads

    def read(
        self, partitions: Iterable[Partition], done: Callable[[Found | KeeperError], None], watch: Watch | None = None
    ) -> None:
        """Read the offsets of some partitions; those that cannot be in ZooKeeper have no offset."""
        found: Found = {}
        self.session.sync(self.group_path, partial(self._synced, list(partitions), found, watch, done))

    def _synced(self, wanted: list[Partition], found: Found, watch: Watch | None, done: Any, error: Any) -> None:
        if isinstance(error, KeeperError):
            done(error)
        else:
            self.read_nodes(wanted, found, watch, lambda failed: done(failed or found))

    def read_nodes(
        self,
        wanted: Collection[Partition],
        found: Found,
        watch: Watch | None,
        done: Callable[[KeeperError | None], None],
    ) -> None:
        """Read offsets into `found`, without a sync."""
        paths: dict[Partition, str] = {}
        for place in wanted:
            try:
                paths[place] = ConsumerOffset.path(self.group_id, *place)
            except InvalidNode:
                found[place] = NO_OFFSET
        places = list(paths)
        pieces = [places[first : first + READ_AT_ONCE] for first in range(0, len(places), READ_AT_ONCE)]
        _each(pieces, partial(self._read_piece, paths, found, watch), done)

    def unwatch(self, place: Partition) -> None:
        """The watch of a node has told of a change, and is no more."""
        self._watched.discard(place)

    def forget_watches(self) -> None:
        """The connection is lost, and all watches with it."""
        self._watched.clear()

    def _read_piece(
        self,
        paths: Mapping[Partition, str],
        found: Found,
        watch: Watch | None,
        places: Sequence[Partition],
        answered: Answered,
    ) -> None:
        def take(answers: Sequence[NodeData | KeeperError] | KeeperError) -> None:
            if isinstance(answers, KeeperError):
                answered(answers)
                return
            failed = [one for one in answers if isinstance(one, KeeperError) and one is not KeeperError.NO_NODE]
            if failed:
                answered(failed[0])
                return
            unwatched: dict[Partition, int] = {}
            for place, answer in zip(places, answers, strict=True):
                found[place] = self._take(place, answer)
                if isinstance(answer, NodeData) and place not in self._watched:
                    unwatched[place] = answer.stat.mzxid
            if watch is None or not unwatched:
                answered(None)
            else:
                self._set_watches(paths, unwatched, watch, answered)

        self.session.get_many([paths[place] for place in places], take)

    def _set_watches(
        self, paths: Mapping[Partition, str], unwatched: Mapping[Partition, int], watch: Watch, answered: Answered
    ) -> None:
        """Watch nodes that were just read; what has changed since is told at once."""

        def answer(error: KeeperError | None) -> None:
            if error is not None:
                self._watched.difference_update(unwatched)
            answered(error)

        self._watched.update(unwatched)  # before the answer: an event may come first
        self.session.watch_many([paths[place] for place in unwatched], max(unwatched.values()), watch, answer)

    def _take(self, place: Partition, answer: NodeData | KeeperError) -> NodeOffset:
        version = ABSENT if isinstance(answer, KeeperError) else answer.stat.version
        if self.versions.get(place) != version:
            self.own.discard(place)
        self.versions[place] = version
        if isinstance(answer, KeeperError):
            return NO_OFFSET
        try:
            return NodeOffset(ConsumerOffset.decode(self.group_id, *place, answer.data).offset, version)
        except InvalidNode:
            return NodeOffset(None, version)

    def read_all(self, done: Callable[[Found | KeeperError], None], watch: Watch | None = None) -> None:
        """Read all offsets of the group. With a watch, changes of any node are told, new ones included."""
        found: Found = {}
        places: dict[Partition, None] = {}

        def listed(error: KeeperError | None) -> None:
            if error is not None:
                done(error)
                return
            for place in self.versions:
                if place not in places:
                    self.versions[place] = ABSENT
            self.read_nodes(places, found, watch, lambda failed: done(failed or found))

        def topics(answer: Children | KeeperError) -> None:
            if answer is KeeperError.NO_NODE:
                self._await_node(watch, listed, list_topics)
            elif isinstance(answer, KeeperError):
                done(answer)
            else:
                _each(answer.names, partial(self._list_topic, places, watch), listed)

        def list_topics() -> None:
            self.session.children(self.path, topics, watch)

        self.session.sync(self.group_path, lambda error: list_topics() if error is None else done(error))

    def _await_node(
        self, watch: Watch | None, done: Callable[[KeeperError | None], None], list_topics: Callable[[], None]
    ) -> None:
        """There are no offsets yet: have the watch told of the first, unless that came meanwhile."""

        def looked(answer: Stat | KeeperError) -> None:
            if isinstance(answer, KeeperError):
                done(None if answer is KeeperError.NO_NODE else answer)
            else:
                list_topics()

        if watch is None:
            done(None)
        else:
            self.session.exists(self.path, looked, watch)

    def _list_topic(
        self,
        places: dict[Partition, None],
        watch: Watch | None,
        topic: str,
        answered: Callable[[KeeperError | None], None],
    ) -> None:
        def take(answer: Children | KeeperError) -> None:
            if isinstance(answer, KeeperError):
                answered(None if answer is KeeperError.NO_NODE else answer)
                return
            for name in answer.names:
                try:
                    places[topic, partition_of(path, name)] = None
                except InvalidNode:
                    continue
            answered(None)

        try:
            path = offsets_path(self.group_id, topic)
        except InvalidNode:
            answered(None)
        else:
            self.session.children(path, take, watch)

    # Writes

    def write(
        self,
        targets: Targets,
        done: Written,
        *,
        is_over: Callable[[], bool] | None = None,
        as_read: bool = False,
    ) -> None:
        """Write and delete offsets, all in flight together.

        `is_over`: nobody awaits the write any more, so nothing that was not sent yet is to be sent. Partitions that
        cannot be in ZooKeeper fail with BAD_ARGUMENTS. `as_read`: the nodes have to be as they were read; where one is
        not, others beside it are not written either, and all fail with BAD_VERSION.
        """
        failed: dict[Partition, KeeperError] = {}
        places = []
        for place in targets:
            try:
                ConsumerOffset.path(self.group_id, *place)
                places.append(place)
            except InvalidNode:
                failed[place] = KeeperError.BAD_ARGUMENTS
        if as_read:
            self.versions.update((place, ABSENT) for place in places if place not in self.versions)
        size = max(1, min(MOST_A_MULTI, MULTI_BYTES // (len(self.path.encode()) + 2 * OVERHEAD_BYTES)))
        pieces = [places[start : start + size] for start in range(0, len(places), size)]

        def write_piece(piece: list[Partition], answered: Callable[[KeeperError | None], None]) -> None:
            wanted = {place: targets[place] for place in piece}

            def ended(refused: dict[Partition, KeeperError]) -> None:
                failed.update(refused)
                answered(None)

            _Write(self, wanted, ended, is_over or _never, as_read=as_read).go_on()

        _each(pieces, write_piece, lambda _: done(failed))

    def make_parents(self, topics: Iterable[str], done: Callable[[KeeperError | None], None]) -> None:
        """Create the parents of the offsets of some topics, as far as they are missing."""
        paths = [CONSUMERS_PATH, self.group_path, self.path]
        paths += [offsets_path(self.group_id, topic) for topic in topics]
        missing = [path for path in paths if path not in self._parents]
        errors: list[KeeperError] = []
        left = len(missing)

        def created(path: str, answer: str | KeeperError) -> None:
            nonlocal left
            left -= 1
            if not isinstance(answer, KeeperError) or answer is KeeperError.NODE_EXISTS:
                self._parents.add(path)
            else:
                errors.append(answer)
            if not left:
                done(errors[0] if errors else None)

        if not missing:
            done(None)
        for path in missing:
            self.session.create(Create(path), partial(created, path))

    def forget_version(self, place: Partition) -> None:
        """Another client has written the node, or a write may have been carried out."""
        self.versions.pop(place, None)
        self.knows_all = False

    def forget_parents(self) -> None:
        """A parent was deleted by another client."""
        self._parents.clear()


class _Write:
    """The write of at most MOST_A_MULTI partitions: read what is unknown, create parents, then one multi; again."""

    def __init__(
        self, nodes: OffsetNodes, targets: Targets, done: Written, is_over: Callable[[], bool], *, as_read: bool
    ) -> None:
        self._nodes = nodes
        self._targets = targets
        self._done = done
        self._is_over = is_over
        self._as_read = as_read
        self._attempts = 0

    def go_on(self) -> None:
        self._attempts += 1
        if self._is_over():
            self._fail(KeeperError.NOT_CONNECTED, is_known=True)
        elif self._attempts > ATTEMPTS:
            self._fail(KeeperError.BAD_VERSION)
        else:
            unknown = [place for place in self._targets if place not in self._nodes.versions]
            self._nodes.read_nodes(unknown, {}, None, self._make_parents) if unknown else self._make_parents(None)

    def _make_parents(self, error: KeeperError | None) -> None:
        if error is not None:
            self._fail(error, is_known=True)
            return
        versions = self._nodes.versions
        topics = dict.fromkeys(
            topic for (topic, index), offset in self._targets.items()
            if offset is not None and versions[topic, index] == ABSENT
        )  # fmt: skip
        if topics:
            self._nodes.make_parents(topics, self._send)
        else:
            self._send(None)

    def _send(self, error: KeeperError | None) -> None:
        if error is not None or self._is_over():
            self._fail(error or KeeperError.NOT_CONNECTED, is_known=True)
            return
        operations: list[Operation] = []
        places = []
        for place, offset in self._targets.items():
            operation = self._operation(place, offset)
            if operation is not None:
                operations.append(operation)
                places.append(place)
        if operations:
            self._nodes.writes.write(operations, partial(self._sent, places))
        else:
            self._done({})

    def _operation(self, place: Partition, offset: int | None) -> Operation | None:
        path, version = ConsumerOffset.path(self._nodes.group_id, *place), self._nodes.versions[place]
        if offset is None:
            return None if version == ABSENT else Delete(path, version)
        data = ConsumerOffset(offset).encode()
        return Create(path, data) if version == ABSENT else SetData(path, data, version)

    def _sent(self, places: list[Partition], answer: Any) -> None:
        versions = self._nodes.versions
        if isinstance(answer, KeeperError):
            self._fail(answer)
        elif isinstance(answer, Refused):
            self._refused(places[answer.place], answer.error)
        else:
            self._nodes.own.update(places)
            for place, result in zip(places, answer, strict=True):
                versions[place] = (
                    result.version if isinstance(result, Stat) else ABSENT if self._targets[place] is None else 0
                )
            self._done({})

    def _refused(self, place: Partition, error: KeeperError) -> None:
        """Another client has changed a node, or a parent."""
        if error not in _CONFLICTS:
            self._fail(error)
            return
        versions = self._nodes.versions
        if versions[place] == ABSENT and error is KeeperError.NO_NODE:
            self._nodes.forget_parents()
        elif self._as_read:
            self._nodes.forget_version(place)
            self._fail(KeeperError.BAD_VERSION, is_known=True)
            return
        else:
            self._nodes.forget_version(place)
        self.go_on()

    def _fail(self, error: KeeperError, *, is_known: bool = False) -> None:
        """`is_known`: the nodes are as they were."""
        if not is_known:
            for place in self._targets:
                self._nodes.forget_version(place)
        self._done(dict.fromkeys(self._targets, error))


def _never() -> bool:
    return False


def _each(
    items: Collection[Any],
    ask: Callable[[Any, Callable[[KeeperError | None], None]], None],
    done: Callable[[KeeperError | None], None],
) -> None:
    """Ask for each item, IN_FLIGHT of them at a time; `done` gets the first error, and then not all were asked."""
    waiting = iter(items)
    asking = 0
    error: KeeperError | None = None
    is_going_on = is_exhausted = False

    def answered(failed: KeeperError | None) -> None:
        nonlocal asking, error
        asking -= 1
        error = error or failed
        go_on()

    def go_on() -> None:
        nonlocal asking, is_going_on, is_exhausted
        if is_going_on:  # an answer came before `ask` returned
            return
        is_going_on = True
        while asking < IN_FLIGHT and not is_exhausted and error is None:
            item = next(waiting, _END)
            if item is _END:
                is_exhausted = True
            else:
                asking += 1
                ask(item, answered)
        is_going_on = False
        if not asking and (is_exhausted or error is not None):
            done(error)

    go_on()


_END: Final = object()
