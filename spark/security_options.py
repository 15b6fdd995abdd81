"""TLS and logins in options of Spark: `kafka.` before the names of Kafka's client properties.

Driver and executors connect by themselves: a file that an option names is read on each of them, and PEM in options
(`kafka.ssl.truststore.certificates`) needs no file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from headgate.protocol.security.client_properties import PREFIXES
from headgate.protocol.security.client_security import ClientSecurity, InvalidClientSecurity
from headgate.tools.client.security_option import read_security

PREFIX: Final = "kafka."
SECURITY_PREFIXES: Final = tuple(f"{PREFIX}{prefix}" for prefix in PREFIXES)
_NAME: Final = re.compile(rf"(?<![^\s(`'])(?={'|'.join(map(re.escape, PREFIXES))})")
"""The beginning of a property's name in a sentence."""


def security_of(options: Mapping[str, str]) -> ClientSecurity:
    """The security that options describe, their names in any case. Raises InvalidClientSecurity, with their names."""
    named = {name.lower(): value for name, value in options.items()}
    properties = {
        name.removeprefix(PREFIX): value for name, value in named.items() if name.startswith(SECURITY_PREFIXES)
    }
    try:
        return ClientSecurity.of_properties(properties)
    except InvalidClientSecurity as error:
        raise InvalidClientSecurity(_NAME.sub(PREFIX, str(error))) from None


def options_of(security: ClientSecurity) -> dict[str, str]:
    """The options of a security that properties have made."""
    return {f"{PREFIX}{name}": value for name, value in security.properties.items()}


def client_options(path: str | None) -> dict[str, str]:
    """The options for a file of Kafka's client properties, such as that of `--command-config`; None: no options.

    The file is read here; the stores that the properties name are read here and where tasks run. Raises
    InvalidClientSecurity, also for a file that cannot be read.
    """
    return {} if path is None else options_of(read_security(path))
