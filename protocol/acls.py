"""ACLs as values: bindings, filters, and the numbers that stand for their parts on the wire and in metadata records.

A binding allows or denies a principal one operation, from one host, on the resources that a pattern names. Source:
org.apache.kafka.common.acl and org.apache.kafka.common.resource of Apache Kafka 4.1; KIP-11, KIP-290, KIP-373.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

WILDCARD = "*"
"""The name of every resource, as a literal pattern; the host that stands for all hosts."""
WILDCARD_PRINCIPAL = "User:*"
ANONYMOUS = "User:ANONYMOUS"
"""The principal of a client that has not logged in."""
CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


class _Code(IntEnum):
    """A number that a newer client may use with a meaning that is unknown here: such a number is UNKNOWN."""

    @classmethod
    def _missing_(cls, value: object) -> Any:
        return cls(0) if value else None


class AclOperation(_Code):
    """An operation on a resource. Source: org.apache.kafka.common.acl.AclOperation."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclResource(_Code):
    """The type of a resource. Source: org.apache.kafka.common.resource.ResourceType."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """The meaning of a pattern's name. ANY and MATCH are for filters. Source: org.apache.kafka...PatternType (KIP-290).

    MATCH: all patterns that a resource of that name has, prefixed and wildcard ones too.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclPermission(_Code):
    """Whether a binding allows or denies. Source: org.apache.kafka.common.acl.AclPermissionType."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ResourcePattern(NamedTuple):
    """The resources of one type that have a name, or begin with the name."""

    resource_type: AclResource
    name: str
    pattern_type: PatternType

    def __str__(self) -> str:
        return f"{self.resource_type.name}:{self.pattern_type.name}:{self.name}"


class AclBinding(NamedTuple):
    """An access rule. `principal`: type and name, as in "User:alice". `host`: an address, "*", or a CIDR (KIP-1276)."""

    resource_type: AclResource
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    @property
    def pattern(self) -> ResourcePattern:
        return ResourcePattern(self.resource_type, self.resource_name, self.pattern_type)

    @property
    def is_unknown(self) -> bool:
        """Whether a part has a meaning that only newer versions know: such an ACL decides nothing here."""
        return 0 in (self.resource_type, self.pattern_type, self.operation, self.permission)

    def __str__(self) -> str:
        return f"{self.permission.name} {self.operation.name} on {self.pattern} to {self.principal} from {self.host}"


class AclFilter(NamedTuple):
    """The bindings that a request means. None matches any name, principal or host.

    Source: AclBindingFilter, ResourcePatternFilter and AccessControlEntryFilter of Apache Kafka.
    """

    resource_type: AclResource
    resource_name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: AclOperation
    permission: AclPermission

    def matches(self, binding: AclBinding) -> bool:
        return (
            self.principal in (None, binding.principal)
            and self.host in (None, binding.host)
            and self.operation in (AclOperation.ANY, binding.operation)
            and self.permission in (AclPermission.ANY, binding.permission)
            and self.matches_pattern(binding)
        )

    def matches_pattern(self, binding: AclBinding) -> bool:
        """Whether the filter means the binding's resources."""
        if self.resource_type not in (AclResource.ANY, binding.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, binding.pattern_type):
            return False
        name, own = self.resource_name, binding.resource_name
        if name is None or name == own:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return False
        return own == WILDCARD if binding.pattern_type is PatternType.LITERAL else name.startswith(own)
