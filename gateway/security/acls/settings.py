"""The settings of the authorizer: its class by Kafka's names or as a Python class, and the super users."""

from __future__ import annotations

ACL_AUTHORIZERS = ("kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer")
"""Kafka's authorizers with ZooKeeper. Here they read the same ACLs as StandardAuthorizer."""
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PYTHON_PREFIX = "python:"


def check_class_name(text: str) -> None:
    """Check `authorizer.class.name`. Raises ValueError."""
    if text in ("", STANDARD_AUTHORIZER, *ACL_AUTHORIZERS):
        return
    if not text.startswith(PYTHON_PREFIX):
        raise ValueError(
            f"classes of Java are not loaded; allowed are {STANDARD_AUTHORIZER}, {' and '.join(ACL_AUTHORIZERS)}, and "
            "python:module:Class for a class in Python"
        )
    python_class(text)


def python_class(text: str) -> tuple[str, str]:
    """The module and the class of `python:module:Class`. Raises ValueError."""
    module, colon, name = text.removeprefix(PYTHON_PREFIX).partition(":")
    if not colon or not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise ValueError("a class in Python is written as python:module:Class, as in python:company.kafka:Authorizer")
    return module, name


def parse_super_users(text: str) -> frozenset[str]:
    """The principals of `super.users`, separated by semicolons. Raises ValueError."""
    principals = [part.strip() for part in text.split(";") if part.strip()]
    for principal in principals:
        if ":" not in principal:
            raise ValueError(
                f"expected a string in format principalType:principalName but got {principal}; a user is written as "
                "User:alice, several are separated by semicolons"
            )
    return frozenset(principals)
