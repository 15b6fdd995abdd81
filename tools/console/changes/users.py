"""Users of SCRAM: set a password, delete a user, on any broker since Kafka 2.7.

The password is a parameter alone: no summary, line, command or answer has it, and its salt is made when the change is.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from headgate.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from headgate.protocol.security.client_security import ClientSecurity
from headgate.protocol.security.sasl.scram_keys import DEFAULT_ITERATIONS, SCRAM_MECHANISMS, ScramMechanism
from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.changes.plan import ChangeLine, ChangePlan, ChangeResult
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.users import (
    DEFAULT_MECHANISM,
    alter_user,
    describe_users,
    encode_password,
    mechanism_name,
    new_credential,
    parse_iterations,
    removed_credential,
)

_READABLE: Final = (
    "the connection to the broker is not encrypted: who reads it learns the salted password, and may log in with it;"
    " give the console a listener with TLS"
)
_OWN_LOGIN: Final = "it is your own login: log in again with the new password"
_OWN_REMOVAL: Final = "it is your own login: you cannot log in again"
_NO_NEW_LOGIN: Final = "no new login by {} succeeds; open connections stay, and so do the ACLs and quotas of the user"


def set_user(cluster: Cluster, parameters: Parameters) -> ChangePlan:
    """Set the password of a user, new or known.

    Parameters: `user`, `password`, `password_again` (may be missing), `mechanism` (several; default: SCRAM-SHA-512),
    `iterations`. Raises BadParameter, UsageError, ClientError.
    """
    user = _user(parameters)
    text = parameters.text("password")
    if parameters.text("password_again", text) != text:
        raise BadParameter("the two passwords differ; nothing was changed")
    password = encode_password(text)
    iterations = _iterations(parameters)
    mechanisms = _mechanisms(parameters) or [SCRAM_MECHANISMS[DEFAULT_MECHANISM]]
    known = describe_users(cluster)[0].get(user, {})
    lines = [
        ChangeLine(
            f"{user} {mechanism.mechanism_name}",
            _credential(known.get(mechanism)),
            f"{_credential(iterations)}, the new password",
        )
        for mechanism in mechanisms
    ]
    names = [mechanism.mechanism_name for mechanism in mechanisms]
    return ChangePlan(
        f"{'Set the password of' if known else 'Add'} the user {user} with {', '.join(names)}",
        lines,
        lambda cluster: _alter(
            cluster,
            user,
            {each.mechanism_name: new_credential(user, each, password, iterations) for each in mechanisms},
            "The password of {} is set",
        ),
        warnings=[*_readable(cluster.security), *_if_own(cluster.security, user, mechanisms, _OWN_LOGIN)],
        command=_add_command(user, names, iterations),
    )


def delete_user(cluster: Cluster, parameters: Parameters) -> ChangePlan:
    """Delete a user, or some mechanisms. Parameters: `user`, `mechanism` (several; default: all).

    Raises BadParameter, ClientError.
    """
    user = _user(parameters)
    known = describe_users(cluster)[0].get(user, {})
    wanted: Sequence[int] = _mechanisms(parameters) or sorted(known)
    there = [mechanism for mechanism in wanted if mechanism in known]
    missing = [mechanism_name(mechanism) for mechanism in wanted if mechanism not in known]
    options = [word for mechanism in there for word in ("--mechanism", mechanism_name(mechanism))]
    names = ", ".join(mechanism_name(mechanism) for mechanism in there)
    return ChangePlan(
        f"Delete the user {user}" if len(there) == len(known) else f"Delete {names} of the user {user}",
        [ChangeLine(f"{user} {mechanism_name(each)}", _credential(known[each])) for each in there],
        lambda cluster: _alter(
            cluster,
            user,
            {mechanism_name(each): removed_credential(user, each) for each in there},
            "The user {} is deleted",
        ),
        problems=[*_unknown(user, known), *(f"{user} has no {name}" for name in missing if known)],
        warnings=[_NO_NEW_LOGIN.format(names), *_if_own(cluster.security, user, there, _OWN_REMOVAL)],
        command=shlex.join(["headgate", "users", "remove", user, *options]),
        confirmation=user,
    )


def _unknown(user: str, known: dict[int, int]) -> list[str]:
    return [] if known else [f"no user {user} logs in by SCRAM"]


def _user(parameters: Parameters) -> str:
    """Raises BadParameter."""
    user = parameters.text("user")
    if not user or user != user.strip():
        raise BadParameter("user: write the name, without blanks around it")
    return user


def _mechanisms(parameters: Parameters) -> list[ScramMechanism]:
    """Raises BadParameter."""
    names = parameters.texts("mechanism")
    for name in names:
        if name not in SCRAM_MECHANISMS:
            raise BadParameter(f"mechanism={name[:40]} is none of {', '.join(sorted(SCRAM_MECHANISMS))}")
    return [SCRAM_MECHANISMS[name] for name in names]


def _iterations(parameters: Parameters) -> int:
    """Raises BadParameter."""
    try:
        return parse_iterations(parameters.text("iterations", "") or str(DEFAULT_ITERATIONS))
    except argparse.ArgumentTypeError as error:
        raise BadParameter(f"iterations: {error}") from None


def _credential(iterations: int | None) -> str | None:
    return None if iterations is None else f"{iterations} iterations"


def _add_command(user: str, mechanisms: Sequence[str], iterations: int) -> str:
    """The command that asks for the password."""
    options = [word for name in mechanisms for word in ("--mechanism", name)]
    return shlex.join(["headgate", "users", "add", user, *options, "--iterations", str(iterations)])


def _alter(
    cluster: Cluster, user: str, requests: Mapping[str, AlterUserScramCredentialsRequest], sentence: str
) -> ChangeResult:
    """Make the changes by mechanism: a request may name a user once."""
    done, failures = list[str](), list[str]()
    for name, request in requests.items():
        try:
            alter_user(cluster, request)
        except ClientError as error:
            failures.append(f"{user} {name}: {error}")
        else:
            done.append(f"{sentence.format(user)}: {name}")
    return ChangeResult(done, failures)


def _readable(security: ClientSecurity) -> list[str]:
    return [] if security.has_tls else [_READABLE]


def _if_own(security: ClientSecurity, user: str, mechanisms: Collection[int], sentence: str) -> list[str]:
    """The sentence, if the visitor has logged in as this user by one of the mechanisms."""
    mechanism = SCRAM_MECHANISMS.get(security.mechanism)
    is_own = mechanism in mechanisms and security.password is not None and security.password[0] == user
    return [sentence] if is_own else []
