"""Differences between an image and a later read of ZooKeeper, as metadata records. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from headgate.gateway.metadata.image import Image, PartitionState, Topic
from headgate.gateway.metadata.records import config_records, partition_records, scram_records
from headgate.gateway.security.acls.acls_image import binding_of
from headgate.gateway.zookeeper.layout.users import USER_RESOURCE
from headgate.protocol.acls import ResourcePattern
from headgate.protocol.internal.metadata import (
    TOPIC_RESOURCE,
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from headgate.protocol.security.quotas import QuotaEntity
from headgate.protocol.security.sasl.scram_keys import ScramCredential


def changed_quotas(old: Mapping[str, float], new: Mapping[str, float]) -> dict[str, float | None]:
    """The quotas that differ: the new value, or None for a removed quota."""
    changed: dict[str, float | None] = {key: None for key in old if key not in new}
    return changed | {key: value for key, value in new.items() if old.get(key) != value}


def topic_records(old: Topic | None, new: Topic | None) -> list[MetadataRecord]:
    """The records that turn the topic `old` into `new`, of the same name. The number of partitions never falls."""
    records: list[MetadataRecord] = []
    if old is not None and (new is None or new.topic_id != old.topic_id):
        records.append(RemoveTopicRecord(topic_id=old.topic_id))
        old = None
    if new is None:
        return records
    if old is None:
        records.append(TopicRecord(name=new.name, topic_id=new.topic_id))
    before: Sequence[PartitionState] = () if old is None else old.partitions
    for index, state in enumerate(new.partitions):
        if index >= len(before) or state != before[index]:
            records += partition_records(new.topic_id, index, (state,))
    configs = {} if old is None else old.configs
    return records + config_records(new.name, changed_configs(configs, new.configs))


def changed_configs(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str | None]:
    """The configs that differ: the new value, or None for a removed config."""
    changed: dict[str, str | None] = {name: None for name in old if name not in new}
    return changed | {name: value for name, value in new.items() if old.get(name) != value}


def credential_records(
    user: str, old: Mapping[int, ScramCredential], new: Mapping[int, ScramCredential]
) -> list[MetadataRecord]:
    """The records that turn the SCRAM credentials `old` of a user into `new`."""
    changed: dict[int, ScramCredential | None] = {mechanism: None for mechanism in old if mechanism not in new}
    changed |= {mechanism: credential for mechanism, credential in new.items() if old.get(mechanism) != credential}
    return scram_records(user, changed)


def overlay(image: Image, records: Sequence[MetadataRecord]) -> Image:
    """Apply a change to an image that may have a part of the change, or all of it, already.

    Raises ValueError if the image has a conflicting change instead.
    """
    return image.apply_all(_missing(image, records))


def _missing(image: Image, records: Sequence[MetadataRecord]) -> Iterator[MetadataRecord]:
    for record in records:
        is_there = isinstance(record, TopicRecord) and image.topic_names.get(record.topic_id) == record.name
        is_gone = isinstance(record, RemoveTopicRecord) and record.topic_id not in image.topic_names
        if isinstance(record, RemoveUserScramCredentialRecord):
            is_gone = record.mechanism not in image.scram_credentials.get(record.name, {})
        if isinstance(record, RemoveDelegationTokenRecord):
            is_gone = record.token_id not in image.tokens
        if not is_there and not is_gone:
            yield record


class Touched(NamedTuple):
    """The subjects of records.

    Topics by name; other resources with configs, users with credentials; ACLs; producer ids or features; owners of
    quotas; delegation tokens by id.
    """

    topics: set[str]
    resources: set[tuple[int, str]]
    acls: set[ResourcePattern]
    has_others: bool
    quotas: set[QuotaEntity]
    tokens: set[str]


def touched(records: Sequence[MetadataRecord], *images: Image) -> Touched:
    """The subjects that records change. Topic ids are looked up in the images."""
    topics, resources, acls, has_others = set[str](), set[tuple[int, str]](), set[ResourcePattern](), False
    quotas, tokens = set[QuotaEntity](), set[str]()
    for record in records:
        match record:
            case TopicRecord():
                topics.add(record.name)
            case PartitionRecord() | RemoveTopicRecord():
                topics.update(
                    image.topic_names[record.topic_id] for image in images if record.topic_id in image.topic_names
                )
            case ConfigRecord(resource_type=resource_type) if resource_type == TOPIC_RESOURCE:
                topics.add(record.resource_name)
            case ConfigRecord():
                resources.add((record.resource_type, record.resource_name))
            case UserScramCredentialRecord() | RemoveUserScramCredentialRecord():
                resources.add((USER_RESOURCE, record.name))
            case ClientQuotaRecord():
                quotas.add(QuotaEntity.of((part.entity_type, part.entity_name) for part in record.entity))
            case AccessControlEntryRecord():
                acls.add(binding_of(record).pattern)
            case RemoveAccessControlEntryRecord():
                acls.update(image.acls.by_id[record.id].pattern for image in images if record.id in image.acls.by_id)
            case DelegationTokenRecord() | RemoveDelegationTokenRecord():
                tokens.add(record.token_id)
            case _:
                has_others = True
    return Touched(topics, resources, acls, has_others, quotas, tokens)
