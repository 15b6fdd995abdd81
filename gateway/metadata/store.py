"""The metadata of the cluster: the image for all readers, and the changes that make the next image.

A `MetadataStore` applies stored records to the image; a subclass knows the store. A change takes four steps:

    submitted   planned upon `planned`, the image with all earlier changes of this broker
    written     the store has the records for good, or refused them (`error`)
    prepared    the files of the change's new partitions exist
    settled     `image` includes the change and every listener was called; or the change failed

Changes settle in the order of the store, however long each step takes. A change is invisible until it is written.

Other brokers may change the store as well. Their changes take the same steps from `written` on, and the submitted
changes are planned again after them. The store refuses a submitted change that conflicts with another broker's change.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from headgate.gateway.config import catalogue, group_config
from headgate.gateway.config.definition import Definition
from headgate.gateway.metadata.image import FailedReplicas, Image, Node, changed_topics
from headgate.gateway.metadata.new_topics import Assignments, new_topic_id
from headgate.gateway.metadata.planning import acls as acl_plans
from headgate.gateway.metadata.planning import configs as config_plans
from headgate.gateway.metadata.planning import topics as topic_plans
from headgate.gateway.metadata.planning.producer_ids import take_producer_ids
from headgate.gateway.metadata.planning.quotas import change_quotas
from headgate.gateway.metadata.planning.scram import ScramPlan, change_scram_credentials
from headgate.gateway.metadata.planning.topics import NewTopic
from headgate.gateway.runtime.tasks import Ask, Task, WaitList, as_task, run
from headgate.protocol.acls import AclBinding
from headgate.protocol.errors import ErrorCode, KafkaError, without_frames
from headgate.protocol.internal.metadata import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    MetadataRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from headgate.protocol.messages.alter_partition import AlterPartitionRequest
from headgate.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from headgate.protocol.security.quotas import QuotaEntity
from headgate.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig
    from headgate.storage.config import LogConfig

logger = logging.getLogger("headgate.metadata")

_RESOURCES = {TOPIC_RESOURCE: "topic", BROKER_RESOURCE: "broker", GROUP_RESOURCE: "group"}

ImageListener = Callable[[Image, Image, Collection[str]], None]
"""Called with the old image, the new image, and the names of all topics in which the two may differ."""
Prepare = Callable[[Image, Image, Collection[str]], Task[None]]
"""Called with the same arguments when a change is written; the end of the task makes the change visible."""
Configs = Mapping[str, str | None]


class ChangeState(Enum):
    """The steps of a change, in their order. A refused change skips the preparation."""

    SUBMITTED = auto()
    WRITTEN = auto()
    PREPARING = auto()
    PREPARED = auto()
    SETTLED = auto()


class Change:
    """Records on the way into the store, and the image that includes them. `error` is the reason of a failure.

    A change without records of its own waits for the change that it was planned upon, and fails with that change.
    """

    __slots__ = ("error", "image", "records", "state", "validated")

    def __init__(self, records: Sequence[MetadataRecord], image: Image) -> None:
        self.records = records
        self.image = image
        self.error: KafkaError | None = None
        self.state = ChangeState.SUBMITTED
        self.validated: list[Change] = []
        """The changes without records that were planned upon this one."""

    @property
    def is_written(self) -> bool:
        """Whether the store has the records, or has refused them."""
        return self.state is not ChangeState.SUBMITTED

    @property
    def is_settled(self) -> bool:
        """Whether the change has taken effect, or has failed."""
        return self.state is ChangeState.SETTLED


def prepare_nothing(_old: Image, _new: Image, _names: Collection[str]) -> Task[None]:
    """The `Prepare` of a store without partitions."""
    return as_task(None)


class MetadataStore(ABC):
    """The present image, and the operations that change it. Operations raise KafkaError for a refusal."""

    def __init__(
        self,
        image: Image,
        config: BrokerConfig,
        random: Random,
        prepare: Prepare = prepare_nothing,
        touch: Callable[[WaitList], None] = lambda _: None,
    ) -> None:
        """`touch` wakes `waiters`: it is called after each change has settled."""
        self.image = image
        self.waiters = WaitList()
        """The requests that wait for a change to settle."""
        self.failed_replicas: FailedReplicas = {}
        """As the controller knows them."""
        self.unclean_elections = 0
        """Leaders that were not in sync, elected by this broker as the controller, since its start."""
        self._config = config
        self._random = random
        self._prepare = prepare
        self._touch = touch
        self._listeners: list[ImageListener] = []
        self._pending: deque[Change] = deque()
        self._is_settling = False
        config.change(*image.broker_configs(config.node_id))

    @property
    @abstractmethod
    def end_offset(self) -> int:
        """A number that grows with every change of the store."""

    @abstractmethod
    def _write(self, change: Change) -> None:
        """Begin to store a change. The store calls `_written` once for each change, in the order of submission.

        Raises KafkaError if the store refuses the change at once; then without a call of `_written`.
        """

    @property
    def planned(self) -> Image:
        """The image after all pending changes, if they succeed. Further changes are planned upon this image."""
        pending = self._last_pending()
        return self.image if pending is None else pending.image

    @property
    def written_image(self) -> Image:
        """The image of all stored records; a part may be invisible to readers yet."""
        written = (change.image for change in reversed(self._pending) if change.is_written and change.error is None)
        return next(written, self.image)

    def on_change(self, listener: ImageListener) -> None:
        """Call a listener after every change, after all listeners that were added before."""
        self._listeners.append(listener)

    def log_config(self, name: str) -> LogConfig:
        """The settings of a topic's logs; the broker's defaults for an unknown topic."""
        return self._config.log_config(self.image.topic_configs(name))

    @property
    def knows_topics(self) -> bool:
        """Whether the image has the topics of the cluster. After a start the controller may have to send them first."""
        return True

    def renew_image(self) -> None:
        """Drop results cached with the image, such as Metadata responses: the broker serves other partitions now."""
        self.image = self.image._replace()

    def set_failed_replicas(self, failed: FailedReplicas) -> None:
        """Show these replicas as offline."""
        if failed != self.failed_replicas:
            self.failed_replicas = failed
            self.renew_image()

    def require_controller(self) -> None:
        """Raises KafkaError(NOT_CONTROLLER) unless this broker is the controller, which changes topics for clients."""
        if self.image.controller_id != self._config.node_id:
            raise self._not_controller()

    def _not_controller(self) -> KafkaError:
        controller = self.image.controller_id
        where = "no other one is known yet; ask again" if controller < 0 else f"broker {controller} is: ask that one"
        message = f"{ErrorCode.NOT_CONTROLLER.message} Broker {self._config.node_id} is not the controller, {where}"
        return KafkaError(ErrorCode.NOT_CONTROLLER, message)

    # Operations

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Configs | None = None,
        assignments: Assignments | None = None,
        *,
        before: Image | None = None,
        validate_only: bool = False,
    ) -> Change:
        """Create a topic, see `planning.topics.create_topic`."""
        planned = self.planned
        wanted = NewTopic(name, partitions, replication_factor, configs or {}, assignments or {}, before)
        topic_id = new_topic_id(self._random, planned.topic_names)
        records = topic_plans.create_topic(planned, self._config, topic_id, wanted, self._random)
        return self.submit(records, validate_only)

    def create_on_demand(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Configs | None = None,
        *,
        before: Image | None = None,
    ) -> Change:
        """Create a topic that a client or a coordinator of this broker needs, see `planning.topics.create_topic`.

        Any broker may. At a broker that is not the controller, the change settles before the image has the topic.
        """
        return self.create_topic(name, partitions, replication_factor, configs, before=before)

    def delete_topic(self, name: str) -> Change:
        """Delete a topic with everything in it, see `planning.topics.delete_topic`."""
        return self.submit(topic_plans.delete_topic(self.planned, self._config, name))

    def create_partitions(
        self, name: str, total: int, assignments: Assignments | None = None, *, validate_only: bool = False
    ) -> Change:
        """Add partitions to a topic, see `planning.topics.create_partitions`."""
        records = topic_plans.create_partitions(self.planned, name, total, self._random, assignments)
        return self.submit(records, validate_only)

    def change_topic_configs(self, name: str, changes: Configs, *, validate_only: bool = False) -> Change:
        """Set and remove configs of a topic, see `planning.configs.change_topic_configs`."""
        return self.submit(config_plans.change_topic_configs(self.planned, name, changes), validate_only)

    def change_group_configs(self, group_id: str, changes: Configs, *, validate_only: bool = False) -> Change:
        """Set and remove configs of a group, see `planning.configs.change_group_configs`."""
        return self.submit(
            config_plans.change_group_configs(self.planned, self._config, group_id, changes), validate_only
        )

    def change_broker_configs(self, node_id: int | None, changes: Configs, *, validate_only: bool = False) -> Change:
        """Set and remove configs of a broker, or of all, see `planning.configs.change_broker_configs`."""
        return self.submit(
            config_plans.change_broker_configs(self.planned, self._config, node_id, changes), validate_only
        )

    def change_scram_credentials(self, request: AlterUserScramCredentialsRequest) -> tuple[ScramPlan, Change]:
        """Set and remove SCRAM credentials of users, see `planning.scram.change_scram_credentials`."""
        plan = change_scram_credentials(self.planned, request)
        return plan, self.submit(plan.records)

    def change_quotas(
        self, entity: QuotaEntity, changes: Mapping[str, float | None], *, validate_only: bool = False
    ) -> Change:
        """Set and remove quotas of an entity, see `planning.quotas.change_quotas`."""
        return self.submit(change_quotas(self.planned, entity, changes), validate_only)

    def check_new_acl(self, binding: AclBinding) -> None:
        """Check an ACL before its creation. Raises KafkaError(INVALID_REQUEST)."""
        acl_plans.check_new(binding)

    def create_acls(self, bindings: Iterable[AclBinding]) -> Change:
        """Create checked ACLs, see `planning.acls.create_acls`."""
        return self.submit(acl_plans.create_acls(self.planned, bindings))

    def delete_acls(self, bindings: Iterable[AclBinding]) -> Change:
        """Delete ACLs, see `planning.acls.delete_acls`."""
        return self.submit(acl_plans.delete_acls(self.planned, bindings))

    def take_producer_ids(self) -> tuple[range, Change]:
        """Take a block of producer ids, see `planning.producer_ids`. If the change fails, no id may ever be used."""
        block, records = take_producer_ids(self.planned, self._config.node_id)
        return block, self.submit(records)

    def elect(self, _election_type: int, _partitions: Sequence[TopicPartition] | None) -> Ask | None:
        """A wait for the ElectLeadersResponse about these partitions, or all; None: no partition needs an election.

        Raises KafkaError.
        """
        return None

    def reassign(
        self, _wanted: Mapping[TopicPartition, Sequence[int] | None], *, may_change_factor: bool = True
    ) -> Ask | None:
        """A wait for the AlterPartitionReassignmentsResponse, once each reassignment has begun; None cancels one.

        None: this broker is alone, and moves nothing. Raises KafkaError.
        """
        return None

    def shut_down(self, _broker_id: int, _broker_epoch: int) -> Ask:
        """A wait for the ControlledShutdownResponse to a broker that will stop. `_broker_epoch`: -1 if unknown.

        Raises KafkaError(NOT_CONTROLLER); the answer may be another KafkaError.
        """
        raise self._not_controller()

    def alter_partition(self, _request: AlterPartitionRequest, _version: int) -> Ask:
        """A wait for the AlterPartitionResponse to a leader that asks for other in-sync sets.

        Raises KafkaError(NOT_CONTROLLER); the answer may be another KafkaError.
        """
        raise self._not_controller()

    def check_registration(self, _broker_id: int, _broker_epoch: int) -> None:
        """Raises KafkaError: NOT_CONTROLLER; BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH about another broker."""
        raise self._not_controller()

    # Changes

    def submit(self, records: Sequence[MetadataRecord], validate_only: bool = False) -> Change:
        """Store records that were planned upon `planned`. The change may be settled already.

        Without records, and with `validate_only`, nothing is stored: the change settles with the pending ones.
        Raises KafkaError if the store refuses the records at once, and ValueError if they do not fit `planned`.
        """
        change = Change(records, self.planned.apply_all(records) if records else self.planned)
        if validate_only or not records:
            upon = self._last_pending()
            if upon is None:
                change.state = ChangeState.SETTLED
            else:
                upon.validated.append(change)
            return change
        return self._begin(change)

    def _begin(self, change: Change) -> Change:
        """Begin to store a change. Raises KafkaError if the store refuses the change at once."""
        self._pending.append(change)
        try:
            self._write(change)
        except KafkaError as error:
            self._written(change, without_frames(error))
        if change.error is not None:
            raise change.error.copy()
        return change

    def _last_pending(self) -> Change | None:
        return next((change for change in reversed(self._pending) if change.error is None), None)

    def _written(self, change: Change, error: KafkaError | None) -> None:
        """Note that a change is in the store, or was refused."""
        change.error, change.state = error, ChangeState.WRITTEN
        if error is not None:
            self._replan()
        self._settle()

    def _written_by_others(self, records: Sequence[MetadataRecord]) -> Change:
        """Apply another broker's change, after the changes that `_written` was called for, and before all others."""
        change = Change(records, self.written_image.apply_all(records))
        change.state = ChangeState.WRITTEN
        unwritten = (number for number, change in enumerate(self._pending) if not change.is_written)
        self._pending.insert(next(unwritten, len(self._pending)), change)
        self._replan()
        self._settle()
        return change

    def _replan(self) -> None:
        """Plan the unwritten changes again, each upon the image before it."""
        image = self.written_image
        for change in self._pending:
            if not change.is_written:
                try:
                    image = image.apply_all(change.records)
                except ValueError as error:  # the store will refuse it
                    logger.debug("a change of the metadata was overtaken: %s", error)
                change.image = image

    def _settle(self) -> None:
        """Settle the changes that are written and prepared, in their order."""
        if self._is_settling:
            return
        self._is_settling = True
        try:
            while self._pending and self._is_ready(self._pending[0]):
                try:
                    self._end(self._pending.popleft())
                except Exception:  # a listener's fault must not keep later changes waiting
                    logger.exception("a change of the metadata was not followed by every listener")
        finally:
            self._is_settling = False

    def _is_ready(self, change: Change) -> bool:
        if change.state is ChangeState.WRITTEN and change.error is None:
            change.state = ChangeState.PREPARING
            names = changed_topics(change.records, self.image, change.image)
            run(self._prepare(self.image, change.image, names), partial(self._prepared, change))
        return change.state is ChangeState.PREPARED or change.error is not None

    def _prepared(self, change: Change, fault: Exception | None) -> None:
        if fault is not None:
            message = "a change of the metadata could not be prepared; it takes effect all the same"
            logger.error(message, exc_info=fault)
        if change.state is ChangeState.PREPARING:
            change.state = ChangeState.PREPARED
        self._settle()

    def _end(self, change: Change) -> None:
        for settled in (change, *change.validated):
            settled.error, settled.state = change.error, ChangeState.SETTLED
        try:
            if change.error is None:
                self._apply(change)
        finally:
            self._touch(self.waiters)

    def _apply(self, change: Change) -> None:
        old, new = self.image, change.image
        self.image = new
        configs = new.broker_configs(self._config.node_id)
        if configs != old.broker_configs(self._config.node_id):
            self._config.change(*configs)
        for line in (*_log_lines(change.records, old), *acl_plans.log_lines(change.records, old)):
            if self.knows_topics:  # else the topics are old, and this broker has just started
                logger.info("%s", line)
        names = changed_topics(change.records, old, new)
        for listener in self._listeners:
            listener(old, new, names)

    def _publish_members(self, brokers: Mapping[int, Node], controller_id: int) -> None:
        """Publish the live brokers and the controller, which no record has. Pending changes keep them.

        The listeners get no names of topics: those that keep addresses of brokers resolve them again.
        """
        old = self.image
        if (brokers, controller_id) == (old.brokers, old.controller_id):
            return
        self.image = old._replace(brokers=brokers, controller_id=controller_id)
        for change in self._pending:
            change.image = change.image._replace(brokers=brokers, controller_id=controller_id)
        for listener in self._listeners:
            try:
                listener(old, self.image, ())
            except Exception:  # the other listeners must follow
                logger.exception("a change of the live brokers was not followed by every listener")


