"""Adoption of the data directories of a stopped Apache Kafka: `headgate serve --adopt`.

Kafka's layout is the same as ours, but there is no metadata log of ours with the topics. Adoption creates that log
before the broker starts, from the partitions' directories and from Kafka's own metadata log, if there is one. The new
log is written under another name and renamed once complete: until then the directories are Kafka's, from then on ours.
`__cluster_metadata-0` is read once, and stays unchanged.

Kafka with ZooKeeper (up to 3.9) keeps the configs of topics in ZooKeeper. Adopted topics then get the defaults, except
where the files contradict them (`unknown_configs`).
"""

from __future__ import annotations

import contextlib
import logging
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from headgate.gateway.config import topic_config as topic_configs
from headgate.gateway.metadata import new_metadata_log, unknown_configs
from headgate.gateway.metadata.image import CONSUMER_OFFSETS, COORDINATOR_TOPICS, Image, PartitionState
from headgate.gateway.metadata.new_topics import MAX_PARTITIONS_AT_ONCE, new_topic_id
from headgate.gateway.metadata.records import config_records, partition_records, quota_records, scram_records
from headgate.gateway.security.acls.acls_image import binding_of
from headgate.gateway.security.tokens.delegation_token import record_of as token_record
from headgate.protocol.acls import AclBinding
from headgate.protocol.errors import KafkaError, MalformedRequest
from headgate.protocol.internal.metadata import (
    ABORT_TRANSACTION,
    BEGIN_TRANSACTION,
    END_TRANSACTION,
    TOPIC_RESOURCE,
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
    decode_known,
    record_type,
)
from headgate.storage.directory import kafka_directory
from headgate.storage.directory.kafka_directory import KafkaPartition, Survey
from headgate.storage.directory.log_directory import LOCK
from headgate.storage.disk import layout
from headgate.storage.disk.checkpoint import TEMPORARY_SUFFIX
from headgate.storage.errors import BadFile, StorageError
from headgate.storage.files import Files

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig

logger = logging.getLogger("headgate.adoption")

_RESOURCES = {4: "broker", 8: "broker logger", 16: "client metrics", 32: "group"}  # KIP-412, KIP-714, KIP-848

_TRANSACTION = struct.Struct(">hq")  # version and producer id, with which a value of __transaction_state begins
PRODUCER_IDS_APART = 1_000_000
"""Without Kafka's metadata its last producer id is unknown; new ids begin this far above the highest id in the logs."""


@dataclass
class KnownTopic:
    """A topic in Kafka's metadata log. `leader_epochs`: partition -> leader epoch."""

    name: str
    topic_id: bytes
    leader_epochs: dict[int, int] = field(default_factory=dict)


