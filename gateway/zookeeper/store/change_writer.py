"""The write of one change: multis, conditional on the versions of the nodes that the change was planned with.

If ZooKeeper refuses a multi, or the connection ends before the answer, the nodes of the change are read again, and the
change is completed or fails. Nothing is guessed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headgate.gateway.metadata.image import Image, Topic
from headgate.gateway.metadata.planning.producer_ids import BLOCK_SIZE
from headgate.gateway.metadata.store import Change
from headgate.gateway.runtime.tasks import Task, gather
from headgate.gateway.zookeeper.layout.cluster import CLUSTER_ID_PATH
from headgate.gateway.zookeeper.layout.configs import TOPICS, ConfigEntity, EntityConfigs
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.topics import TopicAssignment
from headgate.gateway.zookeeper.layout.tree import read_cluster
from headgate.gateway.zookeeper.metadata import plans
from headgate.gateway.zookeeper.metadata.acl_watcher import ensure_acl_paths
from headgate.gateway.zookeeper.metadata.differences import overlay, touched
from headgate.gateway.zookeeper.metadata.reading import StoreParts, ensure_paths, read_node
from headgate.gateway.zookeeper.metadata.token_watcher import ensure_token_paths
from headgate.gateway.zookeeper.metadata.user_nodes import delete_empty_users, ensure_user
from headgate.gateway.zookeeper.requests import Failed, Lost, children, delete, exists, multi, remove
from headgate.gateway.zookeeper.session import Create, Delete, KeeperError, Refused
from headgate.gateway.zookeeper.store.metadata_watcher import MetadataWatcher
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import ProducerIdsRecord, TopicRecord

if TYPE_CHECKING:
    from headgate.gateway.runtime.scheduler import Timer

logger = logging.getLogger("headgate.zookeeper")

_ATTEMPTS: Final = 3


class NotController(Exception):
    """The controller epoch in ZooKeeper is not the epoch of this broker."""


class ClusterGone(Exception):
    """The nodes of this cluster are gone from ZooKeeper. A change would create fragments of a cluster there."""


class TopicOnDemand(Change):
    """The creation of a topic by a broker that is not the controller, which sends the topic to all brokers."""

    __slots__ = ("again_ms", "topic")

    def __init__(self, topic: Topic, image: Image, again_ms: float) -> None:
        """`again_ms`: the time from which on the topic may be created again, if it is not in the image."""
        super().__init__((), image)
        self.topic = topic
        self.again_ms = again_ms


class SubmittedChange:
    """A pending change. `is_in_doubt`: ZooKeeper may have a part of the change, or all of it.

    `outcome`: as of `ChangeWriter.write`; the change ends after those that were submitted before.
    """

    __slots__ = ("change", "image", "is_in_doubt", "is_over", "outcome", "timer", "until_ms")

    def __init__(self, change: Change, until_ms: float) -> None:
        self.change = change
        self.image: Image | None = None  # the base image of the latest plan
        self.until_ms = until_ms
        self.timer: Timer | None = None
        self.outcome: tuple[KafkaError | None, bool] | None = None
        self.is_in_doubt = self.is_over = False


class ChangeWriter:
    """Plans and sends the multis of a change."""

    def __init__(self, parts: StoreParts, watcher: MetadataWatcher) -> None:
        self._session = parts.session
        self._nodes = parts.nodes
        self._config = parts.config
        self._clock = parts.clock
        self._store = parts.store
        self._watcher = watcher

    def write(self, head: SubmittedChange) -> Task[tuple[KafkaError | None, bool]]:
        """Write a change. Returns its error, and whether a further attempt would fail too.

        Raises Lost and NotController, which leave the change pending.
        """
        try:
            return (yield from self._attempt(head)), False
        except (Lost, NotController):
            raise
        except ClusterGone as gone:
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(gone)), False
        except Failed as failed:
            return _refused(failed), failed.is_final
        except Exception as fault:
            logger.exception("a change of the metadata failed; others go on")
            message = f"the change failed in this broker, and its log has the reason: {type(fault).__name__}"
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message), True

    def _attempt(self, head: SubmittedChange) -> Task[KafkaError | None]:
        for _ in range(_ATTEMPTS):
            if head.is_over:
                break
            if isinstance(head.change, TopicOnDemand):
                if (yield from self._create(head.change.topic)):
                    return None
                continue
            try:
                wanted = yield from self._plan(head)
            except ValueError as error:
                return _refusal(head, error)
            if (yield from self._send(head, wanted)):
                return None
        return KafkaError(ErrorCode.NOT_CONTROLLER, "others changed the same in ZooKeeper; ask again")

    def _plan(self, head: SubmittedChange) -> Task[list[plans.Multi]]:
        """The multis that are still missing. Raises ValueError if an external change conflicts."""
        records, image = head.change.records, self._store.written_image
        term = self._watcher.term
        if head.is_in_doubt:
            if term is not None:
                term.topics.note_possible_deletions(records)
            image = yield from self._watcher.read_subjects(image, touched(records, image, head.change.image))
        head.image = image
        self._check_producer_ids(head, image)
        wanted = overlay(image, records) if head.is_in_doubt else image.apply_all(records)
        names = touched(records, image, wanted).topics
        nodes, now_ms = self._nodes.tree(image), self._clock.now_ms()
        if term is None:
            return plans.change_as_broker(nodes, wanted, names, self._config.node_id)
        missing = plans.note_deletions(nodes, (yield from term.topics.deleted_without_note(records, image)), now_ms)
        return missing + plans.change_image(nodes, wanted, names, self._config.node_id, now_ms)

    def _check_producer_ids(self, head: SubmittedChange, image: Image) -> None:
        """Raises ValueError if another broker has taken these producer ids."""
        for record in head.change.records:
            if isinstance(record, ProducerIdsRecord):
                is_ours = head.is_in_doubt and self._watcher.configs.has_last_block
                if record.next_producer_id - BLOCK_SIZE < image.next_producer_id and not (
                    is_ours and record.next_producer_id == image.next_producer_id
                ):
                    raise ValueError(f"producer ids are taken up to {image.next_producer_id}")

    def _send(self, head: SubmittedChange, wanted: Sequence[plans.Multi]) -> Task[bool]:
        """Send multis. Returns whether all of them took effect. Raises Failed, NotController."""
        for operations in wanted:
            if head.is_over:
                return False
            head.is_in_doubt = True
            results = yield from multi(self._session, operations)
            if isinstance(results, Refused):
                if results.place == 0 and self._watcher.term is not None:
                    raise NotController
                if results.place == 0:
                    yield from self._restore_paths()
                if results.error is KeeperError.NO_NODE and isinstance(operations[results.place], Create):
                    yield from self._restore_paths()
                    yield from ensure_user(self._session, operations[results.place].path)
                if results.error is KeeperError.NOT_EMPTY:
                    yield from self._remove_below(operations)
                if results.error is KeeperError.NODE_EXISTS and plans.is_note(operations[results.place]):
                    yield from delete(
                        self._session, operations[results.place].path
                    )  # of an earlier deletion of that id
                return False
            self._nodes.apply(operations, results)
            for operation, result in zip(operations, results, strict=True):
                if isinstance(operation, Create) and operation.is_sequential:
                    self._watcher.know_notification(str(result))
            yield from delete_empty_users(self._session, self._nodes, operations)
        return True

    def _create(self, topic: Topic) -> Task[bool]:
        """Create a topic for the controller to find. Returns whether it is in ZooKeeper. Raises Failed, ClusterGone."""
        path = EntityConfigs.path(ConfigEntity(TOPICS, topic.name))
        operations = plans.create_on_demand(read_cluster((yield from read_node(self._session, path)), bytes), topic)
        results = yield from multi(self._session, operations)
        if not isinstance(results, Refused):
            logger.info("created topic %s on demand; the controller elects its leaders", topic.name)
            return True
        if results.error is KeeperError.NO_NODE:
            yield from self._restore_paths()
        is_topic = operations[results.place].path == TopicAssignment.path(topic.name)
        return is_topic and results.error is KeeperError.NODE_EXISTS  # another broker was faster

    def _restore_paths(self) -> Task[None]:
        """Create the parent nodes that another program has deleted. Raises ClusterGone, Failed."""
        if (yield from exists(self._session, CLUSTER_ID_PATH)) is None:
            raise ClusterGone(
                f"ZooKeeper has lost this cluster: {CLUSTER_ID_PATH} is not there; the broker's log says what to do"
            )
        yield from ensure_paths(self._session)
        if self._watcher.acls.directories:
            yield from ensure_acl_paths(self._session)
        if self._watcher.tokens.directories:
            yield from ensure_token_paths(self._session)

    def _remove_below(self, wanted: plans.Multi) -> Task[None]:
        """Remove unknown children of the nodes that a multi deletes, as Kafka does for deleted topics."""
        paths = {operation.path for operation in wanted if isinstance(operation, Delete)}
        names = yield from gather([children(self._session, path) for path in paths])
        below = {f"{path}/{name}" for path, found in zip(paths, names, strict=True) for name in found}
        yield from gather([remove(self._session, path) for path in below - paths])


def _refusal(head: SubmittedChange, error: ValueError) -> KafkaError:
    """The error of a change that conflicts with external changes."""
    records, image = head.change.records, head.image
    created = [record.name for record in records if isinstance(record, TopicRecord)]
    if isinstance(error, InvalidNode):
        if created:
            return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"{error}; correct or delete that node")
        return KafkaError(ErrorCode.INVALID_REQUEST, str(error))
    assert image is not None
    if any(name in image.topics for name in created):
        return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"another broker or tool has created the topic: {error}")
    topics = touched(records, image, head.change.image).topics
    if any(name not in image.topics for name in topics.difference(created)):
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic was deleted in ZooKeeper: {error}")
    return KafkaError(ErrorCode.NOT_CONTROLLER, f"others were faster in ZooKeeper; ask again: {error}")


def _refused(failed: Failed) -> KafkaError:
    if failed.error is KeeperError.TOO_LARGE:
        return KafkaError(ErrorCode.POLICY_VIOLATION, f"this is more than ZooKeeper takes at once: {failed}")
    logger.error("a change of the metadata was refused: %s", failed)
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"ZooKeeper refused the change: {failed}")
