"""The acceptor's security contexts of `gssapi`, with the key table and the principal of a JAAS line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from headgate.gateway.security.sasl.gssapi import GssContext
from headgate.protocol.security.sasl.gssapi_library import LibraryContext, load
from headgate.protocol.security.sasl.jaas import InvalidJaasConfig

_TRUE: Final = "true"
_DEFAULT_REALM: Final = re.compile(r"^\s*default_realm\s*=\s*(\S+)", re.MULTILINE)


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
    library, path = load(), key_table.removeprefix("file:")
    return lambda: LibraryContext(library, lambda: _new_context(library, path, principal))


def _new_context(library: Any, key_table: str, principal: str) -> object:
    kerberos = library.NameType.kerberos_principal
    return library.SecurityContext(
        creds=library.Credentials(
            name=library.Name(principal, kerberos), usage="accept", store={"keytab": f"FILE:{key_table}"}
        ),
        usage="accept",
    )


def default_realm() -> str:
    """The realm that Kerberos' configuration names; empty without one."""
    path = Path(os.environ.get("KRB5_CONFIG", "/etc/krb5.conf").partition(":")[0])
    try:
        found = _DEFAULT_REALM.search(path.read_text("utf-8", errors="replace"))
    except OSError:
        return ""
    return "" if found is None else found[1]