@dataclass
class KafkaMetadata:
    """The relevant part of Kafka's metadata log. `configs`: (resource type, name) -> configs."""

    topics: dict[bytes, KnownTopic] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0
    scram: list[MetadataRecord] = field(default_factory=list)
    """The records about SCRAM credentials."""
    security: list[MetadataRecord] = field(default_factory=list)
    """The records about quotas and delegation tokens."""
    acls: dict[bytes, AccessControlEntryRecord] = field(default_factory=dict)

    def apply(self, record: MetadataRecord) -> None:
        """Apply one record. A record for an unknown topic is ignored."""
        match record:
            case TopicRecord():
                self.topics[record.topic_id] = KnownTopic(record.name, record.topic_id)
            case PartitionRecord() if record.topic_id in self.topics:
                self.topics[record.topic_id].leader_epochs[record.partition_id] = record.leader_epoch
            case RemoveTopicRecord() if record.topic_id in self.topics:
                self.configs.pop((TOPIC_RESOURCE, self.topics.pop(record.topic_id).name), None)
            case ConfigRecord():
                own = self.configs.setdefault((record.resource_type, record.resource_name), {})
                own.pop(record.name, None)
                if record.value is not None:
                    own[record.name] = record.value
            case UserScramCredentialRecord() | RemoveUserScramCredentialRecord():
                self.scram.append(record)
            case ClientQuotaRecord() | DelegationTokenRecord() | RemoveDelegationTokenRecord():
                self.security.append(record)
            case ProducerIdsRecord():
                self.next_producer_id = max(self.next_producer_id, record.next_producer_id)
            case AccessControlEntryRecord():
                self.acls[record.id] = record
            case RemoveAccessControlEntryRecord():
                self.acls.pop(record.id, None)

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing of topics, nor of who may do what."""
        return not (self.topics or self.acls or self.scram or self.security)

    def topics_by_name(self) -> dict[str, KnownTopic]:
        return {topic.name: topic for topic in self.topics.values()}


@dataclass
class Adopted:
    """The result of the plan: the records of the metadata log, and notes for the log, each a level and a sentence.

    `guessed`: topic -> configs, for topics whose own configs are unknown.
    """

    guessed: Mapping[str, Mapping[str, str]]
    records: list[MetadataRecord] = field(default_factory=list)
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    notes: list[tuple[int, str]] = field(default_factory=list)

    def warn(self, sentence: str) -> None:
        """Note a warning."""
        self.notes.append((logging.WARNING, sentence))


def adopt(
    config: BrokerConfig, files: Files, random: Random, now_ms: int, last_check: Callable[[], None] = lambda: None
) -> bool:
    """Adopt Kafka's data directories. Returns False, with nothing changed, if they are Headgate's already.

    `last_check` is called before anything is written, and raises OSError to refuse. Raises StorageError, with nothing
    changed, if the directories contradict each other or the configuration; DirectoryLocked while Kafka runs; OSError.
    """
    paths = [path.rstrip("/") for path in config.log_directories if files.exists(path)]
    kafka_directory.check_not_carried(files, paths)
    if not kafka_directory.is_kafka_directory(files, paths):
        _check_use(config, files, paths)
        logger.info("--adopt: log.dirs=%s is Headgate's already", ",".join(config.log_directories))
        return False
    with contextlib.ExitStack() as locks:
        for path in paths:
            locks.callback(files.lock(f"{path}/{LOCK}").release)
        survey = kafka_directory.survey(files, paths, _metadata_directory(config))
        _check_identity(config, survey)
        known = read_metadata(files, survey)
        transactional = 0 if known is not None and known.next_producer_id else next_transactional_id(files, survey)
        guessed = unknown_configs.contradicting(
            files, survey, config.log_config({}), _with_known_configs(survey, known)
        )
        adopted = plan(survey, known, config, random, transactional, guessed)
        for level, sentence in adopted.notes:
            logger.log(level, "%s", sentence)
        last_check()
        _write_topic_ids(files, paths, survey, adopted)
        new_metadata_log.write(files, paths[0], adopted.records, random, now_ms)
        new_metadata_log.keep_from_kafka(files, paths)
    logger.info(
        "adopted %d topics with %d partitions of node %d, cluster %s",
        len(adopted.topic_ids), len(survey.partitions), survey.meta.node_id, survey.meta.cluster_id,
    )  # fmt: skip
    return True


def _check_use(config: BrokerConfig, files: Files, paths: Sequence[str]) -> None:
    """Raise StorageError if no directory has data: with a wrong log.dirs an empty broker would replace the adopted one.

    All groups would start over on an empty broker.
    """
    if not any(files.exists(f"{path}/{layout.META_PROPERTIES}") for path in paths):
        raise StorageError(
            f"--adopt: log.dirs={','.join(config.log_directories)} is no data directory: set the log.dirs of the "
            "stopped Apache Kafka, or start without --adopt"
        )


def _metadata_directory(config: BrokerConfig) -> str | None:
    """The directory of Kafka's metadata log by `metadata.log.dir`; None for the first of log.dirs."""
    given = config.given().get("metadata.log.dir")
    return given.strip().rstrip("/") if given else None


def _check_identity(config: BrokerConfig, survey: Survey) -> None:
    if survey.meta.node_id != config.node_id:
        raise StorageError(
            f"log.dirs={','.join(config.log_directories)} belongs to node.id={survey.meta.node_id}, "
            f"not {config.node_id}; set that node.id, or another log.dirs"
        )


