"""SCRAM credentials among the configs of a user, in the text of Kafka's `ScramCredentialUtils`.

    "SCRAM-SHA-256": "salt=BASE64,stored_key=BASE64,server_key=BASE64,iterations=4096"

The node also has other configs of the user, such as quotas. No error of this module shows a credential.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Final

from headgate.protocol.security.sasl.scram_keys import SCRAM_MECHANISMS, ScramCredential, ScramMechanism

USER_RESOURCE: Final = 7
"""Users among the subjects of metadata records; the number of `USER` in Kafka's ACLs. No ConfigRecord has it."""
_TEXT: Final = re.compile(r"(\w+)=([^,]*)", re.ASCII)
_NAMES: Final = ("salt", "stored_key", "server_key", "iterations")
_ITERATIONS: Final = re.compile(r"\d{1,9}", re.ASCII)


class InvalidCredential(ValueError):
    """A text is no credential."""


def encode_credential(credential: ScramCredential) -> str:
    """The text of a credential."""
    fields = (*(base64.b64encode(field).decode() for field in credential[:3]), str(credential.iterations))
    return ",".join(f"{name}={field}" for name, field in zip(_NAMES, fields, strict=True))


def decode_credential(text: str) -> ScramCredential:
    """The credential of a text, its fields in any order; the last of two equal ones. Raises InvalidCredential."""
    matches = [_TEXT.fullmatch(part) for part in text.rstrip(",").split(",")]
    fields = {match[1]: match[2] for match in matches if match is not None}
    if None in matches or set(fields) != set(_NAMES):
        raise InvalidCredential("its fields are not salt, stored_key, server_key and iterations")
    if _ITERATIONS.fullmatch(fields["iterations"]) is None:
        raise InvalidCredential("its iterations are no number")
    try:
        salt, stored_key, server_key = map(_from_base64, (fields[name] for name in _NAMES[:3]))
    except (binascii.Error, ValueError):
        raise InvalidCredential("a field is not base64") from None
    return ScramCredential(salt, stored_key, server_key, int(fields["iterations"]))


def _from_base64(text: str) -> bytes:
    """Java reads base64 without its padding too."""
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


def configs_of(credentials: Mapping[int, ScramCredential]) -> dict[str, str]:
    """The configs of a user with these credentials."""
    return {
        ScramMechanism(mechanism).mechanism_name: encode_credential(credential)
        for mechanism, credential in sorted(credentials.items())
    }


def credentials_of(configs: Mapping[str, str]) -> tuple[dict[int, ScramCredential], dict[str, str]]:
    """The credentials among a user's configs, and the reasons of invalid ones by mechanism."""
    found, invalid = dict[int, ScramCredential](), dict[str, str]()
    for name, mechanism in SCRAM_MECHANISMS.items():
        if name in configs:
            try:
                found[int(mechanism)] = decode_credential(configs[name])
            except InvalidCredential as error:
                invalid[name] = str(error)
    return found, invalid
