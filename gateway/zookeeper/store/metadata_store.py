"""The metadata store of a broker with ZooKeeper. Other brokers, tools and programs write to the same nodes.

The store runs one task at a time, as a generator of requests: a refresh of changed nodes, an election, or the write of
the oldest change (`change_writer.py`). So the known nodes (`cluster_nodes.py`) all date from the last answer.

Beside other brokers, one is elected the controller. The others get topics, leaders and live brokers by its orders
(`controller_orders.py`); changes of topics fail there with NOT_CONTROLLER. A broker that wins an election reads every
topic again.

Without a connection changes wait for `CHANGE_WITHIN_MS`, then fail with an error after which clients retry.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from headgate.gateway.controller.elections import NO_LEADER
from headgate.gateway.metadata.image import Image, Node
from headgate.gateway.metadata.new_topics import new_topic_id
from headgate.gateway.metadata.planning import topics as topic_plans
from headgate.gateway.metadata.planning.topics import NewTopic
from headgate.gateway.metadata.records import partition_records
from headgate.gateway.metadata.store import Change, Configs, MetadataStore, Prepare, prepare_nothing
from headgate.gateway.runtime.broker_links import BrokerLinks
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.log_output import LimitedLog
from headgate.gateway.runtime.tasks import NEVER, Ask, Changes, SingleTask, Task, Tasks, gather, sleep
from headgate.gateway.zookeeper.controller.controller_term import ControllerTerm
from headgate.gateway.zookeeper.controller.election import ControllerElection
from headgate.gateway.zookeeper.controller.leader_elections import IN_FLIGHT
from headgate.gateway.zookeeper.controller.live_brokers import own_node
from headgate.gateway.zookeeper.layout.acls import CHANGES_PATHS, acl_path
from headgate.gateway.zookeeper.layout.brokers import BROKER_IDS_PATH
from headgate.gateway.zookeeper.layout.cluster import CONTROLLER_PATH, PRODUCER_IDS_PATH
from headgate.gateway.zookeeper.layout.configs import CONFIG_CHANGES_PATH
from headgate.gateway.zookeeper.layout.log_dir_events import LogDirEvent
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.tokens import TOKEN_CHANGES_PATH
from headgate.gateway.zookeeper.layout.topics import TOPICS_PATH
from headgate.gateway.zookeeper.layout.tree import ClusterTree
from headgate.gateway.zookeeper.metadata.cluster_nodes import ClusterNodes
from headgate.gateway.zookeeper.metadata.differences import touched
from headgate.gateway.zookeeper.metadata.plans import needs_controller
from headgate.gateway.zookeeper.metadata.reading import StoreParts, Watches
from headgate.gateway.zookeeper.metadata.served_image import served_image
from headgate.gateway.zookeeper.requests import Lost
from headgate.gateway.zookeeper.session import Create, KeeperError, Session
from headgate.gateway.zookeeper.store.change_writer import ChangeWriter, NotController, SubmittedChange, TopicOnDemand
from headgate.gateway.zookeeper.store.metadata_watcher import MetadataWatcher
from headgate.gateway.zookeeper.unreadable import UnreadableNodes
from headgate.protocol.acls import AclBinding
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import MetadataRecord, TopicRecord
from headgate.protocol.messages.alter_partition import AlterPartitionRequest
from headgate.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig

logger = logging.getLogger("headgate.zookeeper")

CHANGE_WITHIN_MS: Final = 15_000.0
"""The longest wait of a change for ZooKeeper; clients give up a request after 30 s or more."""
MAX_WAITING: Final = 256
"""The most pending changes. Each has an image of its own."""
PAUSE_MS: Final = 1_000.0
"""The wait before the next attempt after an error."""
AGAIN_LINE_MS: Final = 60_000.0
"""The least time between two log lines about changes that are retried every PAUSE_MS."""
LIST_EVERY_MS: Final = 100.0
"""The least time between two reads of a long list: 10,000 names take some milliseconds."""
ON_DEMAND_AGAIN_MS: Final = 1_000.0
"""The least time between two creations of a topic on demand: the controller sends the topic within this time."""
_LISTS: Final = (TOPICS_PATH, CONFIG_CHANGES_PATH, *CHANGES_PATHS, TOKEN_CHANGES_PATH)


def first_image(cluster: ClusterTree, config: BrokerConfig, unreadable: UnreadableNodes) -> Image:
    """The image at the start: this broker leads no partition yet."""
    image = served_image(cluster, config, unreadable)
    return image._replace(brokers={**image.brokers, **own_node(config)})


class _Phase(Enum):
    NEW = auto()
    RUNNING = auto()
    PAUSED = auto()
    STOPPED = auto()


class ZooKeeperMetadataStore(MetadataStore):
    """The metadata in ZooKeeper. One broker at a time is the controller."""

    def __init__(
        self,
        session: Session,
        watches: Watches,
        nodes: ClusterNodes,
        image: Image,
        config: BrokerConfig,
        clock: Clock,
        random: Random,
        tasks: Tasks,
        links: BrokerLinks,
        prepare: Prepare = prepare_nothing,
        *,
        is_elected: bool = True,
    ) -> None:
        """`nodes` and `image` (see `first_image`) are of one read, after an election. `is_elected`: its result."""
        super().__init__(image, config, random, prepare, tasks.touch)
        self._session = session
        self._watches = watches
        self._nodes = nodes
        self._clock = clock
        self._scheduler = tasks.scheduler
        self._queue: deque[SubmittedChange] = deque()
        self.failed_here: Collection[TopicPartition] = ()
        """The replicas of this broker that other brokers have to replace."""
        self.election = ControllerElection(
            session, nodes, config.node_id, clock.now_ms, watches.note, is_elected=is_elected
        )
        parts = StoreParts(session, watches, nodes, config, random, clock, tasks, links, self)
        self._watcher = MetadataWatcher(parts)
        if is_elected:
            self._watcher.begin_term(others_wrote=False)
        self._writer = ChangeWriter(parts, self._watcher)
        self._on_demand: dict[str, TopicOnDemand] = {}
        self._knows_topics = is_elected
        self._log = LimitedLog(logger, clock, lines=1, interval_ms=AGAIN_LINE_MS)
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
    def broker_epochs(self) -> Mapping[int, int]:
        """The epochs of the registered brokers."""
        return {} if self._watcher.term is None else self._watcher.brokers.epochs

    @property
    def knows_topics(self) -> bool:
        """The controller reads the topics at the begin of its term; it sends them to any other broker that starts."""
        return self._knows_topics

    @property
    def has_leaders(self) -> bool:
        """Whether the first elections of this term have ended, or the controller has sent the topics.

        `waiters` see the change.
        """
        term = self._watcher.term
        return self._knows_topics if term is None else term.elections.is_settled and not self._pending

    @property
    def is_controller(self) -> bool:
        """Whether the term of this broker as the controller lasts: then it obeys no other controller."""
        return self._watcher.term is not None

    @property
    def controller_epoch(self) -> int:
        """The highest controller epoch that this broker has read in ZooKeeper, or written."""
        return self._nodes.controller_epoch

    def note_topics_known(self) -> None:
        """All topics of the cluster were read or ordered: from now on clients get answers from the image."""
        if not self._knows_topics:
            self._knows_topics = True
            topics = self.image.topics.values()
            partitions = sum(len(topic.partitions) for topic in topics)
            logger.info("topics of the cluster: %d, with %d partitions", len(topics), partitions)
            self._touch(self.waiters)

    def check_controller(self) -> None:
        """Read `/controller` again: another broker says that it is the controller. `waiters` see the end of a term."""
        self._watches.note(CONTROLLER_PATH)

    def start(self) -> None:
        """Begin to raise leader epochs and to carry out the orders of tools. The scheduler must run."""
        self._phase = _Phase.RUNNING
        self._watches.notify = self._go_on
        if self._watcher.term is not None:
            self._watcher.term.begin()
        for path in (BROKER_IDS_PATH, PRODUCER_IDS_PATH):
            self._watches.note(path)
        self._go_on()

    def stop(self) -> None:
        """Begin no further task, and send no further order."""
        self._phase = _Phase.STOPPED
        if self._watcher.term is not None:
            self._watcher.term.end()

    def resume(self) -> None:
        """Continue after a reconnection, or with a new session after its registration: read everything again."""
        self._connections += 1
        self._watcher.schedule_full_refresh()
        self._go_on()

    def resign_leads(self) -> None:
        """Lead no partition that has another replica, until ZooKeeper or the controller says so again.

        The term as the controller has ended with the session too: nothing is written until `resume`.
        """
        self._lost_connection = self._connections
        node_id, records = self._config.node_id, list[MetadataRecord]()
        for topic in self.written_image.topics.values():
            for index, state in enumerate(topic.partitions):
                if state.leader == node_id and len(state.replicas) > 1:
                    records += partition_records(topic.topic_id, index, (state._replace(leader=NO_LEADER),))
        if records:
            logger.warning("%d partitions have no leader here: the session with ZooKeeper has ended", len(records))
            self.apply_states(records)

    def apply_states(self, records: Sequence[MetadataRecord]) -> None:
        """Apply states of partitions without ZooKeeper, which cannot be reached."""
        self.apply_external(records)
        if self._watcher.term is not None:
            self._watcher.term.elections.replay(records)

    # Changes

    def elect(self, election_type: int, partitions: Sequence[TopicPartition] | None) -> Ask:
        """See `MetadataStore`. Raises KafkaError(NOT_CONTROLLER)."""
        elections = self._own_term().elections
        return lambda resume: elections.elect(resume, election_type, partitions)

    def reassign(self, wanted: Mapping[TopicPartition, Sequence[int] | None], *, may_change_factor: bool = True) -> Ask:
        """See `MetadataStore`. Raises KafkaError(NOT_CONTROLLER)."""
        elections = self._own_term().elections
        return lambda resume: elections.reassign(resume, wanted, may_change_factor=may_change_factor)

    def alter_partition(self, request: AlterPartitionRequest, version: int) -> Ask:
        """See `MetadataStore`."""
        elections = self._own_term().elections
        return lambda resume: elections.alter_partition(resume, request, version)

    def check_registration(self, broker_id: int, broker_epoch: int) -> None:
        """See `MetadataStore`."""
        machine = self._own_term().elections.ready_machine()
        machine.check_registration(broker_id, broker_epoch, ErrorCode.BROKER_ID_NOT_REGISTERED)

    def _own_term(self) -> ControllerTerm:
        if self._watcher.term is None:
            raise self._not_controller()
        return self._watcher.term

    def shut_down(self, broker_id: int, broker_epoch: int) -> Ask:
        """See `MetadataStore`."""
        elections = self._own_term().elections
        return lambda resume: elections.shut_down(resume, broker_id, broker_epoch)

    @property
    def has_sent_orders(self) -> bool:
        """Whether every other broker has obeyed all orders of this controller. `waiters` see the change."""
        return self._watcher.term is None or self._watcher.term.has_sent_orders

    def report_failed(self, failed: Collection[TopicPartition], lost: Mapping[TopicPartition, int]) -> Task[bool]:
        """Have the controller replace these replicas of this broker. False: the controller may not know of them.

        `lost`: the ones whose logs have lost records, each with the leader epoch to exceed.
        """
        before, self.failed_here = self.failed_here, failed
        if self._phase is _Phase.STOPPED:
            return False
        if self._watcher.term is not None:
            self._watcher.term.elections.own_failed(before, lost)
            return True
        node = Create(LogDirEvent.path(), LogDirEvent(self._config.node_id).encode(), is_sequential=True)
        answer = yield partial(self._session.create, node)
        if isinstance(answer, KeeperError):
            logger.warning("the controller cannot be told of failed replicas: %s: %s", node.path, answer.name)
        return not isinstance(answer, KeeperError)

    def take_producer_ids(self) -> tuple[range, Change]:
        """See `MetadataStore`. Refused while the last block is unknown: its ids may be in use already."""
        if not self._nodes.has_producer_ids:
            self._watches.note(PRODUCER_IDS_PATH)
            message = f"ZooKeeper's {PRODUCER_IDS_PATH} cannot be read: correct that node"
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, message)
        return super().take_producer_ids()

    def check_new_acl(self, binding: AclBinding) -> None:
        """See `MetadataStore`. Raises KafkaError(INVALID_REQUEST) also for a name that ZooKeeper cannot have."""
        super().check_new_acl(binding)
        try:
            acl_path(binding.pattern)
        except InvalidNode as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Failed to create ACL: {error.reason}") from None

    def create_on_demand(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Configs | None = None,
        *,
        before: Image | None = None,
    ) -> Change:
        """See `MetadataStore`. Raises KafkaError(LEADER_NOT_AVAILABLE) before the topics of the cluster are known."""
        if self._watcher.term is not None:
            return super().create_on_demand(name, partitions, replication_factor, configs, before=before)
        if not self.knows_topics:
            message = "the controller has not sent the topics of the cluster yet; ask again"
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, message)
        now_ms, known = self._clock.monotonic_ms(), self._on_demand
        self._on_demand = known = {
            topic: change for topic, change in known.items() if change.again_ms > now_ms or not change.is_settled
        }
        if name not in known:
            planned, wanted = self.planned, NewTopic(name, partitions, replication_factor, configs or {}, before=before)
            topic_id = new_topic_id(self._random, planned.topic_names)
            records = topic_plans.create_topic(planned, self._config, topic_id, wanted, self._random)
            topic = planned.apply_all(records).topics[name]
            self._begin(known.setdefault(name, TopicOnDemand(topic, planned, now_ms + ON_DEMAND_AGAIN_MS)))
        return known[name]

    def _write(self, change: Change) -> None:
        if self._watcher.term is None and needs_controller(change.records):
            raise self._not_controller()
        if len(self._queue) >= MAX_WAITING:
            raise _timed_out(f"{MAX_WAITING} changes wait for ZooKeeper already; ask again later")
        submitted = SubmittedChange(change, self._clock.monotonic_ms() + CHANGE_WITHIN_MS)
        submitted.timer = self._scheduler.call_after(CHANGE_WITHIN_MS, self._expire)
        self._queue.append(submitted)
        self._go_on()

    def apply_external(self, records: Sequence[MetadataRecord]) -> Change:
        """Apply changes that other programs have written to ZooKeeper."""
        self._end_offset += 1
        return self._written_by_others(records)

    def read_topic_configs(self, names: Sequence[str]) -> Task[None]:
        """Read the configs of topics that are new to this broker, before `apply_order`. Raises Failed."""
        return self._watcher.configs.read_topics(names)

    def schedule_topic_configs(self, names: Iterable[str]) -> None:
        """Schedule a read of the configs of these topics: ZooKeeper has not answered in time."""
        self._watcher.schedule_topic_configs(names)

    def apply_order(self, records: Sequence[MetadataRecord]) -> Task[None]:
        """Apply records that the controller has ordered, with the configs of new topics; ends when they have settled.

        Raises KafkaError(STALE_CONTROLLER_EPOCH) once this broker is the controller itself.
        """
        if self.is_controller:
            raise KafkaError(ErrorCode.STALE_CONTROLLER_EPOCH, f"broker {self._config.node_id} is the controller now")
        complete = list[MetadataRecord]()
        for record in records:
            complete.append(record)
            if isinstance(record, TopicRecord):
                complete += self._watcher.configs.topic_records(record.name)
        change = self.apply_external(complete)
        changes = Changes([self.waiters], NEVER)
        while not change.is_settled and (yield changes) is not None:
            pass

    def apply_brokers(self, brokers: Mapping[int, Node]) -> None:
        """Publish the live brokers."""
        self._publish_members(brokers, self.image.controller_id)

    def _expire(self) -> None:
        """Fail the changes that have waited too long. The oldest are the first in the queue."""
        while self._queue and self._queue[0].until_ms <= self._clock.monotonic_ms():
            submitted = self._queue[0]
            state = "has not answered" if self._session.is_connected else "has not been reachable"
            kept = "; it may still be done" if submitted.is_in_doubt else ""
            self._finish(submitted, _timed_out(f"ZooKeeper {state} for {CHANGE_WITHIN_MS / 1000:.0f} s{kept}"))
        self._finish_written()

    def _finish(self, submitted: SubmittedChange, error: KafkaError | None, is_final: bool = False) -> None:
        """End a change that succeeded, or failed with `error`. `is_final`: a further attempt would fail too."""
        change, term = submitted.change, self._watcher.term
        if error is not None or submitted.is_over:
            self._watcher.schedule_refresh(touched(change.records, self.written_image, change.image))
            if term is not None and submitted.is_in_doubt:
                term.topics.note_possible_deletions(change.records)
        if submitted.is_over:
            return
        submitted.is_over = True
        self._queue.remove(submitted)
        if submitted.timer is not None:
            submitted.timer.cancel()
        self._end_offset += 1
        self._written(change, error)
        if term is not None and term.change_ended(change, error, is_final=is_final) and error is not None:
            outcome = "failed" if is_final else "is tried again"
            self._log.warning("changes tried again", "a change of this broker's own %s: %s", outcome,
                              error.message)  # fmt: skip
            self._pause()

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
        term = self._watcher.term if self.election.is_elected else None
        may_write = term is not None or (head is not None and not needs_controller(head.change.records))
        if may_write and head is not None and head.is_in_doubt:
            return self._store(head)
        paths = self._due_paths()
        if paths:
            return self._watcher.refresh(paths)
        has_more = term is not None and len(self._queue) < MAX_WAITING and term.go_on()
        if may_write and self._queue:
            return self._store(self._queue[0])
        return self._take_turns() if has_more else None

    def _take_turns(self) -> Task[None]:
        """Let other work have its turn."""
        yield sleep(self._scheduler, 0.0)

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
        has_won = yield from self.election.elect()
        self._follow_election()
        if has_won:
            assert self._watcher.term is not None
            self._watcher.term.epoch_changed()
            self._watcher.schedule_full_refresh(with_states=self.election.others_wrote)
            self.election.others_wrote = False

    def _follow_election(self) -> None:
        """Begin or end the term of this broker as the controller."""
        is_elected, has_term = self.election.is_elected, self._watcher.term is not None
        self._publish_members(self.image.brokers, self._config.node_id if is_elected else self.election.other_id)
        if is_elected and not has_term:
            self._watcher.begin_term(others_wrote=True)
            self.election.others_wrote = True
            self._listed_ms.clear()
        elif has_term and not is_elected:
            self._watcher.end_term()
            self._touch(self.waiters)
            for submitted in [each for each in self._queue if needs_controller(each.change.records)]:
                self._finish(submitted, self._not_controller())

    def _store(self, head: SubmittedChange) -> Task[None]:
        """Write a change, and end it. Only a lost connection or another controller leaves it pending.

        Elections are written side by side, as one has no partition of another: each is planned while ZooKeeper has the
        ones before.
        """
        if head.is_in_doubt or not self._is_election(head):
            return self._store_one(head)
        return self._store_elections([self._store_one(head), *(self._store_further() for _ in range(IN_FLIGHT - 1))])

    def _store_elections(self, several: list[Task[None]]) -> Task[None]:
        yield from gather(several)

    def _store_further(self) -> Task[None]:
        """Write the next elections, as long as nothing else is due."""
        while True:
            yield sleep(self._scheduler, 0.0)  # other work has its turn
            is_free = self._phase is _Phase.RUNNING and self.election.is_elected and not self._watches.changed
            term, count = self._watcher.term, len(self._queue)
            if term is None or not is_free or not all(map(self._is_election, self._queue)):
                return
            term.go_on()
            if len(self._queue) == count:
                return
            yield from self._store_one(self._queue[-1])

    def _is_election(self, submitted: SubmittedChange) -> bool:
        term = self._watcher.term
        return term is not None and term.elections.may_overlap(submitted.change)

    def _store_one(self, submitted: SubmittedChange) -> Task[None]:
        submitted.outcome = yield from self._writer.write(submitted)
        if submitted.is_over:
            self._finish(submitted, *submitted.outcome)
        self._finish_written()

    def _finish_written(self) -> None:
        """End the changes whose outcome is known, in the order of their submission."""
        while self._queue and self._queue[0].outcome is not None:
            self._finish(self._queue[0], *self._queue[0].outcome)


def _timed_out(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, sentence)