def read_metadata(files: Files, survey: Survey) -> KafkaMetadata | None:
    """The content of Kafka's metadata log; None if there is none, or if nothing in it can be read."""
    directory = survey.cluster_metadata
    if directory is None:
        return None
    reading = _Reading()
    try:
        for value in kafka_directory.metadata_values(files, directory):
            reading.take(value)
    except BadFile as error:
        logger.warning("%s; only the %d records of Kafka's metadata before that place are used", error, reading.count)
    logger.info("%s: %d records, %d of them of kinds without meaning here", directory, reading.count, reading.unknown)
    return None if reading.metadata.is_empty else reading.metadata


class _Reading:
    """Reads Kafka's metadata log. The records of a metadata transaction apply when it ends (KIP-868)."""

    def __init__(self) -> None:
        self.metadata = KafkaMetadata()
        self.count = self.unknown = 0
        self._begun: list[MetadataRecord] | None = None

    def take(self, value: bytes) -> None:
        """Read the value of the next record, of any kind."""
        self.count += 1
        try:
            kind, record = record_type(value), decode_known(value)
        except MalformedRequest:
            kind, record = -1, None
        if kind == BEGIN_TRANSACTION:
            self._begun = []
        elif kind in (END_TRANSACTION, ABORT_TRANSACTION):
            begun, self._begun = self._begun or [], None
            for one in begun if kind == END_TRANSACTION else ():
                self.metadata.apply(one)
        elif record is None:
            self.unknown += 1
        elif self._begun is not None:
            self._begun.append(record)
        else:
            self.metadata.apply(record)


def _with_known_configs(survey: Survey, known: KafkaMetadata | None) -> set[str]:
    """The topics with known configs, which need no guess."""
    of_kafka = {} if known is None else known.topics_by_name()
    known_configs = {
        topic
        for (topic, _), found in survey.partitions.items()
        if topic in of_kafka and found.topic_id in (None, of_kafka[topic].topic_id)
    }
    return known_configs.union(COORDINATOR_TOPICS)


def next_transactional_id(files: Files, survey: Survey) -> int:
    """One above the highest producer id of a transactional id; such an id may outlive all batches of its producer."""
    found = 0
    try:
        for value in kafka_directory.transactional_values(files, survey):
            if len(value) >= _TRANSACTION.size:
                found = max(found, _TRANSACTION.unpack_from(value)[1] + 1)
    except BadFile as error:
        logger.warning("%s; the ids of transactional producers after that place are unknown", error)
    return found


# ----------------------------------------------------------------------------------------------------------- planning


def plan(
    survey: Survey,
    known: KafkaMetadata | None,
    config: BrokerConfig,
    random: Random,
    next_transactional: int,
    guessed: Mapping[str, Mapping[str, str]],
) -> Adopted:
    """Plan the adoption of a survey. Pure except for `random`. Raises StorageError for one topic with several ids."""
    adopted = Adopted(guessed)
    topics: dict[str, dict[int, KafkaPartition]] = {}
    for (topic, index), found in sorted(survey.partitions.items()):
        topics.setdefault(topic, {})[index] = found
    of_kafka = {} if known is None else known.topics_by_name()
    for name, partitions in topics.items():
        _adopt_topic(name, partitions, of_kafka.get(name), known, config, adopted, random)
    if survey.others:
        adopted.warn(
            f"directories with the name of a partition but no files of a log stay unchanged: {_some(survey.others)}"
        )
    absent = sorted(of_kafka.keys() - topics.keys())
    if absent:
        adopted.warn(f"{len(absent)} topics have no partition in log.dirs and are not adopted: {_some(absent)}")
    _adopt_producer_ids(survey, known, next_transactional, adopted)
    if known is not None:
        _adopt_scram_credentials(known, adopted)
        _adopt_quotas(known, adopted)
        _adopt_tokens(known, config, adopted)
    _adopt_acls(known, config, adopted)
    _warn_of_other_configs(known, adopted)
    return adopted


