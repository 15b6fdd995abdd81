"""The metadata store of a single broker with ZooKeeper. Tools and other programs write to the same nodes.

The store runs one task at a time, as a generator of requests (`steps.py`): a refresh of changed nodes, an election, or
the write of the oldest change. So the known nodes (`cluster_nodes.py`) all date from the last answer. A
change is one or more multis, conditional on the versions of the nodes that it was planned with. If ZooKeeper refuses a
multi, or the connection ends before the answer, the store reads the nodes of the change, and completes the change or
fails it. It never guesses.

Without a connection changes wait for `CHANGE_WITHIN_MS`, then fail with an error after which clients retry.

Leader epochs rise by ordinary changes, `RAISED_AT_ONCE` partitions in each. A partition whose leader in ZooKeeper is
this broker has no leader in the image until the broker has written the next leader epoch.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Final

from headgate.gateway.metadata.image import Image, Node, Topic
from headgate.gateway.metadata.planning.producer_ids import BLOCK_SIZE
from headgate.gateway.metadata.records import partition_records
from headgate.gateway.metadata.store import Change, MetadataStore, Prepare, prepare_nothing
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.log_output import LimitedLog
from headgate.gateway.runtime.tasks import SingleTask, Task, WaitList, gather
from headgate.gateway.zookeeper.layout.cluster import CLUSTER_ID_PATH, CONTROLLER_PATH, PRODUCER_IDS_PATH
from headgate.gateway.zookeeper.layout.configs import CONFIG_CHANGES_PATH
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.topics import TOPICS_PATH
from headgate.gateway.zookeeper.layout.tree import ClusterTree
from headgate.gateway.zookeeper.metadata import plans
from headgate.gateway.zookeeper.metadata.cluster_nodes import ClusterNodes
from headgate.gateway.zookeeper.metadata.differences import overlay, touched
from headgate.gateway.zookeeper.metadata.election import ControllerElection
from headgate.gateway.zookeeper.metadata.metadata_watcher import MetadataWatcher
from headgate.gateway.zookeeper.metadata.reading import Watches, ensure_paths
from headgate.gateway.zookeeper.metadata.served_image import served_image
from headgate.gateway.zookeeper.requests import Failed, Lost, children, delete, exists, multi, remove
from headgate.gateway.zookeeper.session import Create, Delete, KeeperError, Refused, Session
from headgate.gateway.zookeeper.unreadable import UnreadableNodes
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import MetadataRecord, ProducerIdsRecord, TopicRecord

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig
    from headgate.gateway.runtime.scheduler import Scheduler, Timer

logger = logging.getLogger("headgate.zookeeper")

CHANGE_WITHIN_MS: Final = 15_000.0
"""The longest wait of a change for ZooKeeper; clients give up a request after 30 s or more."""
MAX_WAITING: Final = 256
"""The most pending changes. Each has an image of its own."""
RAISED_AT_ONCE: Final = 32
"""The leader epochs in one change: the loop needs about two milliseconds for them."""
PAUSE_MS: Final = 1_000.0
"""The wait before the next attempt after an error."""
AGAIN_LINE_MS: Final = 60_000.0
"""The least time between two log lines about changes that are retried every PAUSE_MS."""
LIST_EVERY_MS: Final = 100.0
"""The least time between two reads of a long list: 10,000 names take some milliseconds."""
_LISTS: Final = (TOPICS_PATH, CONFIG_CHANGES_PATH)
_ATTEMPTS: Final = 3


class NotController(Exception):
    """The controller epoch in ZooKeeper is not the epoch of this broker."""


class ClusterGone(Exception):
    """The nodes of this cluster are gone from ZooKeeper. A change would create fragments of a cluster there."""


class _Submitted:
    """A pending change. `is_in_doubt`: ZooKeeper may have a part of the change, or all of it."""

    __slots__ = ("change", "image", "is_in_doubt", "is_over", "timer", "until_ms")

    def __init__(self, change: Change, until_ms: float) -> None:
        self.change = change
        self.image: Image | None = None  # the base image of the latest plan
        self.until_ms = until_ms
        self.timer: Timer | None = None
        self.is_in_doubt = self.is_over = False


def first_image(cluster: ClusterTree, config: BrokerConfig, unreadable: UnreadableNodes) -> Image:
    """The image at the start: this broker is the only one, and leads no partition yet."""
    node_id = config.node_id
    image = served_image(cluster.image, config, unreadable)
    return image._replace(controller_id=node_id, brokers={node_id: Node(node_id, config.broker_rack, {})})


class _Phase(Enum):
    NEW = auto()
    RUNNING = auto()
    PAUSED = auto()
    STOPPED = auto()


class ZooKeeperMetadataStore(MetadataStore):
    """The metadata in ZooKeeper, of which this broker is the controller."""

    def __init__(
        self,
        session: Session,
        watches: Watches,
        nodes: ClusterNodes,
        image: Image,
        config: BrokerConfig,
        clock: Clock,
        random: Random,
        scheduler: Scheduler,
        prepare: Prepare = prepare_nothing,
        touch: Callable[[WaitList], None] = lambda _: None,
    ) -> None:
        """`nodes` and `image` (see `first_image`) are of one read, after this broker became the controller."""
        super().__init__(image, config, random, prepare, touch)
        self._session = session
        self._watches = watches
        self._nodes = nodes
        self._clock = clock
        self._scheduler = scheduler
        self._queue: deque[_Submitted] = deque()
        self.election = ControllerElection(session, nodes, config.node_id, clock.now_ms, watches.note)
        self._watcher = MetadataWatcher(session, watches, nodes, config, random, clock, self)
        self._log = LimitedLog(logger, clock, lines=1, interval_ms=AGAIN_LINE_MS)
        self._raising: Change | None = None
        self._raised_at_once = RAISED_AT_ONCE
        self._failure = ""  # the last failure of a refresh or an election
        self._phase = _Phase.NEW
        self._work = SingleTask()
        self._is_waiting = False
        self._listed_ms: dict[str, float] = {}
        self._connections, self._lost_connection = 0, -1  # the numbers of the present and the last lost connection
        self._end_offset = 0

    @property
    def end_offset(self) -> int:
        """The number of changes since the start, external ones included."""
        return self._end_offset

    @property
    def leaderless(self) -> int:
        """How many partitions wait for their first leader epoch of this start."""
        return len(self._watcher.leaderless)

    def start(self) -> None:
        """Begin to raise leader epochs and to carry out the orders of tools. The scheduler must run."""
        self._phase = _Phase.RUNNING
        self._watches.notify = self._go_on
        self._watcher.begin()
        self._go_on()

    def stop(self) -> None:
        """Begin no further task."""
        self._phase = _Phase.STOPPED

    def resume(self) -> None:
        """Continue after a reconnection, or with a new session after its registration: read everything again."""
        self._connections += 1
        self._watcher.schedule_full_refresh()
        self._go_on()

    # Changes

    def take_producer_ids(self) -> tuple[range, Change]:
        """See `MetadataStore`. Refused while the last block is unknown: its ids may be in use already."""
        if not self._nodes.has_producer_ids:
            self._watches.note(PRODUCER_IDS_PATH)
            message = f"ZooKeeper's {PRODUCER_IDS_PATH} cannot be read: correct that node"
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, message)
        return super().take_producer_ids()

    def _write(self, change: Change) -> None:
        if len(self._queue) >= MAX_WAITING:
            raise _timed_out(f"{MAX_WAITING} changes wait for ZooKeeper already; ask again later")
        submitted = _Submitted(change, self._clock.monotonic_ms() + CHANGE_WITHIN_MS)
        submitted.timer = self._scheduler.call_after(CHANGE_WITHIN_MS, self._expire)
        self._queue.append(submitted)
        self._go_on()

    def apply_external(self, records: Sequence[MetadataRecord]) -> None:
        """Apply changes that other programs have written to ZooKeeper."""
        self._end_offset += 1
        self._written_by_others(records)

    def _expire(self) -> None:
        """Fail the changes that have waited too long. The oldest are the first in the queue."""
        while self._queue and self._queue[0].until_ms <= self._clock.monotonic_ms():
            submitted = self._queue[0]
            state = "has not answered" if self._session.is_connected else "has not been reachable"
            kept = "; it may still be done" if submitted.is_in_doubt else ""
            self._finish(submitted, _timed_out(f"ZooKeeper {state} for {CHANGE_WITHIN_MS / 1000:.0f} s{kept}"))

    def _finish(self, submitted: _Submitted, error: KafkaError | None, *, is_final: bool = False) -> None:
        """End a change that succeeded, or failed with `error`. `is_final`: a further attempt would fail too."""
        change = submitted.change
        if error is not None or submitted.is_over:
            self._watcher.schedule_refresh(touched(change.records, self.written_image, change.image))
            self._watcher.note_possible_deletions(change.records if submitted.is_in_doubt else ())
        if submitted.is_over:
            return
        assert submitted is self._queue[0]
        submitted.is_over = True
        self._queue.popleft()
        if submitted.timer is not None:
            submitted.timer.cancel()
        is_own = change is self._raising
        if is_own:
            self._raised(error, is_final=is_final)
        if (self._watcher.change_ended(change, is_final=is_final) or is_own) and error is not None:
            outcome = "failed" if is_final else "is tried again"
            self._log.warning("changes tried again", "a change of this broker's own %s: %s", outcome,
                              error.message)  # fmt: skip
            self._pause()
        self._end_offset += 1
        self._written(change, error)

    # One task at a time

    def _go_on(self) -> None:
        self._work.start(self._do_next)

    def _do_next(self) -> Task[None]:
        """Run one task after the other. An error of a task does not stop the next."""
        while self._phase is _Phase.RUNNING and self._lost_connection < self._connections:
            connections = self._connections
            try:
                steps = self._next() or (self._next() if self._watches.changed else None)
                if steps is None:
                    return
                yield from steps
            except Lost:
                self._lost_connection = connections
            except NotController:
                self._watches.note(CONTROLLER_PATH)
            except Exception as error:  # noqa: BLE001  logged there
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        """Handle a failed refresh or election. The traceback of a repeated error is logged once."""
        is_new, self._failure = repr(error) != self._failure, repr(error)
        self._log.error(
            self._failure[:200], "the metadata in ZooKeeper: %s; the next attempt follows", error,
            exc_info=error if is_new else None,
        )  # fmt: skip
        self._pause()
        self._watcher.schedule_full_refresh()

    def _next(self) -> Task[None] | None:
        changed = self._watches.changed
        if CONTROLLER_PATH in changed:
            del changed[CONTROLLER_PATH]
            return self._elect()
        head = self._queue[0] if self._queue else None
        is_elected = self.election.is_elected
        if is_elected and head is not None and head.is_in_doubt:
            return self._store(head)
        paths = self._due_paths()
        if paths:
            return self._watcher.refresh(paths)
        if is_elected:
            if len(self._queue) < MAX_WAITING:
                self._raise_some()
            if self._queue:
                return self._store(self._queue[0])
        return None

    def _due_paths(self) -> list[str]:
        """Take the paths that are due for a refresh. Long lists have a minimum interval."""
        changed, now_ms = self._watches.changed, self._clock.monotonic_ms()
        later = [path for path in changed if self._listed_ms.get(path, -LIST_EVERY_MS) + LIST_EVERY_MS > now_ms]
        due = [path for path in changed if path not in later]
        for path in due:
            del changed[path]
            if path in _LISTS:
                self._listed_ms[path] = now_ms
        if later and not self._is_waiting:
            self._is_waiting = True
            self._scheduler.call_after(LIST_EVERY_MS, self._waited)
        return due

    def _waited(self) -> None:
        self._is_waiting = False
        self._go_on()

    def _pause(self) -> None:
        if self._phase is _Phase.RUNNING:
            self._phase = _Phase.PAUSED
            self._scheduler.call_after(PAUSE_MS, self._paused)

    def _paused(self) -> None:
        if self._phase is _Phase.PAUSED:
            self._phase = _Phase.RUNNING
        self._go_on()

    def _elect(self) -> Task[None]:
        if (yield from self.election.elect()):
            self._watcher.schedule_full_refresh(with_states=self.election.others_wrote)
            self.election.others_wrote = False

    # The oldest change

    def _store(self, head: _Submitted) -> Task[None]:
        """Write a change, and end it. Only a lost connection or another controller leaves it pending."""
        is_final = False
        try:
            error = yield from self._attempt(head)
        except (Lost, NotController):
            raise
        except ClusterGone as gone:
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(gone))
        except Failed as failed:
            error, is_final = _refused(failed), failed.is_final
        except Exception as fault:
            logger.exception("a change of the metadata failed; others go on")
            message = f"the change failed in this broker, and its log has the reason: {type(fault).__name__}"
            error, is_final = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message), True
        self._finish(head, error, is_final=is_final)

    def _attempt(self, head: _Submitted) -> Task[KafkaError | None]:
        for _ in range(_ATTEMPTS):
            if head.is_over:
                break
            try:
                wanted = yield from self._plan(head)
            except ValueError as error:
                return _refusal(head, error)
            if (yield from self._send(head, wanted)):
                return None
        return KafkaError(ErrorCode.NOT_CONTROLLER, "others changed the same in ZooKeeper; ask again")

    def _plan(self, head: _Submitted) -> Task[list[plans.Multi]]:
        """The multis that are still missing. Raises ValueError if an external change conflicts."""
        records, image = head.change.records, self.written_image
        if head.is_in_doubt:
            self._watcher.note_possible_deletions(records)
            image = yield from self._watcher.read_subjects(image, touched(records, image, head.change.image))
        head.image = image
        self._check_producer_ids(head, image)
        wanted = overlay(image, records) if head.is_in_doubt else image.apply_all(records)
        names = touched(records, image, wanted).topics
        nodes, now_ms = self._nodes.tree(image), self._clock.now_ms()
        missing = plans.note_deletions(nodes, (yield from self._watcher.deleted_without_note(records, image)), now_ms)
        return missing + plans.change_image(nodes, wanted, names, self._config.node_id, now_ms)

    def _check_producer_ids(self, head: _Submitted, image: Image) -> None:
        """Raises ValueError if another broker has taken these producer ids."""
        for record in head.change.records:
            if isinstance(record, ProducerIdsRecord):
                is_ours = head.is_in_doubt and self._watcher.has_last_block
                if record.next_producer_id - BLOCK_SIZE < image.next_producer_id and not (
                    is_ours and record.next_producer_id == image.next_producer_id
                ):
                    raise ValueError(f"producer ids are taken up to {image.next_producer_id}")

    def _send(self, head: _Submitted, wanted: Sequence[plans.Multi]) -> Task[bool]:
        """Send multis. Returns whether all of them took effect. Raises Failed, NotController."""
        for operations in wanted:
            if head.is_over:
                return False
            head.is_in_doubt = True
            results = yield from multi(self._session, operations)
            if isinstance(results, Refused):
                if results.place == 0:
                    raise NotController
                if results.error is KeeperError.NO_NODE and isinstance(operations[results.place], Create):
                    yield from self._restore_paths()
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
        return True

    def _restore_paths(self) -> Task[None]:
        """Create the parent nodes that another program has deleted. Raises ClusterGone, Failed."""
        if (yield from exists(self._session, CLUSTER_ID_PATH)) is None:
            raise ClusterGone(
                f"ZooKeeper has lost this cluster: {CLUSTER_ID_PATH} is not there; the broker's log says what to do"
            )
        yield from ensure_paths(self._session)

    def _remove_below(self, wanted: plans.Multi) -> Task[None]:
        """Remove unknown children of the nodes that a multi deletes, as Kafka does for deleted topics."""
        paths = {operation.path for operation in wanted if isinstance(operation, Delete)}
        names = yield from gather([children(self._session, path) for path in paths])
        below = {f"{path}/{name}" for path, found in zip(paths, names, strict=True) for name in found}
        yield from gather([remove(self._session, path) for path in below - paths])

    # Leader epochs

    def _raise_some(self) -> None:
        """Submit the next leader epochs of some partitions in `leaderless`."""
        if self._raising is not None:
            return
        records = self._raised_states()
        if records:
            self._raising = self.submit(records)
        else:
            self._raised_at_once = RAISED_AT_ONCE
            self._watcher.all_are_led()

    def _raised(self, error: KafkaError | None, *, is_final: bool) -> None:
        """Handle the end of a change of leader epochs.

        After a final failure each partition is tried alone. A partition that fails alone is given up.
        """
        self._raising = None
        if error is None or not is_final:
            return
        if self._raised_at_once == 1:
            name, index = next(iter(self._watcher.leaderless))
            self._watcher.give_up_leader(name, index)
            logger.error("partition %s-%d has no leader: its leader epoch cannot be written: %s", name, index,
                         error.message)  # fmt: skip
        self._raised_at_once = 1

    def _raised_states(self) -> list[MetadataRecord]:
        node_id, leaderless, planned = self._config.node_id, self._watcher.leaderless, self.planned
        records: list[MetadataRecord] = []
        while leaderless and not records:
            for name, index in list(islice(leaderless, self._raised_at_once)):
                topic = planned.topics.get(name)
                # A topic whose node was removed must not block the other partitions
                if topic is None or self._nodes.topic(name) is None or _is_led(topic, index, node_id):
                    del leaderless[name, index]
                else:
                    state = plans.led_by(topic.partitions[index], node_id, {node_id})
                    records += partition_records(topic.topic_id, index, (state,))
        return records


def _is_led(topic: Topic, index: int, node_id: int) -> bool:
    """Whether a partition needs no leader: this broker leads it, or the partition is gone."""
    return index >= len(topic.partitions) or topic.partitions[index].leader == node_id


def _refusal(head: _Submitted, error: ValueError) -> KafkaError:
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


def _timed_out(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, sentence)


def _refused(failed: Failed) -> KafkaError:
    if failed.error is KeeperError.TOO_LARGE:
        return KafkaError(ErrorCode.POLICY_VIOLATION, f"this is more than ZooKeeper takes at once: {failed}")
    logger.error("a change of the metadata was refused: %s", failed)
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"ZooKeeper refused the change: {failed}")
