"""The effective TLS settings of a listener.

They come from the broker's configuration, with Kafka's precedence: `listener.name.<listener>.<setting>`, set at run
time or in the file, before `<setting>`.
"""

from __future__ import annotations

from typing import Any

from headgate.gateway.config.broker import BrokerConfig
from headgate.protocol.security.tls.settings import TlsSettings, setting_name

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
        config.listener_security_protocol_map.get(listener) == "SASL_SSL"
        and config.listener_value(listener, "ssl.client.auth") is None
    ):
        values["client_auth"] = "none"
    return TlsSettings(listener, **values)