def _log_lines(records: Sequence[MetadataRecord], old: Image) -> Iterator[str]:
    """The log line of a change. Only values of topics are shown: others may be secrets."""
    for record in records:
        if isinstance(record, TopicRecord):
            yield f"created topic {record.name}"
        elif isinstance(record, RemoveTopicRecord):
            yield f"deleted topic {old.topic_names[record.topic_id]}"
        elif isinstance(record, UserScramCredentialRecord):
            yield f"a SCRAM credential of user {record.name!r} was set"
        elif isinstance(record, RemoveUserScramCredentialRecord):
            yield f"a SCRAM credential of user {record.name!r} was removed"
        elif isinstance(record, DelegationTokenRecord):
            done = "changed" if record.token_id in old.tokens else f"created by {record.requester}"
            yield f"delegation token {record.token_id} of {record.owner} was {done}"
        elif isinstance(record, RemoveDelegationTokenRecord):
            yield f"delegation token {record.token_id} was deleted"
        elif isinstance(record, ClientQuotaRecord):
            entity = QuotaEntity.of((part.entity_type, part.entity_name) for part in record.entity)
            yield f"{record.key} of {entity.title} was {'removed' if record.remove else f'set to {record.value:g}'}"
        elif isinstance(record, ConfigRecord):
            resource = _RESOURCES.get(record.resource_type, str(record.resource_type))
            value = f" to {record.value!r}" if record.resource_type == TOPIC_RESOURCE else ""
            done = "removed" if record.value is None else f"set{value}{_note(record)}"
            yield f"{record.name} of {resource} {record.resource_name or '(all)'} was {done}"


def _note(record: ConfigRecord) -> str:
    """The note for an administrator about a setting without effect, as `headgate config` prints for a file."""
    find = _FIND.get(record.resource_type)
    definition = None if find is None else find(record.name)
    return "" if definition is None or not definition.note else f": {definition.note}"


_FIND: dict[int, Callable[[str], Definition | None]] = {
    TOPIC_RESOURCE: catalogue.UNSUPPORTED_TOPIC.get,
    BROKER_RESOURCE: catalogue.find,
    GROUP_RESOURCE: group_config.UNSUPPORTED.get,
}
