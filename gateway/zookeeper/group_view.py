"""A read-only view of the groups in ZooKeeper: `/consumers`, read on request, and cached for some seconds.

Members of the 0.8 age join and leave without contact to this broker, so each request reads ZooKeeper. The cost is
bounded: results are cached for `KEPT_MS`, concurrent callers share one read, one group is read at a time with `AT_ONCE`
requests, and at most `max_groups` groups are shown. Offsets are not cached: OffsetFetch 0 reads them.

An unreadable node is left out and logged once. So is a name that is too long for the strings of Kafka's responses: a
single bad name must not hide the other groups.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.tasks import SingleTask, Task, gather
from headgate.gateway.zookeeper.layout.consumers import (
    CONSUMERS_PATH,
    STATIC,
    ConsumerRegistration,
    PartitionOwner,
    group_path,
    ids_path,
    owners_path,
    partition_of,
)
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.requests import Failed, children, exists, get
from headgate.gateway.zookeeper.session import Session
from headgate.gateway.zookeeper.unreadable import UnreadableNodes

logger = logging.getLogger("headgate.zookeeper")

T = TypeVar("T")

KEPT_MS: Final = 3_000.0
MAX_DETAILS: Final = 256
"""The most groups whose members are cached."""
MAX_NODES: Final = 20_000
"""The most nodes that are read for the members of one group; the others are left out."""
AT_ONCE: Final = 8
MAX_STRING_BYTES: Final = 32_767
"""The longest string in older versions of the protocol."""
_LISTING: Final = ""


class ZooKeeperMember(NamedTuple):
    """A live member: its subscribed topics (empty if it subscribes by a pattern), and its partitions by topic."""

    consumer_id: str
    host: str
    topics: tuple[str, ...]
    partitions: Mapping[str, Sequence[int]]


class ZooKeeperGroup(NamedTuple):
    """A group in ZooKeeper with its members, sorted."""

    name: str
    members: tuple[ZooKeeperMember, ...]


Listing = Mapping[str, bool]
"""Group -> whether it has members."""


class _Kept(NamedTuple):
    value: object
    read_ms: float


class GroupView:
    """Reads groups over a session."""

    def __init__(self, session: Session, clock: Clock, max_groups: int) -> None:
        self._session = session
        self._clock = clock
        self._max_groups = max_groups
        self._kept: dict[str, _Kept] = {}
        self._asking: dict[str, list[Callable[[Any], None]]] = {}
        self._readings: deque[tuple[str, Callable[[], Task[object]]]] = deque()
        self._reader = SingleTask()
        self._is_failing = self._is_cut = False
        self._unreadable = UnreadableNodes()

    @property
    def is_failing(self) -> bool:
        """Whether ZooKeeper did not answer the last read."""
        return self._is_failing

    def list_groups(self) -> Task[Listing]:
        """All readable groups; none while ZooKeeper does not answer."""
        return (yield partial(self._ask, _LISTING, self._read_listing)) or {}

    def describe(self, names: Collection[str]) -> Task[Mapping[str, ZooKeeperGroup]]:
        """The named groups that exist in ZooKeeper, each with its members."""
        listing = yield from self.list_groups()
        hidden = [name for name in names if name not in listing and _can_be_node(name)] if self._is_cut else []
        wanted = [*(name for name in names if name in listing), *hidden]
        groups = yield from gather(map(self._describe, wanted), len(wanted))
        return {group.name: group for group in groups if group is not None}

    def _describe(self, name: str) -> Task[ZooKeeperGroup | None]:
        group: ZooKeeperGroup | None = yield partial(self._ask, name, partial(self._read_group, name))
        return group

    def _ask(self, key: str, read: Callable[[], Task[object]], resume: Callable[[Any], None]) -> None:
        """The cached value of a key, or the result of a read that concurrent callers share; None if it fails."""
        kept = self._kept.get(key)
        if kept is not None and self._clock.monotonic_ms() - kept.read_ms < KEPT_MS:
            resume(kept.value)
        elif key in self._asking:
            self._asking[key].append(resume)
        else:
            self._asking[key] = [resume]
            put = self._readings.appendleft if key == _LISTING else self._readings.append
            put((key, read))
            self._reader.start(self._read_all)

    def _read_all(self) -> Task[None]:
        """One read after another. A failure is not cached: the next request reads again."""
        while self._readings:
            key, read = self._readings.popleft()
            value: object = None
            try:
                value = yield from read()
                self._keep(key, value)
                self._is_failing = False
            except Exception as error:  # noqa: BLE001  the coordinator's groups are shown without it
                if not self._is_failing:
                    logger.warning("the groups in ZooKeeper are not shown for now: %s", error)
                self._is_failing = True
            for resume in self._asking.pop(key):
                resume(value)

    def _keep(self, key: str, value: object) -> None:
        now_ms = self._clock.monotonic_ms()
        while len(self._kept) > MAX_DETAILS:
            del self._kept[next(iter(self._kept))]
        self._kept.pop(key, None)  # the oldest is the first
        self._kept[key] = _Kept(value, now_ms)

    # Reads

    def _read_listing(self) -> Task[dict[str, bool]]:
        names = sorted((yield from children(self._session, CONSUMERS_PATH)))
        if len(names) > self._max_groups and not self._is_cut:
            logger.warning("ZooKeeper has %d groups: %d of them are shown", len(names), self._max_groups)
        self._is_cut = len(names) > self._max_groups
        names = [name for name in names[: self._max_groups] if self._is_readable(CONSUMERS_PATH, name)]
        members = yield from gather([self._children(f"{CONSUMERS_PATH}/{name}/ids") for name in names], AT_ONCE)
        return {name: bool(found) for name, found in zip(names, members, strict=True)}

    def _is_readable(self, parent: str, name: str) -> bool:
        if len(name.encode()) <= MAX_STRING_BYTES:
            return True
        self._unreadable.name(f"{parent}/{name}", f"the name has more than {MAX_STRING_BYTES} bytes")
        return False

    def _children(self, path: str) -> Task[tuple[str, ...]]:
        """The names of a node's children; none if ZooKeeper refuses the request."""
        return (yield from self._tried(path, children(self._session, path))) or ()

    def _tried(self, path: str, steps: Task[T]) -> Task[T | None]:
        """The result of the steps; None for an unreadable node."""
        try:
            return (yield from steps)
        except InvalidNode as error:
            self._unreadable.name(path, error.reason)
        except Failed as error:
            if not error.is_final:
                raise
            self._unreadable.name_failed(error)
        return None

    def _read_group(self, name: str) -> Task[ZooKeeperGroup | None]:
        """The group; None if it does not exist. An unregistered owner of a partition counts as a member too."""
        if (yield from exists(self._session, group_path(name))) is None:
            return None
        session, ids_parent, owners_parent = self._session, ids_path(name), f"{group_path(name)}/owners"
        names = yield from self._children(ids_parent)
        ids = [member for member in names if self._is_readable(ids_parent, member)][:MAX_NODES]
        topics = yield from self._children(owners_parent)
        registrations = yield from gather(
            [self._tried(f"{ids_parent}/{member}", _registration(session, name, member)) for member in ids], AT_ONCE
        )
        indexes = yield from gather([self._children(f"{owners_parent}/{topic}") for topic in topics], AT_ONCE)
        places = [(topic, index) for topic, names in zip(topics, indexes, strict=True) for index in names][:MAX_NODES]
        owners = yield from gather(
            [self._tried("/".join((owners_parent, *place)), _owner(session, name, *place)) for place in places], AT_ONCE
        )
        partitions: dict[str, dict[str, list[int]]] = {member: {} for member in ids}
        for topic, index, consumer_id in sorted(owner for owner in owners if owner is not None):
            partitions.setdefault(consumer_id, {}).setdefault(topic, []).append(index)
        subscribed = dict(zip(ids, registrations, strict=True))
        members = [
            ZooKeeperMember(member, _host(name, member), subscribed.get(member) or (), owned)
            for member, owned in partitions.items()
        ]
        return ZooKeeperGroup(name, tuple(members))


