"""The immutable image of the cluster, and how metadata records change it.

Every reader has the image of the moment; a `MetadataStore` makes the next image with `apply_all`. The records of one
change are applied together, so that each mapping is copied once, however many partitions the change has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from headgate.gateway.security.acls.acls_image import NO_ACLS, AclsDraft, AclsImage, binding_of
from headgate.gateway.security.sasl.scram_credentials import UserCredentials
from headgate.gateway.security.tokens.delegation_token import NO_TOKENS, DelegationToken, Tokens, token_of
from headgate.protocol.census import rows as census_rows
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from headgate.protocol.security.quotas import QuotaEntity, Quotas
from headgate.protocol.security.sasl.scram_keys import ScramCredential
from headgate.protocol.topic_partition import TopicPartition

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
CENSUS = census_rows.TOPIC
COORDINATOR_TOPICS = frozenset((CONSUMER_OFFSETS, TRANSACTION_STATE))
"""The topics that coordinators need."""
INTERNAL_TOPICS = COORDINATOR_TOPICS | {CENSUS}
"""The topics that clients do not write to."""
_NOT_HOSTED, _NO_SUCH_ID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID


FailedReplicas = Mapping[TopicPartition, tuple[int, ...]]
"""By partition: the live brokers that cannot serve their replica, as a disk has failed. No record has them."""


class PartitionState(NamedTuple):
    """The leader and the replicas of a partition. `leader` is -1 without a leader; epochs grow with every change.

    During a reassignment (KIP-455) some of the replicas are added, and some will be removed. Only the controller of a
    cluster knows which.
    """

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def original_replicas(self) -> tuple[int, ...]:
        """The replicas before the reassignment."""
        return tuple([broker for broker in self.replicas if broker not in self.adding_replicas])

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple([broker for broker in self.replicas if broker not in self.removing_replicas])


class Topic(NamedTuple):
    """A topic; its partitions by index, its own configs by Kafka's names."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionState, ...]
    configs: Mapping[str, str]

    def partition(self, index: int) -> PartitionState:
        """A partition. Raises KafkaError(UNKNOWN_TOPIC_OR_PARTITION)."""
        if not 0 <= index < len(self.partitions):
            message = f"partition {self.name}-{index} does not exist"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        return self.partitions[index]

    @property
    def is_internal(self) -> bool:
        """True for a topic of the brokers, which Kafka's clients see as internal."""
        return self.name in INTERNAL_TOPICS


class Node(NamedTuple):
    """A live broker. `endpoints`: host and port by listener; empty for this broker, see `advertised_address`."""

    node_id: int
    rack: str | None
    endpoints: Mapping[str, tuple[str, int]]


_NO_CREDENTIALS: UserCredentials = {}
_NO_QUOTAS: Quotas = {}


class Image(NamedTuple):
    """The cluster at one moment. The mappings must not be changed: the next image may share them.

    `features` has every level that was ever finalized, 0 included; see `gateway.metadata.features`.
    """

    cluster_id: str
    controller_id: int
    brokers: Mapping[int, Node]
    topics: Mapping[str, Topic]
    topic_names: Mapping[bytes, str]
    features: Mapping[str, int]
    configs: Mapping[tuple[int, str], Mapping[str, str]]
    next_producer_id: int
    scram_credentials: UserCredentials = _NO_CREDENTIALS
    quotas: Quotas = _NO_QUOTAS
    acls: AclsImage = NO_ACLS
    tokens: Tokens = NO_TOKENS

    @classmethod
    def empty(cls, cluster_id: str = "", controller_id: int = -1, brokers: Iterable[Node] = ()) -> Image:
        """A cluster without topics."""
        return cls(cluster_id, controller_id, {node.node_id: node for node in brokers}, {}, {}, {}, {}, 0)

    def topic(self, name: str) -> Topic:
        """The topic of that name. Raises KafkaError(UNKNOWN_TOPIC_OR_PARTITION)."""
        topic = self.topics.get(name)
        if topic is None:
            raise KafkaError(_NOT_HOSTED, f"The topic '{name}' does not exist. {_NOT_HOSTED.message}")
        return topic

    def topic_by_id(self, topic_id: bytes) -> Topic:
        """The topic of that id. Raises KafkaError(UNKNOWN_TOPIC_ID)."""
        name = self.topic_names.get(topic_id)
        if name is None:
            raise KafkaError(_NO_SUCH_ID, f"{_NO_SUCH_ID.message} No topic has the id {topic_id.hex()}")
        return self.topics[name]

    def topic_id_of(self, name: str) -> bytes | None:
        topic = self.topics.get(name)
        return None if topic is None else topic.topic_id

    def has_partition(self, name: str, index: int) -> bool:
        topic = self.topics.get(name)
        return topic is not None and 0 <= index < len(topic.partitions)

    def topic_configs(self, name: str) -> Mapping[str, str]:
        """The topic's own configs; none for an unknown topic."""
        topic = self.topics.get(name)
        return {} if topic is None else topic.configs

    def broker_configs(self, node_id: int) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """The dynamic configs: for all brokers, and for one broker."""
        none: Mapping[str, str] = {}
        return self.configs.get((BROKER_RESOURCE, ""), none), self.configs.get((BROKER_RESOURCE, str(node_id)), none)

    def apply(self, *records: MetadataRecord) -> Image:
        """The image after these records. Raises ValueError for a record that does not fit."""
        return self.apply_all(records)

    def apply_all(self, records: Iterable[MetadataRecord]) -> Image:
        """The image after many records, for instance all of a log. Raises ValueError for a record that does not fit."""
        draft = _Draft(self)
        for record in records:
            draft.apply(record)
        return draft.finish()


