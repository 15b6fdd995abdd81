"""Metadata records from an image: of single resources for a change, of the whole image for a snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from headgate.gateway.metadata.image import Image, PartitionState
from headgate.gateway.security.acls.acls_image import record_of
from headgate.gateway.security.tokens.delegation_token import record_of as token_record
from headgate.protocol.internal.metadata import (
    TOPIC_RESOURCE,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntityData,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from headgate.protocol.security.quotas import QuotaEntity
from headgate.protocol.security.sasl.scram_keys import ScramCredential


def partition_records(topic_id: bytes, first: int, states: Iterable[PartitionState]) -> list[MetadataRecord]:
    """Records of a topic's partitions, from index `first` on."""
    return [
        PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=list(state.replicas),
            isr=list(state.isr),
            removing_replicas=list(state.removing_replicas),
            adding_replicas=list(state.adding_replicas),
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
        )
        for index, state in enumerate(states, start=first)
    ]


def config_records(
    resource: str, configs: Mapping[str, str | None], resource_type: int = TOPIC_RESOURCE
) -> list[MetadataRecord]:
    """Records of one resource's configs; None removes a config."""
    return [
        ConfigRecord(resource_type=resource_type, resource_name=resource, name=name, value=value)
        for name, value in configs.items()
    ]


def scram_records(user: str, credentials: Mapping[int, ScramCredential | None]) -> list[MetadataRecord]:
    """Records of one user's SCRAM credentials by mechanism; None removes a credential."""
    return [
        RemoveUserScramCredentialRecord(name=user, mechanism=mechanism)
        if credential is None
        else UserScramCredentialRecord(
            name=user,
            mechanism=mechanism,
            salt=credential.salt,
            stored_key=credential.stored_key,
            server_key=credential.server_key,
            iterations=credential.iterations,
        )
        for mechanism, credential in credentials.items()
    ]


def quota_records(entity: QuotaEntity, values: Mapping[str, float | None]) -> list[MetadataRecord]:
    """Records of one entity's quotas; None removes a quota."""
    return [
        ClientQuotaRecord(
            entity=[QuotaEntityData(kind, name) for kind, name in entity.names],
            key=key,
            value=0.0 if value is None else value,
            remove=value is None,
        )
        for key, value in values.items()
    ]


def image_records(image: Image, removed: Collection[bytes]) -> Iterator[MetadataRecord]:
    """The records that build this image from an empty one, after deletions of the topics `removed` (ids).

    Brokers and the cluster's id are not recorded. Any thread may iterate: an image never changes.
    """
    for topic_id in sorted(removed):
        yield RemoveTopicRecord(topic_id=topic_id)
    for name, level in image.features.items():
        yield FeatureLevelRecord(name=name, feature_level=level)
    for (resource_type, resource), configs in image.configs.items():
        yield from config_records(resource, configs, resource_type)
    for user, credentials in image.scram_credentials.items():
        yield from scram_records(user, credentials)
    for entity, values in image.quotas.items():
        yield from quota_records(entity, values)
    for topic in image.topics.values():
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for index, state in enumerate(topic.partitions):  # one by one: a topic may have many
            yield from partition_records(topic.topic_id, index, (state,))
        yield from config_records(topic.name, topic.configs)
    for acl_id, binding in image.acls.by_id.items():
        yield record_of(binding, acl_id)
    yield from map(token_record, image.tokens.values())
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=image.controller_id, next_producer_id=image.next_producer_id)