def _adopt_topic(
    name: str,
    partitions: Mapping[int, KafkaPartition],
    of_kafka: KnownTopic | None,
    known: KafkaMetadata | None,
    config: BrokerConfig,
    adopted: Adopted,
    random: Random,
) -> None:
    topic_id = _topic_id(name, partitions, of_kafka) or new_topic_id(random, adopted.topic_ids.values())
    if of_kafka is not None and of_kafka.topic_id != topic_id:
        adopted.warn(f"{name}: its directories belong to another topic of that name than the one in Kafka's metadata")
        of_kafka = None
    epochs = {} if of_kafka is None else of_kafka.leader_epochs
    count = max([*partitions, *epochs]) + 1
    absent = count - len(partitions)
    if absent > MAX_PARTITIONS_AT_ONCE:
        raise StorageError(
            f"{absent} of {count} partitions of {name} are not in log.dirs; add them, or move the topic away"
        )
    if absent:
        missing = kafka_directory.named([index for index in range(count) if index not in partitions])
        adopted.warn(f"{name}: of {count} partitions these are not in log.dirs, and begin empty: {missing}")
    adopted.topic_ids[name] = topic_id
    adopted.records.append(TopicRecord(name=name, topic_id=topic_id))
    for index in range(count):
        latest = partitions[index].latest_epoch if index in partitions else -1
        leader_epoch, alone = max(latest, epochs.get(index, -1)) + 1, (config.node_id,)
        state = PartitionState(config.node_id, leader_epoch, alone, alone, 0)
        adopted.records += partition_records(topic_id, index, (state,))
    configs = _configs(name, of_kafka, known, config, adopted)
    own = " ".join(f"{key}={value}" for key, value in configs.items()) or "no configs of its own"
    adopted.notes.append((logging.INFO, f"{name}: {count} partitions, id {layout.format_id(topic_id)}, {own}"))
    adopted.records += config_records(name, configs)


def _topic_id(name: str, partitions: Mapping[int, KafkaPartition], of_kafka: KnownTopic | None) -> bytes | None:
    """The topic id in the directories, otherwise in Kafka's metadata. Raises StorageError for more than one."""
    ids = Counter(found.topic_id for found in partitions.values() if found.topic_id is not None)
    if len(ids) > 1:
        wanted = of_kafka.topic_id if of_kafka is not None else ids.most_common(1)[0][0]
        others = [found.path for found in partitions.values() if found.topic_id not in (None, wanted)]
        raise StorageError(
            f"{_some(others)}: by {layout.PARTITION_METADATA} these directories belong to another topic with the name "
            f"{name}; move them away"
        )
    return next(iter(ids), None if of_kafka is None else of_kafka.topic_id)


def _configs(
    name: str, of_kafka: KnownTopic | None, known: KafkaMetadata | None, config: BrokerConfig, adopted: Adopted
) -> dict[str, str]:
    """The topic's own configs, as far as they are valid here."""
    if known is None or of_kafka is None:
        own = _internal_configs(name, config) or dict(adopted.guessed.get(name, {}))
        adopted.warn(
            f"{name}: its configs are unknown, as ZooKeeper or a lost log has them; it has {_whose(name, own)}"
        )
        return own
    kept: dict[str, str] = {}
    for key, value in known.configs.get((TOPIC_RESOURCE, name), {}).items():
        try:
            topic_configs.check({**kept, key: value})
            kept[key] = value
        except KafkaError as error:
            adopted.warn(f"{name}: {key} is not adopted: {error.message}")
    return kept


def _whose(name: str, own: Mapping[str, str]) -> str:
    if name in COORDINATOR_TOPICS:
        return "the configs of a new topic"
    if not own:
        return "the defaults"
    if "cleanup.policy" in own:
        return "the defaults, but is compacted, as it was by Kafka"
    return f"the defaults, but keeps all, as Kafka kept more of it: set its own {' and '.join(sorted(own))}"


def _internal_configs(name: str, config: BrokerConfig) -> dict[str, str]:
    """The configs of an internal topic, as Kafka creates it; none for other topics."""
    if name not in COORDINATOR_TOPICS:
        return {}
    offsets = {"compression.type": "producer", "segment.bytes": str(config.offsets_topic_segment_bytes)}
    states = {"compression.type": "uncompressed", "segment.bytes": "104857600"}
    return {"cleanup.policy": "compact", **(offsets if name == CONSUMER_OFFSETS else states)}