class _Draft:
    """The next image while records are applied: each mapping is copied once, partitions are lists until the end.

    A registration of a broker raises the epochs of all partitions that the broker leads. The draft only counts
    registrations. A state in `_partitions` has its epochs less the leader's registrations until then; `finish` adds all
    registrations. So the replay of many starts touches each partition once.
    """

    def __init__(self, image: Image) -> None:
        self._image = image
        self._topics = dict(image.topics)
        self._names = dict(image.topic_names)
        self._features = dict(image.features)
        self._configs = dict(image.configs)
        self._next_producer_id = image.next_producer_id
        self._scram_credentials: dict[str, Mapping[int, ScramCredential]] | None = None  # a copy, if any one changes
        self._quotas: dict[QuotaEntity, Mapping[str, float]] | None = None  # a copy, if any quota changes
        self._acls: AclsDraft | None = None
        self._tokens: dict[str, DelegationToken] | None = None  # a copy, if any token changes
        self._partitions: dict[bytes, list[PartitionState]] = {}
        self._registrations: Counter[int] = Counter()

    def apply(self, record: MetadataRecord) -> None:
        _APPLY[type(record)](self, record)

    def finish(self) -> Image:
        if self._registrations:
            self._raise_epochs()
        for topic_id, partitions in self._partitions.items():
            name = self._names.get(topic_id)
            if name is not None:
                self._topics[name] = self._topics[name]._replace(partitions=tuple(partitions))
        return self._image._replace(
            topics=self._topics,
            topic_names=self._names,
            features=self._features,
            configs=self._configs,
            next_producer_id=self._next_producer_id,
            scram_credentials=self._credentials,
            quotas=self._image.quotas if self._quotas is None else self._quotas,
            acls=self._image.acls if self._acls is None else self._acls.finish(),
            tokens=self._image.tokens if self._tokens is None else self._tokens,
        )

    def _raise_epochs(self) -> None:
        raised: dict[PartitionState, PartitionState] = {}  # equal states stay one object, in all topics
        for name, topic in self._topics.items():
            states = self._partitions.pop(topic.topic_id, topic.partitions)
            for state in set(states).difference(raised):
                raised[state] = raised_by(state, self._registrations[state.leader])
            self._topics[name] = topic._replace(partitions=tuple([raised[state] for state in states]))

    def register_broker(self, record: RegisterBrokerRecord) -> None:
        self._registrations[record.broker_id] += 1

    def topic(self, record: TopicRecord) -> None:
        if record.name in self._topics:
            raise ValueError(f"the topic {record.name!r} exists already")
        self._topics[record.name] = Topic(record.name, record.topic_id, (), {})
        self._names[record.topic_id] = record.name

    def partition(self, record: PartitionRecord) -> None:
        partitions = self._partitions.get(record.topic_id)
        if partitions is None:
            partitions = self._partitions[record.topic_id] = list(self._topics[self._name(record.topic_id)].partitions)
        if record.partition_id > len(partitions) or record.partition_id < 0:
            raise ValueError(f"partition {record.partition_id} of a topic that has {len(partitions)}")
        before = self._registrations[record.leader]
        state = PartitionState(
            record.leader,
            record.leader_epoch - before,
            tuple(record.replicas),
            tuple(record.isr),
            record.partition_epoch - before,
            tuple(record.adding_replicas),
            tuple(record.removing_replicas),
        )
        if partitions and partitions[-1] == state:
            state = partitions[-1]  # most states of a topic are equal: one object for all
        partitions[record.partition_id : record.partition_id + 1] = [state]

    def config(self, record: ConfigRecord) -> None:
        if record.resource_type != TOPIC_RESOURCE:
            key = (record.resource_type, record.resource_name)
            self._configs[key] = _with_config(self._configs.get(key, {}), record)
            return
        topic = self._topics.get(record.resource_name)
        if topic is None:
            raise ValueError(f"a config of the topic {record.resource_name!r}, which does not exist")
        self._topics[topic.name] = topic._replace(configs=_with_config(topic.configs, record))

    def remove_topic(self, record: RemoveTopicRecord) -> None:
        del self._topics[self._name(record.topic_id)]
        del self._names[record.topic_id]
        self._partitions.pop(record.topic_id, None)

    def feature(self, record: FeatureLevelRecord) -> None:
        self._features[record.name] = record.feature_level

    def scram_credential(self, record: UserScramCredentialRecord) -> None:
        keys = (bytes(record.salt), bytes(record.stored_key), bytes(record.server_key))
        credential = ScramCredential(*keys, record.iterations)
        self._put_credentials(record.name, {**self._user_credentials(record.name), record.mechanism: credential})

    def remove_scram_credential(self, record: RemoveUserScramCredentialRecord) -> None:
        left = {**self._user_credentials(record.name)}
        if left.pop(record.mechanism, None) is None:
            raise ValueError(f"the user {record.name!r} has no SCRAM credential of mechanism {record.mechanism}")
        self._put_credentials(record.name, left)

    @property
    def _credentials(self) -> UserCredentials:
        return self._image.scram_credentials if self._scram_credentials is None else self._scram_credentials

    def _user_credentials(self, user: str) -> Mapping[int, ScramCredential]:
        return self._credentials.get(user, {})

    def _put_credentials(self, user: str, credentials: Mapping[int, ScramCredential]) -> None:
        if self._scram_credentials is None:
            self._scram_credentials = dict(self._image.scram_credentials)
        if credentials:
            self._scram_credentials[user] = credentials
        else:
            self._scram_credentials.pop(user, None)

    def client_quota(self, record: ClientQuotaRecord) -> None:
        entity = QuotaEntity.of((part.entity_type, part.entity_name) for part in record.entity)
        if self._quotas is None:
            self._quotas = dict(self._image.quotas)
        values = {key: value for key, value in self._quotas.get(entity, {}).items() if key != record.key}
        if not record.remove:
            values[record.key] = record.value
        if values:
            self._quotas[entity] = values
        else:
            self._quotas.pop(entity, None)

    def producer_ids(self, record: ProducerIdsRecord) -> None:
        self._next_producer_id = record.next_producer_id

    def acl(self, record: AccessControlEntryRecord) -> None:
        self._changed_acls().add(record.id, binding_of(record))

    def remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        self._changed_acls().remove(record.id)

    def _changed_acls(self) -> AclsDraft:
        """A copy of the ACLs, made for the first change: other changes share them."""
        if self._acls is None:
            self._acls = AclsDraft(self._image.acls)
        return self._acls

    def delegation_token(self, record: DelegationTokenRecord) -> None:
        self._changed_tokens()[record.token_id] = token_of(record)

    def remove_delegation_token(self, record: RemoveDelegationTokenRecord) -> None:
        self._changed_tokens().pop(record.token_id, None)  # others may have been faster

    def _changed_tokens(self) -> dict[str, DelegationToken]:
        if self._tokens is None:
            self._tokens = dict(self._image.tokens)
        return self._tokens

    def _name(self, topic_id: bytes) -> str:
        name = self._names.get(topic_id)
        if name is None:
            raise ValueError(f"no topic has the id {topic_id.hex()}")
        return name


