"""The offsets of one group in ZooKeeper: nodes below `/consumers/<group>/offsets`.

A write of many partitions is one multi for every MOST_A_MULTI of them. It has for each node the version that `versions`
knows, or that a read found just before: so a request that a lost connection has left behind
cannot replace what another client wrote after it. ZooKeeper's servers may lag behind: a read begins with a sync.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from headgate.gateway.runtime.tasks import Caller, Task, gather
from headgate.gateway.zookeeper.combined_writes import CombinedWrites
from headgate.gateway.zookeeper.layout.consumers import (
    CONSUMERS_PATH,
    ConsumerOffset,
    group_path,
    offsets_path,
    partition_of,
)
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.offsets.partition_locks import Partition
from headgate.gateway.zookeeper.requests import Failed, checked, children, exists, get_many
from headgate.gateway.zookeeper.session import (
    OVERHEAD_BYTES,
    READ_AT_ONCE,
    Create,
    Delete,
    KeeperError,
    NodeData,
    Operation,
    Refused,
    Results,
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
    """The content of a node: the offset, None where the data are no number; and the version, or ABSENT."""

    offset: int | None
    version: int


NO_OFFSET: Final = NodeOffset(None, ABSENT)
Found = dict[Partition, NodeOffset]
Targets = Mapping[Partition, int | None]
"""The offsets to write; None deletes the node."""
Failures = dict[Partition, KeeperError]
"""The partitions that were not written, and why."""


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

    def partition_of(self, path: str) -> tuple[str | None, int | None]:
        """The topic and the partition that a path of this group stands for, as far as there are any."""
        names = path.removeprefix(self.path).split("/")[1:]
        try:
            topic = names[0] if names else None
            return topic, partition_of(path, names[1]) if topic is not None and len(names) > 1 else None
        except InvalidNode:
            return None, None

    # Reads

    def read(self, partitions: Iterable[Partition], watch: Watch | None = None) -> Task[Found]:
        """Read the offsets of some partitions; those that cannot be in ZooKeeper have no offset. Raises Failed."""
        yield from self._sync()
        return (yield from self.read_unsynced(list(partitions), watch))

    def read_all(self, watch: Watch | None = None) -> Task[Found]:
        """Read all offsets of the group. With a watch, changes of any node are reported, new ones included.

        Raises Failed.
        """
        yield from self._sync()
        topics = yield from self._list_topics(watch)
        listed = yield from gather([self._list_partitions(topic, watch) for topic in topics], IN_FLIGHT)
        partitions = dict.fromkeys(partition for of_topic in listed for partition in of_topic)
        for partition in self.versions:
            if partition not in partitions:
                self.versions[partition] = ABSENT
        return (yield from self.read_unsynced(partitions, watch))

    def _sync(self) -> Task[None]:
        checked(self.group_path, (yield partial(self.session.sync, self.group_path)))

    def _list_topics(self, watch: Watch | None) -> Task[Sequence[str]]:
        while True:
            answer = yield partial(self.session.children, self.path, watch=watch)
            if answer is not KeeperError.NO_NODE:
                names: Sequence[str] = checked(self.path, answer).names
                return names
            # There are no offsets yet: the watch reports the first, unless it was written meanwhile
            if watch is None or (yield from exists(self.session, self.path, watch)) is None:
                return ()

    def _list_partitions(self, topic: str, watch: Watch | None) -> Task[list[Partition]]:
        try:
            path = offsets_path(self.group_id, topic)
        except InvalidNode:
            return []
        partitions = []
        for name in (yield from children(self.session, path, watch)):
            with suppress(InvalidNode):
                partitions.append((topic, partition_of(path, name)))
        return partitions

    def read_unsynced(self, wanted: Collection[Partition], watch: Watch | None = None) -> Task[Found]:
        """Read offsets without a sync."""
        found: Found = {}
        paths: dict[Partition, str] = {}
        for partition in wanted:
            try:
                paths[partition] = ConsumerOffset.path(self.group_id, *partition)
            except InvalidNode:
                found[partition] = NO_OFFSET
        partitions = list(paths)
        pieces = [partitions[first : first + READ_AT_ONCE] for first in range(0, len(partitions), READ_AT_ONCE)]
        yield from gather([self._read_piece(paths, found, watch, piece) for piece in pieces], IN_FLIGHT)
        return found

    def unwatch(self, partition: Partition) -> None:
        """The watch of a node has reported a change, and has ended with that."""
        self._watched.discard(partition)

    def forget_watches(self) -> None:
        """The connection is lost, and all watches with it."""
        self._watched.clear()

    def _read_piece(
        self, paths: Mapping[Partition, str], found: Found, watch: Watch | None, partitions: Sequence[Partition]
    ) -> Task[None]:
        nodes = yield from get_many(self.session, [paths[partition] for partition in partitions])
        unwatched: dict[Partition, int] = {}
        for partition, node in zip(partitions, nodes, strict=True):
            found[partition] = self._note(partition, node)
            if node is not None and partition not in self._watched:
                unwatched[partition] = node.stat.mzxid
        if watch is not None and unwatched:
            yield from self._set_watches(paths, unwatched, watch)

    def _set_watches(
        self, paths: Mapping[Partition, str], unwatched: Mapping[Partition, int], watch: Watch
    ) -> Task[None]:
        """Watch nodes that were just read; a change since then is reported at once."""
        wanted, last_zxid = [paths[partition] for partition in unwatched], max(unwatched.values())
        self._watched.update(unwatched)  # before the answer: an event may come first
        try:
            checked(wanted[0], (yield partial(self.session.watch_many, wanted, last_zxid, watch)))
        except Failed:
            self._watched.difference_update(unwatched)
            raise

    def _note(self, partition: Partition, node: NodeData | None) -> NodeOffset:
        version = ABSENT if node is None else node.stat.version
        if self.versions.get(partition) != version:
            self.own.discard(partition)
        self.versions[partition] = version
        if node is None:
            return NO_OFFSET
        try:
            return NodeOffset(ConsumerOffset.decode(self.group_id, *partition, node.data).offset, version)
        except InvalidNode:
            return NodeOffset(None, version)

    # Writes

    def write(self, targets: Targets, caller: Caller | None = None, *, as_read: bool = False) -> Task[Failures]:
        """Write and delete offsets, all in flight together. Returns the partitions that were not written, and why.

        Once `caller` is gone, nothing more is sent; without a caller, all is sent. Partitions that cannot be in
        ZooKeeper fail with BAD_ARGUMENTS. `as_read`: the nodes have to be as they were read; where one is not, its
        whole piece (one multi) is not written, and fails with BAD_VERSION.
        """
        failed: Failures = {}
        partitions = []
        for partition in targets:
            try:
                ConsumerOffset.path(self.group_id, *partition)
                partitions.append(partition)
            except InvalidNode:
                failed[partition] = KeeperError.BAD_ARGUMENTS
        if as_read:
            self.versions.update((partition, ABSENT) for partition in partitions if partition not in self.versions)
        size = max(1, min(MOST_A_MULTI, MULTI_BYTES // (len(self.path.encode()) + 2 * OVERHEAD_BYTES)))
        pieces = [partitions[first : first + size] for first in range(0, len(partitions), size)]
        writes = [_Write(self, {one: targets[one] for one in piece}, caller, as_read=as_read) for piece in pieces]
        for refused in (yield from gather([write.write() for write in writes], IN_FLIGHT)):
            failed.update(refused)
        return failed

    def make_parents(self, topics: Iterable[str]) -> Task[None]:
        """Create the parents of the offsets of some topics, as far as they are missing. Raises Failed."""
        paths = [CONSUMERS_PATH, self.group_path, self.path]
        paths += [offsets_path(self.group_id, topic) for topic in topics]
        missing = [path for path in paths if path not in self._parents]
        yield from gather([self._make_parent(path) for path in missing], len(missing))

    def _make_parent(self, path: str) -> Task[None]:
        answer = yield partial(self.session.create, Create(path))
        if answer is not KeeperError.NODE_EXISTS:
            checked(path, answer)
        self._parents.add(path)

    def forget_version(self, partition: Partition) -> None:
        """Another client has written the node, or a write may have been carried out."""
        self.versions.pop(partition, None)
        self.knows_all = False

    def forget_parents(self) -> None:
        """A parent was deleted by another client."""
        self._parents.clear()


class _Write:
    """The write of at most MOST_A_MULTI partitions."""

    def __init__(self, nodes: OffsetNodes, targets: Targets, caller: Caller | None, *, as_read: bool) -> None:
        self._nodes = nodes
        self._targets = targets
        self._caller = caller
        self._as_read = as_read

    def write(self) -> Task[Failures]:
        """Read what is unknown, create parents, then write one multi; again, while other clients write the nodes."""
        for _ in range(ATTEMPTS):
            try:
                yield from self._prepare()
            except Failed as error:
                return self._fail(error.error, is_known=True)
            if self._is_unwanted:
                return self._fail(KeeperError.NOT_CONNECTED, is_known=True)
            operations = self._operations()
            if not operations:
                return {}
            answer = yield partial(self._nodes.writes.write, list(operations.values()))
            if isinstance(answer, KeeperError):
                return self._fail(answer)
            if not isinstance(answer, Refused):
                self._note(operations, answer)
                return {}
            if answer.error not in _CONFLICTS:
                return self._fail(answer.error)
            if not self._may_repeat(list(operations)[answer.place], answer.error):
                return self._fail(KeeperError.BAD_VERSION, is_known=True)
        return self._fail(KeeperError.BAD_VERSION)

    @property
    def _is_unwanted(self) -> bool:
        return self._caller is not None and self._caller.is_gone

    def _prepare(self) -> Task[None]:
        versions = self._nodes.versions
        unknown = [partition for partition in self._targets if partition not in versions]
        if unknown and not self._is_unwanted:
            yield from self._nodes.read_unsynced(unknown)
        topics = dict.fromkeys(
            topic for (topic, index), offset in self._targets.items()
            if offset is not None and versions.get((topic, index)) == ABSENT
        )  # fmt: skip
        if topics and not self._is_unwanted:
            yield from self._nodes.make_parents(topics)

    def _operations(self) -> dict[Partition, Operation]:
        operations = ((partition, self._operation(partition, offset)) for partition, offset in self._targets.items())
        return {partition: operation for partition, operation in operations if operation is not None}

    def _operation(self, partition: Partition, offset: int | None) -> Operation | None:
        path, version = ConsumerOffset.path(self._nodes.group_id, *partition), self._nodes.versions[partition]
        if offset is None:
            return None if version == ABSENT else Delete(path, version)
        data = ConsumerOffset(offset).encode()
        return Create(path, data) if version == ABSENT else SetData(path, data, version)

    def _note(self, operations: Collection[Partition], answer: Results) -> None:
        self._nodes.own.update(operations)
        for partition, result in zip(operations, answer, strict=True):
            version = ABSENT if self._targets[partition] is None else 0
            self._nodes.versions[partition] = result.version if isinstance(result, Stat) else version

    def _may_repeat(self, partition: Partition, error: KeeperError) -> bool:
        """Another client has changed a node, or deleted a parent: whether the write may follow that change."""
        if self._nodes.versions[partition] == ABSENT and error is KeeperError.NO_NODE:
            self._nodes.forget_parents()
            return True
        self._nodes.forget_version(partition)
        return not self._as_read

    def _fail(self, error: KeeperError, *, is_known: bool = False) -> Failures:
        """`is_known`: the nodes are as they were."""
        if not is_known:
            for partition in self._targets:
                self._nodes.forget_version(partition)
        return dict.fromkeys(self._targets, error)
