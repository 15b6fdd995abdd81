"""The TLS settings of a listener or a client, as one typed value, and the error of all of TLS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from headgate.protocol.security.secret import Secret

_SECRETS = frozenset(
    (
        "keystore_password",
        "keystore_key",
        "keystore_certificate_chain",
        "key_password",
        "truststore_password",
        "truststore_certificates",
    )
)


class TlsProblem(ValueError):
    """Settings or a store that TLS cannot be served with.

    The text is one sentence: the setting, the file, and what to do. It has no secret.
    """


class TlsSettings(NamedTuple):
    """Settings `ssl.*` without that prefix, and with Kafka's defaults, so that a client needs to give only some.

    `listener` is empty for a client. Secrets are hidden in a representation.
    """

    listener: str = ""
    keystore_type: str = "JKS"
    keystore_location: str | None = None
    keystore_password: Secret | None = None
    keystore_key: Secret | None = None
    keystore_certificate_chain: Secret | None = None
    key_password: Secret | None = None
    truststore_type: str = "JKS"
    truststore_location: str | None = None
    truststore_password: Secret | None = None
    truststore_certificates: Secret | None = None
    client_auth: str = "none"
    protocol: str = "TLSv1.3"
    enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    endpoint_identification_algorithm: str = "https"
    principal_mapping_rules: str = "DEFAULT"
    allow_dn_changes: bool = False
    allow_san_changes: bool = False
    is_optional: bool = False
    """`headgate.ssl.optional`: clients without TLS are served on the same port."""

    @property
    def prefix(self) -> str:
        """The beginning of a setting's name that counts for this listener alone."""
        return f"listener.name.{self.listener.lower()}." if self.listener else ""


def setting_name(field: str) -> str:
    """The setting of a field of `TlsSettings`."""
    return "headgate.ssl.optional" if field == "is_optional" else f"ssl.{field.replace('_', '.')}"


def of_texts(texts: Mapping[str, str]) -> TlsSettings:
    """The settings of a client, from the texts of its properties; other names than those of fields do not count."""
    values: dict[str, Any] = {}
    for field in TlsSettings._fields[1:]:
        text = texts.get(setting_name(field))
        if text is not None and not isinstance(TlsSettings._field_defaults[field], bool):
            values[field] = _parse(field, text)
    return TlsSettings(**values)


def _parse(field: str, text: str) -> str | Secret | tuple[str, ...]:
    if field in _SECRETS:
        return Secret(text)
    if isinstance(TlsSettings._field_defaults[field], tuple):
        return tuple(name.strip() for name in text.split(",") if name.strip())
    return text