def raised_by(state: PartitionState, count: int) -> PartitionState:
    """The state of a partition with both epochs raised by `count`."""
    return state._replace(leader_epoch=state.leader_epoch + count, partition_epoch=state.partition_epoch + count)


def changed_topics(records: Iterable[MetadataRecord], old: Image, new: Image) -> AbstractSet[str]:
    """The names of the topics in which `new` may differ from `old`; `new` is `old` after these records.

    In the order of the records: a simulated history is to be the same in every process.
    """
    changed, topic_ids = dict[str, None](), dict[bytes, None]()
    for record in records:
        match record:
            case TopicRecord():
                changed[record.name] = None
            case RegisterBrokerRecord():
                changed.update(dict.fromkeys(new.topics))
            case PartitionRecord() | RemoveTopicRecord():
                topic_ids[record.topic_id] = None
            case ConfigRecord(resource_type=resource_type) if resource_type == TOPIC_RESOURCE:
                changed[record.resource_name] = None
    for names in (old.topic_names, new.topic_names):
        changed.update((names[topic_id], None) for topic_id in topic_ids if topic_id in names)
    return changed.keys()


def _with_config(configs: Mapping[str, str], record: ConfigRecord) -> Mapping[str, str]:
    changed = {name: value for name, value in configs.items() if name != record.name}
    if record.value is not None:
        changed[record.name] = record.value
    return changed


_APPLY: dict[type[MetadataRecord], Callable[[_Draft, Any], None]] = {
    RegisterBrokerRecord: _Draft.register_broker,
    TopicRecord: _Draft.topic,
    PartitionRecord: _Draft.partition,
    ConfigRecord: _Draft.config,
    RemoveTopicRecord: _Draft.remove_topic,
    FeatureLevelRecord: _Draft.feature,
    ClientQuotaRecord: _Draft.client_quota,
    ProducerIdsRecord: _Draft.producer_ids,
    UserScramCredentialRecord: _Draft.scram_credential,
    RemoveUserScramCredentialRecord: _Draft.remove_scram_credential,
    AccessControlEntryRecord: _Draft.acl,
    RemoveAccessControlEntryRecord: _Draft.remove_acl,
    DelegationTokenRecord: _Draft.delegation_token,
    RemoveDelegationTokenRecord: _Draft.remove_delegation_token,
}
