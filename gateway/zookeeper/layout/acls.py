"""`/kafka-acl` and `/kafka-acl-extended`: the ACLs of each resource pattern, and the notifications of changes.

A node has all ACLs of one pattern: literal ones by type and name below `/kafka-acl`, prefixed ones below
`/kafka-acl-extended/prefixed`. A pattern without ACLs has no node. Source: ZkData.scala and AclEntry of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Self

from headgate.gateway.zookeeper.layout.node import (
    InvalidNode,
    NodeFields,
    child_path,
    decode_fields,
    decode_text,
    encode_object,
    shown,
)
from headgate.protocol.acls import AclBinding, AclOperation, AclPermission, AclResource, PatternType, ResourcePattern

ACL_PATH: Final = "/kafka-acl"
EXTENDED_ACL_PATH: Final = "/kafka-acl-extended/prefixed"
ACL_CHANGES_PATH: Final = "/kafka-acl-changes"
EXTENDED_ACL_CHANGES_PATH: Final = "/kafka-acl-extended-changes"
ACL_CHANGE_PREFIX: Final = "acl_changes_"
CHANGES_PATHS: Final = (ACL_CHANGES_PATH, EXTENDED_ACL_CHANGES_PATH)
_STORES: Final = {PatternType.LITERAL: ACL_PATH, PatternType.PREFIXED: EXTENDED_ACL_PATH}


def _names(members: Iterable[Any]) -> dict[str, Any]:
    """Kafka's names in ZooKeeper, such as TransactionalId."""
    return {member.name.title().replace("_", ""): member for member in members if member.name not in ("UNKNOWN", "ANY")}


_RESOURCES: Final[Mapping[str, AclResource]] = _names(AclResource)
_OPERATIONS: Final[Mapping[str, AclOperation]] = _names(AclOperation)
_PERMISSIONS: Final[Mapping[str, AclPermission]] = _names(AclPermission)
_NAME_OF: Final = {member: name for name, member in _RESOURCES.items()}
_NAME_OF_OPERATION: Final = {member: name for name, member in _OPERATIONS.items()}
_NAME_OF_PERMISSION: Final = {member: name for name, member in _PERMISSIONS.items()}

TYPE_PATHS: Final = tuple(f"{store}/{name}" for store in _STORES.values() for name in _RESOURCES)
"""The parents of the nodes with ACLs, which a broker with an authorizer creates."""


def acl_path(pattern: ResourcePattern) -> str:
    """The path of a pattern's node. Raises InvalidNode for a name that ZooKeeper cannot have."""
    return child_path(f"{_STORES[pattern.pattern_type]}/{_NAME_OF[pattern.resource_type]}", pattern.name)


def pattern_of(path: str) -> ResourcePattern | None:
    """The pattern of a path; None for a path of anything else."""
    for pattern_type, store in _STORES.items():
        resource, slash, name = path.removeprefix(f"{store}/").partition("/")
        if path.startswith(f"{store}/") and slash and name and "/" not in name and resource in _RESOURCES:
            return ResourcePattern(_RESOURCES[resource], name, pattern_type)
    return None


class AclNode(NamedTuple):
    """The ACLs of one pattern. `unknown`: entries with operations of a newer Kafka, which stay in the node."""

    bindings: tuple[AclBinding, ...]
    unknown: tuple[Mapping[str, Any], ...] = ()

    def encode(self) -> bytes:
        return encode_object({"acls": [*map(_entry, self.bindings), *self.unknown], "version": 1})

    @classmethod
    def decode(cls, pattern: ResourcePattern, data: bytes | None) -> Self:
        """Raises InvalidNode. A node without data has no ACLs."""
        if not data:
            return cls(())
        fields = decode_fields(acl_path(pattern), data)
        fields.integer("version", low=1, high=1)
        known, unknown = dict[AclBinding, None](), list[Mapping[str, Any]]()
        for entry in fields.objects("acls"):
            binding = _binding(pattern, entry)
            if binding is None:
                unknown.append(_raw(entry))
            else:
                known[binding] = None
        return cls((*known,), (*unknown,))


def _entry(binding: AclBinding) -> dict[str, str]:
    """An entry, in the order in which Kafka's HashMap has the names."""
    return {
        "principal": binding.principal,
        "permissionType": _NAME_OF_PERMISSION[binding.permission],
        "host": binding.host,
        "operation": _NAME_OF_OPERATION[binding.operation],
    }


def _raw(entry: NodeFields) -> dict[str, str]:
    return {name: entry.text(name) for name in ("principal", "permissionType", "host", "operation")}


def _binding(pattern: ResourcePattern, entry: NodeFields) -> AclBinding | None:
    principal, host = entry.text("principal"), entry.text("host")
    if ":" not in principal:
        entry.fail(f"`principal` {shown(principal)} has no type")
    operation = _OPERATIONS.get(entry.text("operation"))
    permission = _PERMISSIONS.get(entry.text("permissionType"))
    if operation is None or permission is None:
        return None
    return AclBinding(pattern.resource_type, pattern.name, pattern.pattern_type, principal, host, operation, permission)


class AclChange(NamedTuple):
    """A notification of changed ACLs of this pattern. The node is sequential; brokers delete it later."""

    pattern: ResourcePattern

    def path(self) -> str:
        """ZooKeeper appends the number."""
        is_literal = self.pattern.pattern_type is PatternType.LITERAL
        return f"{ACL_CHANGES_PATH if is_literal else EXTENDED_ACL_CHANGES_PATH}/{ACL_CHANGE_PREFIX}"

    def encode(self) -> bytes:
        resource_type, name, pattern_type = self.pattern
        if pattern_type is PatternType.LITERAL:
            return f"{resource_type.name}:{name}".encode()
        return encode_object(
            {"version": 1, "resourceType": resource_type.name, "name": name, "patternType": pattern_type.name}
        )

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """Text of a literal pattern, JSON of any other. Raises InvalidNode."""
        if path.startswith(f"{EXTENDED_ACL_CHANGES_PATH}/"):
            fields = decode_fields(path, data)
            fields.integer("version", low=1, high=1)
            resource, name = fields.text("resourceType"), fields.text("name")
            pattern_type = _STORED.get(fields.text("patternType").upper())
        else:
            resource, _, name = decode_text(path, data).partition(":")
            pattern_type = PatternType.LITERAL
        # Old versions wrote Topic:name, and all read any case
        resource_type = _TYPES.get(resource.upper().replace("_", ""))
        if resource_type is None or pattern_type is None or not name:
            raise InvalidNode(path, f"{shown(data or b'')} names no resource pattern")
        return cls(ResourcePattern(resource_type, name, pattern_type))


_STORED: Final = {pattern_type.name: pattern_type for pattern_type in _STORES}
_TYPES: Final = {name.upper(): member for name, member in _RESOURCES.items()}


def by_pattern(bindings: Iterable[AclBinding]) -> dict[ResourcePattern, list[AclBinding]]:
    """ACLs by the pattern whose node has them."""
    found: dict[ResourcePattern, list[AclBinding]] = {}
    for binding in bindings:
        found.setdefault(binding.pattern, []).append(binding)
    return found
