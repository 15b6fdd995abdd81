"""The changes that a request has made, from the request, its response, and the metadata before and after. Pure.

A change names its resource, and has the values before and after; None where there was nothing, or is nothing now. No
key, salt, password or secret value is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from headgate.gateway.audit.audit_events import HIDDEN, short, time_text
from headgate.gateway.config import catalogue
from headgate.gateway.config.resource_type import ResourceType
from headgate.gateway.metadata.image import Image
from headgate.gateway.security.acls.acl_requests import binding_of
from headgate.gateway.security.tokens.delegation_token import DelegationToken
from headgate.protocol.acls import AclBinding, AclOperation, AclPermission, AclResource, PatternType
from headgate.protocol.internal.metadata import BROKER_RESOURCE, GROUP_RESOURCE
from headgate.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from headgate.protocol.messages.alter_configs import AlterConfigsRequest
from headgate.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from headgate.protocol.messages.create_acls import CreateAclsRequest
from headgate.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from headgate.protocol.messages.create_partitions import CreatePartitionsRequest
from headgate.protocol.messages.create_topics import CreateTopicsRequest
from headgate.protocol.messages.delete_acls import DeleteAclsRequest
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest
from headgate.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from headgate.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from headgate.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from headgate.protocol.security.quotas import QuotaEntity
from headgate.protocol.security.sasl.scram_keys import ScramMechanism

AuditedChange = dict[str, object]
Describe = Callable[[Any, Any, Image, Image], Iterator[AuditedChange]]
"""(request, response, metadata before, metadata after) -> the changes."""


def _change(kind: str, name: str, before: object, after: object) -> AuditedChange:
    return {"resource_type": kind, "resource_name": short(name), "before": before, "after": after}


def created_acls(request: Any, response: Any, before: Image, _after: Image) -> Iterator[AuditedChange]:
    """The ACLs that were not there yet."""
    for creation, result in zip(request.creations, response.results, strict=True):
        binding = binding_of(creation)
        if not result.error_code and binding not in before.acls.ids:
            yield _change("ACL", str(binding.pattern), None, _rule(binding))


def deleted_acls(_request: Any, response: Any, _before: Image, _after: Image) -> Iterator[AuditedChange]:
    """The deleted ACLs, each once."""
    found = dict.fromkeys(
        AclBinding(
            AclResource(acl.resource_type),
            acl.resource_name,
            PatternType(acl.pattern_type),
            acl.principal,
            acl.host,
            AclOperation(acl.operation),
            AclPermission(acl.permission_type),
        )
        for result in response.filter_results
        if not result.error_code
        for acl in result.matching_acls
        if not acl.error_code
    )
    for binding in found:
        yield _change("ACL", str(binding.pattern), _rule(binding), None)


def _rule(binding: AclBinding) -> dict[str, str | None]:
    return {
        "principal": short(binding.principal),
        "permission": binding.permission.name,
        "operation": binding.operation.name,
        "host": short(binding.host),
    }


def altered_users(_request: Any, response: Any, before: Image, after: Image) -> Iterator[AuditedChange]:
    """The mechanisms of users, with their iterations alone: another password of the same mechanism is a change too."""
    for result in response.results:
        if not result.error_code:
            values = (_mechanisms(image, result.user) for image in (before, after))
            yield _change("USER", result.user, *values)


def _mechanisms(image: Image, user: str) -> dict[str, dict[str, int]] | None:
    return {
        ScramMechanism(mechanism).mechanism_name: {"iterations": credential.iterations}
        for mechanism, credential in sorted(image.scram_credentials.get(user, {}).items())
    } or None


def altered_quotas(request: Any, response: Any, before: Image, after: Image) -> Iterator[AuditedChange]:
    """The quotas of each altered entity."""
    for entry in () if request.validate_only else response.entries:
        if not entry.error_code:
            entity = QuotaEntity.of((part.entity_type, part.entity_name) for part in entry.entity)
            values = (dict(image.quotas.get(entity, {})) or None for image in (before, after))
            yield _change("QUOTA", entity.title, *values)


def altered_configs(request: Any, response: Any, before: Image, after: Image) -> Iterator[AuditedChange]:
    """The configs of each altered resource that are different now. Levels of loggers are no part of the metadata."""
    for row in () if request.validate_only else response.responses:
        old, new = (_configs(image, row.resource_type, row.resource_name) for image in (before, after))
        names = [] if row.error_code else [name for name in {**old, **new} if old.get(name) != new.get(name)]
        if names:
            kind = ResourceType(row.resource_type).name
            values = ({name: _shown(kind, name, configs.get(name)) for name in sorted(names)} for configs in (old, new))
            yield _change(kind, row.resource_name, *values)


def _configs(image: Image, resource_type: int, name: str) -> Mapping[str, str]:
    if resource_type == ResourceType.TOPIC:
        return image.topic_configs(name)
    kinds = {ResourceType.BROKER: BROKER_RESOURCE, ResourceType.GROUP: GROUP_RESOURCE}
    kind = next((number for known, number in kinds.items() if known == resource_type), -1)
    return image.configs.get((kind, name), {})


def _shown(kind: str, name: str, value: str | None) -> str | None:
    """A value, hidden if it is a secret, or if nothing is known of the setting."""
    if value is None or kind != ResourceType.BROKER.name:
        return short(value)
    definition = catalogue.find(name)
    return HIDDEN if definition is None or definition.is_sensitive else short(value)


def created_topics(request: Any, response: Any, _before: Image, _after: Image) -> Iterator[AuditedChange]:
    """The created topics, as they were asked for."""
    asked = {} if request.validate_only else {topic.name: topic for topic in request.topics}
    for row in response.topics:
        topic = asked.get(row.name)
        if topic is not None and not row.error_code:
            configs = {config.name: short(config.value) for config in topic.configs}
            after = {"partitions": topic.num_partitions, "replication_factor": topic.replication_factor}
            if topic.assignments:
                after = {
                    "partitions": len(topic.assignments),
                    "replication_factor": len(topic.assignments[0].broker_ids),
                }
            yield _change("TOPIC", row.name, None, {**after, "configs": configs})


def deleted_topics(_request: Any, response: Any, before: Image, _after: Image) -> Iterator[AuditedChange]:
    """The deleted topics."""
    for row in response.responses:
        topic = before.topics.get(row.name or before.topic_names.get(row.topic_id, ""))
        if topic is not None and not row.error_code:
            yield _change("TOPIC", topic.name, {"partitions": len(topic.partitions)}, None)


def created_partitions(request: Any, response: Any, before: Image, _after: Image) -> Iterator[AuditedChange]:
    """The new numbers of partitions."""
    asked = {} if request.validate_only else {topic.name: topic.count for topic in request.topics}
    for row in response.results:
        topic = before.topics.get(row.name)
        if row.name in asked and topic is not None and not row.error_code:
            yield _change("TOPIC", row.name, {"partitions": len(topic.partitions)}, {"partitions": asked[row.name]})


def changed_tokens(_request: Any, response: Any, before: Image, after: Image) -> Iterator[AuditedChange]:
    """The new token, or the one whose end has changed: a request names a token by its secret, which is not shown."""
    if response.error_code:
        return
    created = getattr(response, "token_id", None)
    for token_id in [created] if created else before.tokens:
        old, new = before.tokens.get(token_id), after.tokens.get(token_id)
        is_of_request = new is None or created or new.expiry_ms == response.expiry_timestamp_ms
        if old != new and is_of_request:
            yield _change("TOKEN", token_id, _token(old), _token(new))


def _token(token: DelegationToken | None) -> AuditedChange | None:
    if token is None:
        return None
    return {
        "owner": short(token.owner),
        "requester": short(token.requester),
        "renewers": [short(renewer) for renewer in token.renewers],
        "expires": time_text(token.expiry_ms),
        "max_lifetime": time_text(token.max_ms),
    }


CHANGES: Final[Mapping[int, Describe]] = {
    CreateAclsRequest.api_key: created_acls,
    DeleteAclsRequest.api_key: deleted_acls,
    AlterUserScramCredentialsRequest.api_key: altered_users,
    AlterClientQuotasRequest.api_key: altered_quotas,
    AlterConfigsRequest.api_key: altered_configs,
    IncrementalAlterConfigsRequest.api_key: altered_configs,
    CreateTopicsRequest.api_key: created_topics,
    DeleteTopicsRequest.api_key: deleted_topics,
    CreatePartitionsRequest.api_key: created_partitions,
    CreateDelegationTokenRequest.api_key: changed_tokens,
    RenewDelegationTokenRequest.api_key: changed_tokens,
    ExpireDelegationTokenRequest.api_key: changed_tokens,
}
"""By API key; the requests of other APIs are not reported."""
