"""The ACLs of the cluster at one moment, and the next ones after metadata records. Source: Kafka's AclsImage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from headgate.gateway.security.acls.index import AclIndex
from headgate.protocol.acls import AclBinding, AclOperation, AclPermission, AclResource, PatternType
from headgate.protocol.internal.metadata import AccessControlEntryRecord


class AclsImage(NamedTuple):
    """All ACLs, by id and by what a request asks for. An image never changes: code may compare it by identity."""

    by_id: Mapping[bytes, AclBinding]
    ids: Mapping[AclBinding, bytes]
    index: AclIndex


NO_ACLS = AclsImage({}, {}, AclIndex.empty())


class AclsDraft:
    """The next image of ACLs, while records are applied."""

    def __init__(self, image: AclsImage) -> None:
        self._image = image
        self._by_id = dict(image.by_id)
        self._ids = dict(image.ids)
        self._changed: dict[AclBinding, None] = {}

    def add(self, acl_id: bytes, binding: AclBinding) -> None:
        """Add an ACL. Raises ValueError if the id or the binding is there already."""
        if acl_id in self._by_id or binding in self._ids:
            raise ValueError(f"the ACL {acl_id.hex()} exists already: {binding}")
        self._by_id[acl_id] = binding
        self._ids[binding] = acl_id
        self._changed[binding] = None

    def remove(self, acl_id: bytes) -> None:
        """Remove an ACL. Raises ValueError for an unknown id."""
        binding = self._by_id.pop(acl_id, None)
        if binding is None:
            raise ValueError(f"no ACL has the id {acl_id.hex()}")
        del self._ids[binding]
        self._changed[binding] = None

    def finish(self) -> AclsImage:
        """The image after all records."""
        before = self._image.ids
        removed = [binding for binding in self._changed if binding in before and binding not in self._ids]
        added = [binding for binding in self._changed if binding in self._ids and binding not in before]
        return AclsImage(self._by_id, self._ids, self._image.index.changed(removed, added))


def binding_of(record: AccessControlEntryRecord) -> AclBinding:
    """The ACL of a record. Numbers that are unknown here become UNKNOWN, and such an ACL decides nothing."""
    return AclBinding(
        AclResource(record.resource_type),
        record.resource_name,
        PatternType(record.pattern_type),
        record.principal,
        record.host,
        AclOperation(record.operation),
        AclPermission(record.permission_type),
    )


def record_of(acl_id: bytes, binding: AclBinding) -> AccessControlEntryRecord:
    """The record of an ACL."""
    return AccessControlEntryRecord(
        acl_id,
        int(binding.resource_type),
        binding.resource_name,
        int(binding.pattern_type),
        binding.principal,
        binding.host,
        int(binding.operation),
        int(binding.permission),
    )
