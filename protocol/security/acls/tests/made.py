"""ACLs and clients for tests."""

from __future__ import annotations

from typing import NamedTuple

from headgate.protocol.acls import AclBinding, AclOperation, AclPermission, AclResource, PatternType

TOPIC, READ, WRITE = AclResource.TOPIC, AclOperation.READ, AclOperation.WRITE
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY


class Somebody(NamedTuple):
    """A client, as far as an authorizer sees it."""

    principal: str = "User:alice"
    remote_host: str = "10.0.0.1"
    listener: str = "PLAINTEXT"
    client_id: str | None = None


ALICE = Somebody()


def acl(
    name: str = "t",
    pattern_type: PatternType = LITERAL,
    *,
    principal: str = "User:alice",
    host: str = "*",
    operation: AclOperation = READ,
    permission: AclPermission = ALLOW,
    resource: AclResource = TOPIC,
) -> AclBinding:
    return AclBinding(resource, name, pattern_type, principal, host, operation, permission)