def _can_be_node(name: str) -> bool:
    try:
        ids_path(name)
    except InvalidNode:
        return False
    return True


def _registration(session: Session, group: str, consumer_id: str) -> Task[tuple[str, ...]]:
    """The topics of a member; none if it is gone, or subscribes by a pattern. Raises InvalidNode, Failed."""
    found = yield from get(session, ConsumerRegistration.path(group, consumer_id))
    if found is None:
        return ()
    registered = ConsumerRegistration.decode(group, consumer_id, found.data)
    if registered.pattern != STATIC:
        return ()
    for topic in registered.subscription:
        owners_path(group, topic)  # raises for an invalid topic name
    return tuple(sorted(registered.subscription))


def _owner(session: Session, group: str, topic: str, name: str) -> Task[tuple[str, int, str] | None]:
    """The topic, the partition and the member of an owner; None if it is gone. Raises InvalidNode, Failed."""
    index = partition_of(owners_path(group, topic), name)
    found = yield from get(session, PartitionOwner.path(group, topic, index))
    if found is None:
        return None
    consumer_id = PartitionOwner.decode(group, topic, index, found.data).consumer_id
    if len(consumer_id.encode()) > MAX_STRING_BYTES:
        raise InvalidNode(PartitionOwner.path(group, topic, index), f"the id has more than {MAX_STRING_BYTES} bytes")
    return topic, index, consumer_id


def _host(group: str, consumer_id: str) -> str:
    """The host in the id of a Scala consumer (group_host-milliseconds-8hex); the whole id of another client."""
    rest = consumer_id.removeprefix(f"{group}_")
    host, *ends = rest.rsplit("-", 2)
    return host if len(ends) == 2 and ends[0].isdecimal() else rest
