"""The ACLs of each client of the scenario: a client's name says what it may do, and is the name of its principal.

none                    no ACL
topic-READ              one operation, on the resources of `GIVEN` with this type, and nothing else
but-topic-READ          everything, but this operation is denied on these resources
prefixed, elsewhere...  other forms of patterns and hosts, see `_forms`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headgate.protocol.acls import AclBinding, AclOperation, AclPermission, AclResource, PatternType

ADMIN, NONE, ALL = "admin", "none", "all"
HOST = "127.0.0.1"
"""The address of all clients."""
OTHER_HOST = "192.0.2.1"

GIVEN = {
    AclResource.TOPIC: ("t", "new", "doomed"),
    AclResource.GROUP: ("g", "k"),
    AclResource.CLUSTER: ("kafka-cluster",),
    AclResource.TRANSACTIONAL_ID: ("x",),
    AclResource.DELEGATION_TOKEN: ("*",),
    AclResource.USER: ("User:bob",),
}
"""The resources that ACLs of one operation name. Requests name others of each type too."""

_O = AclOperation
OPERATIONS = {
    AclResource.TOPIC: (
        *(_O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ),
    AclResource.GROUP: (_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    AclResource.CLUSTER: (
        *(_O.CREATE, _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
        _O.IDEMPOTENT_WRITE,
    ),
    AclResource.TRANSACTIONAL_ID: (_O.WRITE, _O.DESCRIBE),
    AclResource.DELEGATION_TOKEN: (_O.DESCRIBE,),
    AclResource.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}
"""The operations of each type, as Kafka's AclEntry has them for `kafka-acls`."""
_LITERAL, _PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
_ALLOW, _DENY = AclPermission.ALLOW, AclPermission.DENY
_NAMED = (AclResource.TOPIC, AclResource.GROUP, AclResource.TRANSACTIONAL_ID)


def acl_sets() -> dict[str, list[AclBinding]]:
    """The ACLs by client, in the order in which the clients ask; the super user ADMIN has none."""
    sets: dict[str, list[AclBinding]] = {NONE: []}
    for resource, operations in OPERATIONS.items():
        for operation in (*operations, _O.ALL):
            sets[_name(resource, operation)] = [*_given(resource, operation, NONE)]
    sets[ALL] = [*_everything()]
    for resource, operations in OPERATIONS.items():
        for operation in (*operations, _O.ALL):
            sets[f"but-{_name(resource, operation)}"] = [*_everything(), *_given(resource, operation, NONE, _DENY)]
    sets.update(_forms())
    return {name: [acl._replace(principal=f"User:{name}") for acl in acls] for name, acls in sets.items()}


def _name(resource: AclResource, operation: AclOperation) -> str:
    return f"{resource.name.lower().replace('_', '-')}-{operation.name}"


def _given(
    resource: AclResource, operation: AclOperation, principal: str, permission: AclPermission = _ALLOW
) -> Iterator[AclBinding]:
    for name in GIVEN[resource]:
        yield AclBinding(resource, name, _LITERAL, principal, "*", operation, permission)


def _of(
    names: Iterable[str],
    pattern: PatternType = _LITERAL,
    host: str = "*",
    permission: AclPermission = _ALLOW,
    operation: AclOperation = _O.ALL,
) -> Iterator[AclBinding]:
    """ACLs on topics, groups and transactional ids alike."""
    for name in names:
        for resource in _NAMED:
            yield AclBinding(resource, name, pattern, NONE, host, operation, permission)


def _everything() -> Iterator[AclBinding]:
    """Every operation on everything, but those that the cluster does not have: DELETE of it would be that of topics."""
    for resource, operations in OPERATIONS.items():
        is_cluster = resource is AclResource.CLUSTER
        for operation in operations if is_cluster else (_O.ALL,):
            name = GIVEN[resource][0] if is_cluster else "*"
            yield AclBinding(resource, name, _LITERAL, NONE, "*", operation, _ALLOW)


def _forms() -> dict[str, list[AclBinding]]:
    """Patterns and hosts. The names are those of GIVEN, their first letters, or longer ones."""
    given = ("t", "new", "doomed", "g", "k", "x")
    longer = ("t-", "new-", "doomed-", "g-", "k-", "x-")
    cluster = AclResource.CLUSTER, "kafka-cluster", _LITERAL, NONE
    everywhere = [*_everything()]
    return {
        "prefixed": [*_of(("t", "ne", "doo", "g", "k", "x"), _PREFIXED)],
        "longer-prefix": [*_of(longer, _PREFIXED)],
        "star": [*_of("*")],
        "prefixed-star": [*_of("*", _PREFIXED)],
        "host": [*_of(given, host=HOST), AclBinding(*cluster, HOST, _O.ALL, _ALLOW)],
        "other-host": [*_of(given, host=OTHER_HOST), AclBinding(*cluster, OTHER_HOST, _O.ALL, _ALLOW)],
        "but-prefixed": [*everywhere, *_of(("t", "ne", "doo", "g", "k", "x"), _PREFIXED, permission=_DENY)],
        "but-longer-prefix": [*everywhere, *_of(longer, _PREFIXED, permission=_DENY)],
        "but-star": [
            *everywhere,
            *_of("*", operation=_O.READ, permission=_DENY),
            *_of("*", operation=_O.WRITE, permission=_DENY),
        ],
        "but-host": [*everywhere, *_of(given, host=HOST, permission=_DENY)],
        "but-other-host": [*everywhere, *_of(given, host=OTHER_HOST, permission=_DENY)],
        "star-but-literal": [*_of("*"), *_of(given, operation=_O.DESCRIBE, permission=_DENY)],
    }
