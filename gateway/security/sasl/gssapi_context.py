"""The security contexts of `gssapi` (the extra `kerberos`), with the key table and the principal of a JAAS line.

`gssapi` is imported at the first use. It has C code that a thread may wait in, without Python's lock.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from headgate.gateway.security.sasl.gssapi import GssContext, GssError
from headgate.protocol.security.sasl.jaas import InvalidJaasConfig

_MISSING: Final = "GSSAPI needs the extra `kerberos`: pip install 'headgate[kerberos]'"
_TRUE: Final = "true"
_DEFAULT_REALM: Final = re.compile(r"^\s*default_realm\s*=\s*(\S+)", re.MULTILINE)
# Kerberos' KRB_AP_ERR_REPEAT and KRB_AP_ERR_TKT_NYV, for which Kafka lets a client try again
_RETRIABLE_CODES: Final = frozenset((-1765328350, -1765328351))


def acceptor(options: Mapping[str, str]) -> Callable[[], GssContext]:
    """The function that makes contexts with the key table and the principal of a JAAS line.

    Raises InvalidJaasConfig for options without a key table, and without the extra `kerberos`. The key table is read
    when a client logs in: so a new one is used at once.
    """
    key_table, principal = options.get("keyTab"), options.get("principal")
    if options.get("useKeyTab", "").lower() != _TRUE or not key_table:
        raise InvalidJaasConfig('GSSAPI needs useKeyTab=true and keyTab="FILE" in its JAAS config')
    if not principal:
        raise InvalidJaasConfig('GSSAPI needs principal="SERVICE/HOST@REALM" in its JAAS config')
    try:
        library = importlib.import_module("gssapi")
    except ImportError as error:
        raise InvalidJaasConfig(_MISSING) from error
    path = key_table.removeprefix("file:")
    return lambda: _AcceptedContext(library, path, principal)


R = TypeVar("R")


class _AcceptedContext:
    """A security context of the library."""

    def __init__(self, library: Any, key_table: str, principal: str) -> None:
        self._errors = library.exceptions.GSSError
        kerberos = library.NameType.kerberos_principal
        self._context: Any = self._called(
            lambda: library.SecurityContext(
                creds=library.Credentials(
                    name=library.Name(principal, kerberos), usage="accept", store={"keytab": f"FILE:{key_table}"}
                ),
                usage="accept",
            )
        )

    @property
    def is_complete(self) -> bool:
        return bool(self._context.complete)

    @property
    def initiator_name(self) -> str:
        return str(self._called(lambda: self._context.initiator_name))

    def step(self, token: bytes) -> bytes | None:
        return self._called(lambda: cast("bytes | None", self._context.step(token)))

    def wrap(self, message: bytes) -> bytes:
        return bytes(self._called(lambda: self._context.wrap(message, encrypt=False)).message)

    def unwrap(self, message: bytes) -> bytes:
        return bytes(self._called(lambda: self._context.unwrap(message)).message)

    def _called(self, call: Callable[[], R]) -> R:
        try:
            return call()
        except self._errors as error:
            is_retriable = getattr(error, "min_code", 0) in _RETRIABLE_CODES
            raise GssError(f"Kerberos: {error}", is_retriable=is_retriable) from error


def default_realm() -> str:
    """The realm that Kerberos' configuration names; empty without one."""
    path = Path(os.environ.get("KRB5_CONFIG", "/etc/krb5.conf").partition(":")[0])
    try:
        found = _DEFAULT_REALM.search(path.read_text("utf-8", errors="replace"))
    except OSError:
        return ""
    return "" if found is None else found[1]
