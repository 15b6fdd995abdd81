"""The ACLs of the cluster at one moment, and the next ones after metadata records. Source: Kafka's AclsImage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple

from headgate.protocol.acls import AclBinding, AclOperation, AclPermission, AclResource, PatternType
from headgate.protocol.internal.metadata import AccessControlEntryRecord
from headgate.protocol.security.acls.index import AclIndex


class AclsImage(NamedTuple):
    """All ACLs, by id and by what a request asks for. An image never changes: code may compare it by identity."""

    by_id: Mapping[bytes, AclBinding]
    ids: Mapping[AclBinding, bytes]
    acl_index: AclIndex


NO_ACLS = AclsImage({}, {}, AclIndex.empty())


class AclsDraft:
    """The next image of ACLs, while records are applied."""

    def __init__(self, image: AclsImage) -> None:
        self._image = image
        self._by_id = dict(image.by_id)
        self._ids = dict(image.ids)
        self._changed: dict[AclBinding, None] = {}

    def add(self, acl_id: bytes, binding: AclBinding) -> None:
        """Add an ACL, unless it is there: others may have been faster. Raises ValueError for the id of another ACL."""
        if self._by_id.get(acl_id, binding) != binding:
            raise ValueError(f"the id {acl_id.hex()} of {binding} is that of {self._by_id[acl_id]}")
        if binding in self._ids:
            return
        self._by_id[acl_id] = binding
        self._ids[binding] = acl_id
        self._changed[binding] = None

    def remove(self, acl_id: bytes) -> None:
        """Remove an ACL, unless it is gone: others may have been faster."""
        binding = self._by_id.pop(acl_id, None)
        if binding is not None:
            del self._ids[binding]
            self._changed[binding] = None

    def finish(self) -> AclsImage:
        """The image after all records."""
        before = self._image.ids
        removed = [binding for binding in self._changed if binding in before and binding not in self._ids]
        added = [binding for binding in self._changed if binding in self._ids and binding not in before]
        return AclsImage(self._by_id, self._ids, self._image.acl_index.changed(removed, added))


def acl_id_of(binding: AclBinding) -> bytes:
    """The id of a new ACL: equal ACLs have equal ids, so that brokers of a cluster agree. Kafka takes any UUID."""
    numbers = binding.resource_type, binding.pattern_type, binding.operation, binding.permission
    parts = [*(str(int(number)) for number in numbers), binding.resource_name, binding.principal, binding.host]
    made = bytearray(sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()[:16])
    made[6] = made[6] & 0x0F | 0x80  # version 8 of RFC 9562
    made[8] = made[8] & 0x3F | 0x80
    return bytes(made)


def image_of(bindings: Iterable[AclBinding]) -> AclsImage:
    """The image of these ACLs alone."""
    draft = AclsDraft(NO_ACLS)
    for binding in bindings:
        draft.add(acl_id_of(binding), binding)
    return draft.finish()


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


def record_of(binding: AclBinding, acl_id: bytes) -> AccessControlEntryRecord:
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
