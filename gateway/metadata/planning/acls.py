"""Plans that create and delete ACLs. Pure: an image in, records out.

Refusals have the sentences of AclControlManager and AclApis of Apache Kafka 4.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headgate.gateway.metadata.image import Image
from headgate.gateway.security.acls.acls_image import AclsImage, acl_id_of, binding_of, record_of
from headgate.protocol.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResource,
    PatternType,
)
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import AccessControlEntryRecord, MetadataRecord, RemoveAccessControlEntryRecord
from headgate.protocol.security.acls import hosts
from headgate.protocol.steps import Steps

MAX_CHANGES = 10_000
"""The limit of Kafka's controller for one request."""
_TESTED_A_STEP = 1000
_LINES = 20


def check_new(binding: AclBinding) -> None:
    """Check a new ACL. Raises KafkaError(INVALID_REQUEST)."""
    if binding.resource_type is AclResource.CLUSTER and binding.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not binding.resource_name:
        raise _invalid("Invalid empty resource name")
    if binding.resource_type in (AclResource.UNKNOWN, AclResource.ANY):
        raise _invalid(f"Invalid resourceType {binding.resource_type.name}")
    if binding.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {binding.pattern_type.name}")
    if binding.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        raise _invalid(f"Invalid operation {binding.operation.name}")
    if binding.permission not in (AclPermission.DENY, AclPermission.ALLOW):
        raise _invalid(f"Invalid permissionType {binding.permission.name}")
    if ":" not in binding.principal:
        raise _invalid(
            f"Could not parse principal from `{binding.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )
    problem = hosts.problem(binding.host)
    if problem is not None:
        raise _invalid(problem)


def check_filter(wanted: AclFilter) -> None:
    """Check the filter of a deletion. Raises KafkaError(INVALID_REQUEST)."""
    if wanted.resource_type is AclResource.UNKNOWN or wanted.pattern_type is PatternType.UNKNOWN:
        raise _invalid("Unknown patternFilter.")
    if wanted.operation is AclOperation.UNKNOWN or wanted.permission is AclPermission.UNKNOWN:
        raise _invalid("Unknown entryFilter.")


def create_acls(image: Image, bindings: Iterable[AclBinding]) -> list[MetadataRecord]:
    """The records that create checked ACLs; those that exist need none. Raises KafkaError(POLICY_VIOLATION)."""
    new = [binding for binding in dict.fromkeys(bindings) if binding not in image.acls.ids]
    return _checked([record_of(binding, acl_id_of(binding)) for binding in new])


def delete_acls(image: Image, bindings: Iterable[AclBinding]) -> list[MetadataRecord]:
    """The records that delete ACLs; those that are gone need none. Raises KafkaError(POLICY_VIOLATION)."""
    ids = (image.acls.ids.get(binding) for binding in dict.fromkeys(bindings))
    return _checked([RemoveAccessControlEntryRecord(acl_id) for acl_id in ids if acl_id is not None])


def _checked(records: list[MetadataRecord]) -> list[MetadataRecord]:
    if len(records) > MAX_CHANGES:
        sentence = "Unable to perform excessively large batch operation."
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{sentence} A request may change {MAX_CHANGES} ACLs")
    return records


def log_lines(records: Sequence[MetadataRecord], old: Image) -> Iterator[str]:
    """The log lines of changed ACLs: each, or of many their number."""
    created = [binding_of(record) for record in records if isinstance(record, AccessControlEntryRecord)]
    deleted = [old.acls.by_id[record.id] for record in records if isinstance(record, RemoveAccessControlEntryRecord)]
    for done, bindings in (("created", created), ("deleted", deleted)):
        if len(bindings) > _LINES:
            yield f"{done} {len(bindings)} ACLs"
        else:
            yield from (f"{done} ACL: {binding}" for binding in bindings)


def matching(acls: AclsImage, wanted: AclFilter) -> Steps[Sequence[AclBinding]]:
    """The ACLs that a filter means, in steps."""
    found = []
    for number, binding in enumerate(acls.ids, 1):
        if wanted.matches(binding):
            found.append(binding)
        if not number % _TESTED_A_STEP:
            yield
    return found


def _invalid(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, sentence)