def _adopt_scram_credentials(known: KafkaMetadata, adopted: Adopted) -> None:
    users = Image.empty().apply_all(known.scram).scram_credentials
    for user, credentials in users.items():
        adopted.records += scram_records(user, credentials)
    if users:
        adopted.notes.append((logging.INFO, f"SCRAM credentials of {len(users)} users"))


def _adopt_producer_ids(survey: Survey, known: KafkaMetadata | None, next_transactional: int, adopted: Adopted) -> None:
    """Record the next producer id: above all ids that a producer used, or may still use."""
    seen = max([next_transactional, *(found.next_producer_id for found in survey.partitions.values())])
    if known is not None and known.next_producer_id >= seen:
        seen = known.next_producer_id
    elif seen:
        seen += PRODUCER_IDS_APART
    if seen:
        adopted.records.append(ProducerIdsRecord(broker_id=survey.meta.node_id, next_producer_id=seen))


def _adopt_quotas(known: KafkaMetadata, adopted: Adopted) -> None:
    for entity, values in Image.empty().apply_all(known.security).quotas.items():
        adopted.records += quota_records(entity, {**values})
        shown = " ".join(f"{key}={value:g}" for key, value in values.items())
        adopted.notes.append((logging.INFO, f"quotas of {entity.title}: {shown}"))


def _adopt_tokens(known: KafkaMetadata, config: BrokerConfig, adopted: Adopted) -> None:
    tokens = Image.empty().apply_all(known.security).tokens
    adopted.records += map(token_record, tokens.values())
    if tokens and not (config.delegation_token_secret_key or config.delegation_token_master_key):
        adopted.warn(
            f"{len(tokens)} delegation tokens are adopted, but no client can log in by one: set Kafka's "
            "delegation.token.secret.key"
        )
    elif tokens:
        adopted.notes.append((logging.INFO, f"{len(tokens)} delegation tokens"))


def _adopt_acls(known: KafkaMetadata | None, config: BrokerConfig, adopted: Adopted) -> None:
    """Record the ACLs. One with a part that is unknown here decides about nothing that is served, and is left out."""
    bindings: dict[AclBinding, AccessControlEntryRecord] = {}
    unknown = 0
    for record in () if known is None else known.acls.values():
        binding = binding_of(record)
        if binding.is_unknown:
            unknown += 1
        else:
            bindings.setdefault(binding, record)
    adopted.records += bindings.values()
    if unknown:
        adopted.warn(f"{unknown} ACLs are about resources or operations that are not known here, and are not adopted")
    if bindings and not config.authorizer_class_name:
        adopted.warn(
            f"{len(bindings)} ACLs are adopted, but without authorizer.class.name everybody may do everything: set it"
        )


def _warn_of_other_configs(known: KafkaMetadata | None, adopted: Adopted) -> None:
    """Warn about configs of brokers, clients and groups: an administrator has to set them again."""
    for (kind, name), configs in {} if known is None else known.configs.items():
        if kind != TOPIC_RESOURCE and configs:
            whose = f"{_RESOURCES.get(kind, f'resources of type {kind}')} {name or '(the default)'}"
            adopted.warn(f"configs of {whose} are not adopted; set them again if needed: {_some(sorted(configs))}")


def _some(names: Sequence[str]) -> str:
    more = len(names) - 10
    return ", ".join(names[:10]) + (f" and {more} more" if more > 0 else "")


# ------------------------------------------------------------------------------------------------------------ writing


def _write_topic_ids(files: Files, paths: Sequence[str], survey: Survey, adopted: Adopted) -> None:
    """Write topic ids to the partitions' directories without one, as before Kafka 2.8; each file atomically.

    One sync serves all files: two syncs for each of thousands would take minutes.
    """
    lacking = [(topic, found.path) for (topic, _), found in survey.partitions.items() if found.topic_id is None]
    if not lacking:
        return
    names = []
    for topic, directory in lacking:
        path = f"{directory}/{layout.PARTITION_METADATA}"
        files.write(path + TEMPORARY_SUFFIX, layout.topic_metadata(adopted.topic_ids[topic]))
        names.append(path)
    for path in paths:
        files.sync_all(path)
    for name in names:
        files.rename(name + TEMPORARY_SUFFIX, name)
    for path in paths:
        files.sync_all(path)
