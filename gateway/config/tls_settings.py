"""The effective TLS settings of a listener, or of a client, as one typed value. Nothing here imports `ssl`.

`BrokerConfig.tls_settings` makes it for a listener, with Kafka's precedence: `listener.name.<listener>.<setting>`, set
at run time or in the file, before `<setting>`. A client's comes from its properties, which have the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from headgate.gateway.config.definition import Secret

TLS_PROTOCOLS = frozenset(("SSL", "SASL_SSL"))
"""The security protocols over TLS."""


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


SETTINGS = tuple(setting_name(field) for field in TlsSettings._fields if field != "listener")


def of_listener(
    listener: str, security_protocol: str, value_of: Callable[[str], Any], own_value_of: Callable[[str], Any]
) -> TlsSettings:
    """The settings of a listener. `value_of` a setting: of the broker; `own_value_of`: of the listener alone, or None.

    On SASL_SSL, `ssl.client.auth` of the broker does not count, as in Kafka (KIP-684): SASL tells who the client is.
    """
    values = {}
    for field in TlsSettings._fields[1:]:
        name = setting_name(field)
        own = own_value_of(name)
        values[field] = value_of(name) if own is None else own
    if security_protocol == "SASL_SSL" and own_value_of("ssl.client.auth") is None:
        values["client_auth"] = "none"
    return TlsSettings(listener, **values)
