"""The effective SASL settings of a listener, as one typed value.

They come from the broker's configuration, with Kafka's precedence, each set at run time before the file:
`listener.name.<listener>.<mechanism>.<setting>`, `listener.name.<listener>.<setting>`, `<setting>`; names of listeners
and mechanisms in lower case. A JAAS line counts with both names alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headgate.gateway.config.broker import BrokerConfig
from headgate.gateway.config.definition import Value
from headgate.protocol.security.secret import Secret

JAAS_CONFIG: Final = "sasl.jaas.config"
_ENABLED: Final = "sasl.enabled.mechanisms"
_MAX_REAUTH_MS: Final = "connections.max.reauth.ms"
_BEARER: Final = "OAUTHBEARER"


class BearerSettings(NamedTuple):
    """Settings `sasl.oauthbearer.*` without that prefix."""

    jwks_endpoint_url: str | None = None
    jwks_endpoint_refresh_ms: int = 3_600_000
    jwks_endpoint_retry_backoff_ms: int = 100
    jwks_endpoint_retry_backoff_max_ms: int = 10_000
    expected_audience: tuple[str, ...] | None = None
    expected_issuer: str | None = None
    clock_skew_seconds: int = 30
    scope_claim_name: str = "scope"
    sub_claim_name: str = "sub"


class SaslSettings(NamedTuple):
    """The SASL settings of a listener. Secrets are hidden in a representation."""

    listener: str
    enabled_mechanisms: tuple[str, ...]
    jaas_configs: Mapping[str, Secret]
    """JAAS lines by mechanism."""
    max_reauth_ms: Mapping[str, int]
    """By mechanism; 0 without a limit."""
    max_receive_bytes: int
    failure_delay_ms: int
    plain_store: str
    bearer: BearerSettings
    is_unsecured: bool
    """`headgate.sasl.oauthbearer.unsecured`: tokens without a signature, or with a shared key, are valid."""
    kerberos_rules: tuple[str, ...]

    def name_of(self, setting: str, mechanism: str = "") -> str:
        """The name of a setting for this listener, or for one of its mechanisms."""
        middle = f"{mechanism.lower()}." if mechanism else ""
        return f"listener.name.{self.listener.lower()}.{middle}{setting}"


def bearer_setting(field: str) -> str:
    """The setting of a field of `BearerSettings`."""
    return f"sasl.oauthbearer.{field.replace('_', '.')}"


def of_listener(config: BrokerConfig, listener: str) -> SaslSettings:
    """The settings of a listener now."""

    def value(name: str, mechanism: str = "") -> Value:
        names = (f"{mechanism.lower()}.{name}", name) if mechanism else (name,)
        own = (config.listener_value(listener, each) for each in names)
        found: Value = next((each for each in own if each is not None), None)
        return config.present_value(name) if found is None else found

    mechanisms: Any = value(_ENABLED)
    lines = {name: config.listener_value(listener, f"{name.lower()}.{JAAS_CONFIG}") for name in mechanisms}
    bearer: dict[str, Any] = {field: value(bearer_setting(field), _BEARER) for field in BearerSettings._fields}
    values: dict[str, Any] = {
        "max_reauth_ms": {name: value(_MAX_REAUTH_MS, name) for name in mechanisms},
        "max_receive_bytes": value("sasl.server.max.receive.size"),
        "plain_store": value("headgate.sasl.plain.store"),
        "is_unsecured": value("headgate.sasl.oauthbearer.unsecured"),
        "kerberos_rules": value("sasl.kerberos.principal.to.local.rules"),
    }
    return SaslSettings(
        listener=listener,
        enabled_mechanisms=tuple(mechanisms),
        jaas_configs={name: line for name, line in lines.items() if line is not None},
        failure_delay_ms=config.connection_failed_authentication_delay_ms,
        bearer=BearerSettings(**bearer),
        **values,
    )
