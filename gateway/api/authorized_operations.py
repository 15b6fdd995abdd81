"""Bit fields of authorized operations (KIP-430): bit n is set where the client may do operation n.

Until somebody asks who a client is, everybody may do everything, as in Apache Kafka without an authorizer.
"""

# org.apache.kafka.common.acl.AclOperation
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = 3, 4, 5, 6, 7, 8
CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 9, 10, 11, 12

UNKNOWN = -0x8000_0000
"""What is answered where the client did not ask."""


def _field(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


# What there is to do with each kind of thing: org.apache.kafka.security.authorizer.AclEntry
CLUSTER = _field(CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE)
GROUP = _field(READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
TOPIC = _field(READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
