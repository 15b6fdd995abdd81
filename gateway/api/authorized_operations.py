"""Bit fields of authorized operations (KIP-430): bit n is set if the client may do operation n.

Without an authorizer, clients may do everything, as in Apache Kafka. With one, the rules of the APIs limit these
fields.
"""

from headgate.gateway.api.authorization import AclOperation

UNKNOWN = -0x8000_0000
"""The field for a client that did not ask."""


def _field(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


# The operations of each type of resource: org.apache.kafka.security.authorizer.AclEntry
CLUSTER = _field(
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)
GROUP = _field(
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
TOPIC = _field(
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
