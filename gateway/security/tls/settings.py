"""The effective TLS settings of a listener, or of a client, as one typed value, and the error of all of TLS.

A listener's come from the broker's configuration, with Kafka's precedence: `listener.name.<listener>.<setting>`, set at
run time or in the file, before `<setting>`. A client's come from its properties, which have the same names.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from headgate.gateway.config.broker import BrokerConfig
from headgate.gateway.config.definition import Secret


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


SETTINGS = tuple(setting_name(field) for field in TlsSettings._fields if field != "listener")


def of_listener(config: BrokerConfig, listener: str) -> TlsSettings:
    """The settings of a listener now.

    On SASL_SSL, `ssl.client.auth` of the broker does not count, as in Kafka (KIP-684): SASL names the client.
    """
    values: dict[str, Any] = {}
    for field in TlsSettings._fields[1:]:
        name = setting_name(field)
        own = config.listener_value(listener, name)
        values[field] = config.present_value(name) if own is None else own
    if (
        config.listener_security_protocol_map[listener] == "SASL_SSL"
        and config.listener_value(listener, "ssl.client.auth") is None
    ):
        values["client_auth"] = "none"
    return TlsSettings(listener, **values)
