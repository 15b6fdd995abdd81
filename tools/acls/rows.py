"""Rules as rows of output, as JSON lines of a file, and as the command lines that add them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

from headgate.protocol.acls import WILDCARD, AclBinding, AclOperation, AclPermission, AclResource, PatternType
from headgate.tools.output import Row, UsageError

E = TypeVar("E", bound=IntEnum)

RESOURCE_OPTIONS: Mapping[AclResource, str] = {
    AclResource.TOPIC: "--topic",
    AclResource.GROUP: "--group",
    AclResource.CLUSTER: "--cluster",
    AclResource.TRANSACTIONAL_ID: "--transactional-id",
    AclResource.DELEGATION_TOKEN: "--delegation-token",
    AclResource.USER: "--user-principal",
}
"""The options that name resources; those of `kafka-acls` too."""

_ADD, _REMOVE, _KAFKA_ADD = "headgate acls add", "headgate acls remove", "kafka-acls --add"


def row_of(binding: AclBinding) -> Row:
    """A rule with the names of Kafka's constants."""
    return {
        "principal": binding.principal,
        "permission": binding.permission.name,
        "operation": binding.operation.name,
        "resource_type": binding.resource_type.name,
        "resource_name": binding.resource_name,
        "pattern_type": binding.pattern_type.name,
        "host": binding.host,
    }


def sort_key(binding: AclBinding) -> tuple[Any, ...]:
    """The order of output: by resource, then by principal."""
    resource = binding.resource_type, binding.resource_name, binding.pattern_type
    return (*resource, binding.principal, binding.host, binding.permission, binding.operation)


def binding_of(row: Mapping[str, Any]) -> AclBinding:
    """The rule of a row; `host` may be missing, as may `permission` and `pattern_type`. Raises UsageError."""
    texts = {name: row.get(name, default) for name, default in _DEFAULTS.items()}
    unknown = sorted(set(row) - set(_DEFAULTS))
    if unknown:
        raise UsageError(f"{unknown[0]!r} is no field of an ACL; they are {', '.join(_DEFAULTS)}")
    for name, text in texts.items():
        if not isinstance(text, str) or not text:
            raise UsageError(f"the field {name!r} is missing, or no text")
    return AclBinding(
        constant(AclResource, texts["resource_type"]),
        texts["resource_name"],
        constant(PatternType, texts["pattern_type"]),
        texts["principal"],
        texts["host"],
        constant(AclOperation, texts["operation"]),
        constant(AclPermission, texts["permission"]),
    )


_DEFAULTS: Mapping[str, str | None] = {
    "principal": None,
    "permission": "ALLOW",
    "operation": None,
    "resource_type": None,
    "resource_name": None,
    "pattern_type": "LITERAL",
    "host": WILDCARD,
}


def constant(kind: type[E], text: str) -> E:
    """The constant of a name in any case, with or without underscores: `IdempotentWrite`. Raises UsageError."""
    wanted = _plain(text)
    for member in kind:
        if _plain(member.name) == wanted and member.name not in ("UNKNOWN", "ANY", "MATCH"):
            return member
    names = ", ".join(member.name for member in kind if member.name not in ("UNKNOWN", "ANY", "MATCH"))
    raise UsageError(f"{text!r} is none of {names}")


def _plain(text: str) -> str:
    return text.replace("_", "").replace("-", "").lower()


def read_file(path: str) -> list[AclBinding]:
    """The rules of a file that `list --json` or `suggest --json` has printed. Raises UsageError."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text in UTF-8; it needs the lines of `headgate acls list --json`") from None
    return [_of_line(line, number, path) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def _of_line(line: str, number: int, path: str) -> AclBinding:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise UsageError(f"{path}, line {number}: it is no JSON object, as `headgate acls list --json` prints them")
    try:
        return binding_of(row)
    except UsageError as error:
        raise UsageError(f"{path}, line {number}: {error}") from None


# -------------------------------------------------------------------------------------------------------- command lines


def command_lines(bindings: Iterable[AclBinding]) -> list[str]:
    """Lines of `headgate acls add` that add these rules, one for each principal, host and resource."""
    return [_line(_ADD, *group) for group in _groups(bindings)]


def removal_lines(bindings: Iterable[AclBinding]) -> list[str]:
    """Lines of `headgate acls remove`, each of which removes exactly one of these rules."""
    return [_removal(binding) for binding in bindings]


def _removal(binding: AclBinding) -> str:
    permission, operation = binding.permission.name.lower(), _operation(binding.operation)
    names = f"--principal {quote(binding.principal)} --permission {permission} --host {quote(binding.host)}"
    return f"{_REMOVE} {names} --operation {operation} {_resource(binding)}"


def kafka_command_lines(bindings: Iterable[AclBinding], bootstrap: str) -> list[str]:
    """Lines of Kafka's `kafka-acls` that add these rules."""
    return [_kafka_line(f"{_KAFKA_ADD} --bootstrap-server {quote(bootstrap)}", *group) for group in _groups(bindings)]


def _groups(bindings: Iterable[AclBinding]) -> list[tuple[AclBinding, Sequence[AclOperation]]]:
    """Rules that differ in their operation alone: one of them, and all operations."""
    groups: dict[AclBinding, list[AclOperation]] = {}
    for binding in bindings:
        groups.setdefault(binding._replace(operation=AclOperation.ANY), []).append(binding.operation)
    return [*groups.items()]


def _line(command: str, binding: AclBinding, operations: Sequence[AclOperation]) -> str:
    deny = " --deny" if binding.permission is AclPermission.DENY else ""
    host = "" if binding.host == WILDCARD else f" --host {quote(binding.host)}"
    names = " ".join(f"--operation {_operation(operation)}" for operation in operations)
    return f"{command} --principal {quote(binding.principal)}{deny}{host} {names} {_resource(binding)}"


def _kafka_line(command: str, binding: AclBinding, operations: Sequence[AclOperation]) -> str:
    kind = binding.permission.name.lower()
    host = "" if binding.host == WILDCARD else f" --{kind}-host {quote(binding.host)}"
    names = " ".join(f"--operation {_operation(operation)}" for operation in operations)
    return f"{command} --{kind}-principal {quote(binding.principal)}{host} {names} {_resource(binding)}"


def _resource(binding: AclBinding) -> str:
    option = RESOURCE_OPTIONS.get(binding.resource_type, f"--{binding.resource_type.name.lower()}")
    if binding.resource_type is AclResource.CLUSTER:
        return option
    prefixed = " --resource-pattern-type prefixed" if binding.pattern_type is PatternType.PREFIXED else ""
    return f"{option} {quote(binding.resource_name)}{prefixed}"


def _operation(operation: AclOperation) -> str:
    """The name as Kafka's tools write it: IdempotentWrite."""
    return "".join(word.capitalize() for word in operation.name.split("_"))
