"""Where the offsets of each group are: in Kafka's two separate stores, in both at once, or in the coordinator alone.

| `headgate.offsets.store` | OffsetCommit 0, OffsetFetch 0 | later versions |
|---|---|---|
| `separate`, the default | ZooKeeper | the coordinator |
| `dual` | `DualGroup` | `DualGroup` |
| `kafka` | the coordinator | the coordinator |

A group config counts before the patterns of the broker setting. A group whose offsets were carried over has a node
below `/headgate/offsets`: so a restart knows what was done, whatever the configs say by then.

Only the coordinator of a group carries its offsets over, watches them, and leaves. With the lead of a partition of
`__consumer_offsets` its groups go to the next coordinator, which reads the nodes again before it answers for any group.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from headgate.gateway.config import offset_store
from headgate.gateway.config.offset_store import DUAL, KAFKA, OffsetStore
from headgate.gateway.config.resource_type import ResourceType
from headgate.gateway.coordinator.decision import Decision, Ticket
from headgate.gateway.coordinator.gathering import caught, gather_replies
from headgate.gateway.coordinator.groups import offset_requests
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.metadata.image import CONSUMER_OFFSETS
from headgate.gateway.runtime.tasks import PAUSE, Caller, Outcome, Task, gather, shielded, value_of
from headgate.gateway.zookeeper.combined_writes import CombinedWrites
from headgate.gateway.zookeeper.layout.consumers import CONSUMERS_PATH
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.topics import DeletedTopic
from headgate.gateway.zookeeper.offsets import version_zero
from headgate.gateway.zookeeper.offsets.background import Background
from headgate.gateway.zookeeper.offsets.client_errors import ask_again, for_client, late
from headgate.gateway.zookeeper.offsets.deleted_topics import RETRY_MS, DeletedTopics, read_notes
from headgate.gateway.zookeeper.offsets.dual_group import DualGroup, DualGroupServices, State
from headgate.gateway.zookeeper.offsets.marker_offsets import MarkerOffsets
from headgate.gateway.zookeeper.offsets.marks import MARKS_PATH, unmark
from headgate.gateway.zookeeper.offsets.partition_locks import Partitions
from headgate.gateway.zookeeper.requests import children
from headgate.gateway.zookeeper.session import ANY_VERSION, Children, KeeperError, Session, SessionEvent
from headgate.protocol.errors import ErrorCode, KafkaError, without_frames
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartition,
)
from headgate.protocol.steps import FEW_ITEMS
from headgate.protocol.wire import ZERO_UUID

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig
    from headgate.gateway.coordinator.groups.group_coordinator import GroupCoordinator
    from headgate.gateway.coordinator.shard_loader import CoordinatorServices
    from headgate.gateway.metadata.image import Image, Topic
    from headgate.gateway.metadata.store import MetadataStore
    from headgate.gateway.runtime.scheduler import Timer
    from headgate.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
    from headgate.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
    from headgate.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse

logger = logging.getLogger("headgate.groups")

T = TypeVar("T")
A = TypeVar("A")

DISCOVER_MS: Final = 30_000.0
OLD_NOTES_EVERY_MS: Final = 3_600_000.0
"""With a pattern for dual groups: how often groups without requests are looked for."""
MOST_CACHED: Final = 10_000
MOST_BY_PATTERN: Final = 20_000
"""Groups that a pattern may put into two stores: clients may name any number."""


class Marks(NamedTuple):
    """What earlier starts have noted: the groups whose offsets were carried over, and deleted topics."""

    groups: Sequence[str] = ()
    deleted: Sequence[DeletedTopic] = ()


def read_marks(session: Session) -> Task[Marks]:
    """What earlier starts have noted. Raises Failed."""
    groups = yield from children(session, MARKS_PATH)
    return Marks(groups, (yield from read_notes(session)))


class OffsetStores:
    """The stores of all groups. `start` once the groups are loaded or being loaded."""

    def __init__(
        self,
        session: Session,
        groups: GroupCoordinator,
        services: CoordinatorServices,
        config: BrokerConfig,
        metadata: MetadataStore,
    ) -> None:
        self._tasks, self._scheduler = services.tasks, services.scheduler
        self._shared = DualGroupServices(
            session,
            CombinedWrites(session),
            groups,
            services.scheduler,
            services.tasks,
            services.clock.now_ms,
            lambda: config.offsets_commit_timeout_ms,
            self._may_ask,
            self._enter_in_background,
        )
        self._session = session
        self._coordinator = groups
        self._config = config
        self._metadata = metadata
        self._patterns = config.headgate_offsets_store
        self._by_pattern: dict[str, OffsetStore] = {}
        self._groups: dict[str, DualGroup] = {}
        self._lost_before_marks: dict[bytes, str] | None = {}
        """Topics that the image has lost before the marks were read; None from then on."""
        self._takeovers = 0
        """How often this broker has become the coordinator of groups that another one coordinated."""
        self._discovery: Timer | None = None
        self._is_whole = True
        """Whether this broker is in its cluster, as far as the present session is connected."""
        self._is_stopped = False
        self._background = Background(services.tasks)
        self._deleted = DeletedTopics(session, groups, services.tasks, self._known_groups)
        self.before_markers = MarkerOffsets(groups, self.dual)

    # Life

    def start(self, marks: Marks | None = None) -> None:
        """`marks`: what `read_marks` has read; without it, groups have to ask again until that is known."""
        self._scheduler.call_after(OLD_NOTES_EVERY_MS, self._remove_old_notes)
        if marks is None:
            self._read_marks()
        else:
            self._know(marks)

    def _remove_old_notes(self) -> None:
        """As the controller, remove the notes of deleted topics that no broker needs."""
        if self._is_stopped:
            return
        self._scheduler.call_after(OLD_NOTES_EVERY_MS, self._remove_old_notes)
        if self._may_ask() and self._metadata.image.controller_id == self._config.node_id:
            self._tasks.start(self._deleted.remove_old_notes(self._shared.timestamp_ms()))

    def stop(self) -> None:
        """Begin no more work."""
        self._is_stopped = True

    def follow_session(self, _: SessionEvent) -> None:
        """Watches end with a connection. After the next one another cluster may be there, until `resume`."""
        self._is_whole = False
        for group in self._groups.values():
            group.forget_watches()

    def resume(self) -> None:
        """The session is back, and the cluster is the same: read everything."""
        self._is_whole = True
        if not self._is_ready:
            self._read_marks()
        self._deleted.go_on()
        for group in self._groups.values():
            self._refresh(group)

    def _may_ask(self) -> bool:
        return self._is_whole and self._session.is_connected

    def follow(self, old: Image, new: Image, names: Collection[str]) -> None:
        """A listener of the metadata, behind the coordinators: their leads, configs of groups, and deleted topics."""
        if CONSUMER_OFFSETS in names:
            self._follow_leads(old.topics.get(CONSUMER_OFFSETS), new.topics.get(CONSUMER_OFFSETS))
        if new.configs is not old.configs and self._is_ready:
            for resource_type, group_id in {**old.configs, **new.configs}:
                key = resource_type, group_id
                if resource_type == ResourceType.GROUP and old.configs.get(key) != new.configs.get(key):
                    self._apply(group_id)
        for name in names:
            before, after = old.topics.get(name), new.topics.get(name)
            if before is None or (after is not None and after.topic_id == before.topic_id):
                continue
            if self._lost_before_marks is None:
                self._deleted.forget(name, before.topic_id, is_gone=after is None)
            else:
                self._lost_before_marks[before.topic_id] = name

    def _follow_leads(self, before: Topic | None, after: Topic | None) -> None:
        """Give up groups that another broker coordinates; read the marks again for groups that come from another one.

        The requests of a group that is given up begin again at its coordinator.
        """
        for group in list(self._groups.values()):
            if not self._coordinator.coordinates(group.group_id):
                self._drop(group)
        node_id = self._config.node_id
        led = {
            index for index, state in enumerate(() if before is None else before.partitions) if state.leader == node_id
        }
        if any(  # a partition of epoch 0 had no coordinator before
            state.leader == node_id and state.leader_epoch and index not in led
            for index, state in enumerate(() if after is None else after.partitions)
        ):
            self._takeovers += 1
            if self._lost_before_marks is None:
                self._lost_before_marks = {}
            self._read_marks()

    def _read_marks(self) -> None:
        if not self._is_ready and self._may_ask():
            self._tasks.start(read_marks(self._session), partial(self._have_read_marks, self._takeovers))

    def _have_read_marks(self, takeovers: int, marks: Marks | Exception) -> None:
        if takeovers != self._takeovers:  # another read has begun, with the marks of the last coordinator
            return
        if isinstance(marks, Marks):
            self._know(marks)
        else:
            self._retry(self._read_marks)

    def _know(self, marks: Marks) -> None:
        if self._lost_before_marks is None:
            return
        lost, self._lost_before_marks = self._lost_before_marks, None
        own = [one for one in marks.groups if one not in self._groups and self._coordinator.coordinates(one)]
        marked = [group for one in own if (group := self._new_group(one, State.DUAL)) is not None]
        configured = [name for kind, name in self._metadata.image.configs if kind == ResourceType.GROUP]
        for group_id in configured:
            if group_id not in self._groups:
                self._apply(group_id)
        deleted, image = {one.topic_id: one.topic for one in marks.deleted} | lost, self._metadata.image
        for topic_id, topic in deleted.items():  # before any refresh and any request
            if topic_id in image.topic_names:  # the topic was written again, with its id
                self._session.delete(DeletedTopic.path(topic_id), ANY_VERSION, lambda _: None)
            else:
                self._deleted.forget(topic, topic_id, is_gone=False)
        for group in marked:
            self._refresh(group)
        for group_id in marks.groups:
            self._apply(group_id)
        if self._discovery is None and any(one.store.store == DUAL for one in self._patterns):
            self._discover()

    def _retry(self, function: Callable[[], None]) -> None:
        if not self._is_stopped:
            self._scheduler.call_after(RETRY_MS, function)

    def _known_groups(self) -> Collection[DualGroup]:
        if not self._is_ready:
            raise _being_read()
        return self._groups.values()

    @property
    def _is_ready(self) -> bool:
        """Whether the marks are read: they say which groups are dual."""
        return self._lost_before_marks is None

    # The store of a group

    def store_of(self, group_id: str) -> OffsetStore:
        """The store that the configs name."""
        configs = self._metadata.image.configs.get((ResourceType.GROUP, group_id))
        own = offset_store.of_group(configs) if configs else None
        if own is not None:
            return own
        store = self._by_pattern.get(group_id)
        if store is None:
            if len(self._by_pattern) >= MOST_CACHED:
                self._by_pattern.clear()
            store = self._by_pattern[group_id] = offset_store.by_pattern(self._patterns, group_id)
        return store

    def dual(self, group_id: str) -> DualGroup | None:
        """The group, if its offsets are in both stores. Raises KafkaError while that is not known."""
        if not self._is_ready:
            raise _being_read()
        group = self._groups.get(group_id)
        if group is None:
            if not self._patterns or self.store_of(group_id).store != DUAL:
                return None
            if len(self._groups) >= MOST_BY_PATTERN:
                message = f"{MOST_BY_PATTERN} groups are in two stores: name fewer in headgate.offsets.store"
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
            self._apply(group_id)
            group = self._groups.get(group_id)
        if group is not None and group.state is State.ENTERING:
            self._background.hurry(group_id)
        return group

    def _apply(self, group_id: str) -> None:
        """Begin what the configs ask for."""
        is_wanted, group = self.store_of(group_id).store == DUAL, self._groups.get(group_id)
        if is_wanted and group is None and self._coordinator.coordinates(group_id):
            entering = self._new_group(group_id, State.ENTERING)
            if entering is not None:
                self._enter_in_background(entering)
        elif not is_wanted and group is not None and group.state is State.DUAL:
            group.state = State.LEAVING
            self._background.add(group_id, partial(self._leave, group))

    def _new_group(self, group_id: str, state: State) -> DualGroup | None:
        try:
            group = self._groups[group_id] = DualGroup(group_id, self._shared, state, self._background)
        except InvalidNode as error:
            logger.warning("the offsets of group %r cannot be in ZooKeeper: %s", group_id[:100], error.reason)
            self._by_pattern[group_id] = offset_store.DEFAULT
            return None
        return group

    def _refresh(self, group: DualGroup) -> None:
        if group.state is State.DUAL:
            self._background.add(group.group_id, group.refresh_all)

    def _enter_in_background(self, group: DualGroup) -> None:
        self._background.add(group.group_id, partial(self._enter, group))

    def _is_given_up(self, group: DualGroup) -> bool:
        return self._groups.get(group.group_id) is not group

    def _enter(self, group: DualGroup) -> Task[None]:
        if self._is_given_up(group):
            return
        store = self.store_of(group.group_id)
        source = group.source or store.source
        try:
            if store.store != DUAL:
                # The group is not to be dual after all. Its mark may be there, though no answer said so
                if group.may_be_marked:
                    yield from for_client(unmark(self._session, group.group_id))
                if not self._is_given_up(group):
                    self._drop(group)
            elif not self._may_ask():
                raise ask_again("the connection to ZooKeeper is lost")
            else:
                yield from group.enter(source)
                if self._is_given_up(group):
                    return
                logger.info("group %s has its offsets in ZooKeeper too, as %s had them", group.group_id, source)
                group.entered()
        except KafkaError as error:
            if not self._is_given_up(group):
                self._note_failure(group, error)
                self._retry(partial(self._enter_in_background, group))
        else:
            self._apply(group.group_id)

    def _leave(self, group: DualGroup) -> Task[None]:
        if self._is_given_up(group):
            return
        try:
            yield from group.leave()
        except KafkaError as error:
            if not self._is_given_up(group):
                self._note_failure(group, error)
                self._retry(lambda: self._background.add(group.group_id, partial(self._leave, group)))
        else:
            logger.info("group %s has its offsets in both stores no more", group.group_id)
            if not self._is_given_up(group):
                self._drop(group)
            self._apply(group.group_id)

    def _note_failure(self, group: DualGroup, error: KafkaError) -> None:
        """Log a failure, unless the attempt before failed in the same way."""
        failure = f"{group.state.name.lower()} its two stores, and the broker tries again: {error.message}"
        if failure != group.failure:
            group.failure = failure
            logger.warning("group %s is %s", group.group_id, failure)

    def _drop(self, group: DualGroup) -> None:
        del self._groups[group.group_id]
        group.left()

    def _discover(self) -> None:
        """Look for groups without requests that a pattern makes dual: in ZooKeeper, and in the coordinator."""

        def listed(answer: Children | KeeperError) -> None:
            names = answer.names if isinstance(answer, Children) else ()
            for group_id in (*names, *self._coordinated()):
                if group_id not in self._groups and self.store_of(group_id).store == DUAL:
                    self._apply(group_id)

        if self._may_ask():
            self._session.children(CONSUMERS_PATH, listed)
        if not self._is_stopped:
            self._discovery = self._scheduler.call_after(DISCOVER_MS, self._discover)

    def _coordinated(self) -> list[str]:
        with suppress(KafkaError):  # a shard is being loaded
            return [group_id for shard in list(self._coordinator.shards()) for group_id in shard.groups]
        return []

    # Requests

    def commit(self, group: DualGroup, request: OffsetCommitRequest, version: int) -> Task[OffsetCommitResponse]:
        """OffsetCommit of a dual group. Raises KafkaError."""

        def decide(shard: GroupShard, ticket: Ticket) -> Decision:
            return offset_requests.commit(shard, request, version, ticket, self._tasks.monotonic_ms())

        return group.commit(self._partitions_of_rows(request.topics), decide)

    def refresh(self, wanted: Sequence[OffsetFetchRequestGroup]) -> Task[dict[str, KafkaError]]:
        """Have the log take what others wrote of the dual groups in an OffsetFetch. Returns the errors by group."""
        failed: dict[str, KafkaError] = {}
        refreshes: list[tuple[str, Task[None]]] = []
        for number, group in enumerate(wanted, 1):
            try:
                dual = self.dual(group.group_id)
                if dual is not None:
                    refreshes.append((group.group_id, dual.refresh(self._partitions(group.topics))))
            except KafkaError as error:
                failed[group.group_id] = without_frames(error)
            if not number % FEW_ITEMS:
                yield PAUSE
        if refreshes:
            results = yield from gather([caught(refresh) for _, refresh in refreshes], len(refreshes))
            failed.update(
                (group_id, error) for (group_id, _), (error,) in zip(refreshes, results, strict=True) if error
            )
        return failed

    def _partitions(self, topics: Sequence[OffsetFetchRequestTopics] | None) -> Partitions:
        if topics is None:
            return None
        image = self._metadata.image
        named = (
            (topic.name if topic.topic_id == ZERO_UUID else image.topic_names.get(topic.topic_id, ""), topic)
            for topic in topics
        )
        return frozenset(
            (name, index)
            for name, topic in named
            for index in topic.partition_indexes
            if 0 <= index < self._partitions_of(name)  # offsets of the others come with the whole group
        )

    def gather(
        self,
        group_ids: Sequence[str],
        decide: Callable[[GroupShard, str, Ticket], Decision],
        assemble: Callable[[list[Any]], Outcome[A]],
    ) -> Outcome[A]:
        """As `CoordinatorRuntime.gather`; offsets that a decision removes are removed from ZooKeeper before."""

        def ask(group_id: str) -> Outcome[Any]:
            group = self.dual(group_id)

            def decide_one(shard: GroupShard, ticket: Ticket) -> Decision:
                return decide(shard, group_id, ticket)

            return self._coordinator.submit(group_id, decide_one) if group is None else group.commit(None, decide_one)

        return gather_replies(group_ids, ask, assemble)

    def commit_in_transaction(
        self, group: DualGroup, topics: Sequence[Any], decide: Callable[[GroupShard, Ticket], Decision]
    ) -> Task[TxnOffsetCommitResponse]:
        """TxnOffsetCommit of a dual group. Earlier commits of others go into the log first. Raises KafkaError."""
        return group.refresh_and_decide(self._partitions_of_rows(topics), decide)

    def _partitions_of_rows(self, topics: Sequence[Any]) -> Partitions:
        image = self._metadata.image
        return frozenset(
            (topic.name or image.topic_names.get(topic.topic_id, ""), row.partition_index)
            for topic in topics
            for row in topic.partitions
        )

    # Version 0

    def commit_zero(self, request: OffsetCommitRequest) -> Outcome[OffsetCommitResponse]:
        """OffsetCommit 0. Dual groups skip the membership check: clients of ZooKeeper are not members."""
        group = self.dual(request.group_id)
        if group is not None:
            return self.commit(group, request, 0)
        if self.store_of(request.group_id).store == KAFKA:
            return self._coordinator.submit(
                request.group_id,
                lambda shard, ticket: offset_requests.commit(shard, request, 1, ticket, self._tasks.monotonic_ms()),
            )
        limit = self._config.offset_metadata_max_bytes

        def is_too_large(metadata: str) -> bool:
            return offset_requests.is_too_large(metadata, limit)

        return self._request(
            partial(version_zero.commit, self._session, self._shared.writes, request, self._partitions_of, is_too_large)
        )

    def fetch_zero(self, request: OffsetFetchRequest) -> Task[OffsetFetchResponse]:
        """OffsetFetch 0. No offset is an error there. Without topics: the nodes themselves, whatever the store."""
        group = self.dual(request.group_id)
        is_separate = group is None and self.store_of(request.group_id).store != KAFKA
        if is_separate or not request.topics:
            return self._request(
                lambda _: version_zero.fetch(self._session, self._shared.writes, request, self._partitions_of)
            )
        return self._fetch_zero(request, group)

    def _fetch_zero(self, request: OffsetFetchRequest, group: DualGroup | None) -> Task[OffsetFetchResponse]:
        """The coordinator's offsets, with what others wrote to ZooKeeper in a dual group."""
        wanted = OffsetFetchRequestGroup(
            request.group_id,
            topics=[
                OffsetFetchRequestTopics(topic.name, partition_indexes=topic.partition_indexes)
                for topic in request.topics or ()
            ],
        )
        if group is not None:
            yield from group.refresh(self._partitions(wanted.topics))
        reply: Any = yield from value_of(
            self._coordinator.submit(
                request.group_id,
                lambda shard, ticket: offset_requests.fetch(shard, wanted, 1, ticket, is_stable=False),
            )
        )
        return _rows_of_zero(request, reply, self._partitions_of)

    def _request(self, make: Callable[[Caller], Task[T]]) -> Task[T]:
        if not self._may_ask():
            raise ask_again("the connection to ZooKeeper is lost")
        deadline_ms = self._tasks.monotonic_ms() + self._config.offsets_commit_timeout_ms
        return shielded(self._tasks, make, deadline_ms, late)

    def _partitions_of(self, name: str) -> int:
        topic = self._metadata.image.topics.get(name)
        return 0 if topic is None else len(topic.partitions)


def _rows_of_zero(
    request: OffsetFetchRequest, row_of_group: Any, partitions_of: Callable[[str], int]
) -> OffsetFetchResponse:
    """The coordinator's rows of a group as version 0 has them."""
    if row_of_group.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(row_of_group.error_code))
    rows = {(topic.name, row.partition_index): row for topic in row_of_group.topics for row in topic.partitions}

    def row(topic: str, index: int) -> OffsetFetchResponsePartition:
        found = rows[topic, index]
        if not 0 <= index < partitions_of(topic):
            return OffsetFetchResponsePartition(index, -1, -1, "", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        code = found.error_code
        if found.committed_offset == -1 and not code:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return OffsetFetchResponsePartition(index, found.committed_offset, -1, found.metadata, code)

    return version_zero.fetched(request, row)


def _being_read() -> KafkaError:
    return ask_again("the stores of the groups are being read from ZooKeeper")
