"""Names of Kafka's client properties about security: honoured, without effect, refused; and the check of names.

Names of other purposes (`bootstrap.servers`, `group.id`) are of no interest here: a file serves many programs. The
names are those of Kafka 4.4's clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from headgate.protocol.security.tls.settings import TlsSettings, setting_name

PROTOCOL: Final = "security.protocol"
JAAS_CONFIG: Final = "sasl.jaas.config"
MECHANISM: Final = "sasl.mechanism"
SERVICE_NAME: Final = "sasl.kerberos.service.name"
PREFIXES: Final = ("ssl.", "sasl.", "security.")
_OF_BROKERS: Final = ("client_auth", "principal_mapping_rules", "allow_dn_changes", "allow_san_changes", "is_optional")
TLS_SETTINGS: Final = tuple(setting_name(field) for field in TlsSettings._fields[1:] if field not in _OF_BROKERS)
_BEARER: Final = "sasl.oauthbearer."
BEARER_SETTINGS: Final = tuple(
    f"{_BEARER}{name}"
    for name in (
        "token.endpoint.url",
        "client.credentials.client.id",
        "client.credentials.client.secret",
        "scope",
        "header.urlencode",
    )
)
HONOURED: Final = (PROTOCOL, MECHANISM, JAAS_CONFIG, SERVICE_NAME, *TLS_SETTINGS, *BEARER_SETTINGS)
WITHOUT_EFFECT: Final = (
    *(f"ssl.{name}" for name in ("keymanager.algorithm", "trustmanager.algorithm", "secure.random.implementation")),
    *(
        f"sasl.kerberos.{name}"
        for name in (
            "kinit.cmd",
            "min.time.before.relogin",
            "ticket.renew.jitter",
            "ticket.renew.window.factor",
        )
    ),
    *(
        f"sasl.login.{name}"
        for name in (
            "connect.timeout.ms",
            "read.timeout.ms",
            "refresh.buffer.seconds",
            "refresh.min.period.seconds",
            "refresh.window.factor",
            "refresh.window.jitter",
            "retry.backoff.max.ms",
            "retry.backoff.ms",
        )
    ),
    *(
        f"{_BEARER}{name}"
        for name in (
            "clock.skew.seconds",
            "expected.audience",
            "expected.issuer",
            "allow.unverified.audience",
            "allow.unverified.issuer",
            "jwks.endpoint.refresh.ms",
            "jwks.endpoint.retry.backoff.max.ms",
            "jwks.endpoint.retry.backoff.ms",
            "jwks.endpoint.url",
            "scope.claim.name",
            "sub.claim.name",
        )
    ),
)
"""They tune Java's classes or check tokens; each login here takes the present token, ticket or password."""
CLASSES: Final = (
    "security.providers",
    "ssl.engine.factory.class",
    "ssl.provider",
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    f"{_BEARER}jwt.retriever.class",
    f"{_BEARER}jwt.validator.class",
)
"""Java's classes. Those of Kafka itself are accepted where a setting here has their effect."""
_ASSERTION: Final = f"{_BEARER}assertion."
_KAFKAS: Final = "org.apache.kafka.common.security."
_OTHER_EFFECT: Final = ("JwtBearerJwtRetriever",)
_OF_LIBRDKAFKA: Final = {
    "ssl.ca.location": "ssl.truststore.location, with ssl.truststore.type=PEM",
    "ssl.certificate.location": "ssl.keystore.location, a file with key and certificates, with ssl.keystore.type=PEM",
    "ssl.key.location": "ssl.keystore.location, a file with key and certificates, with ssl.keystore.type=PEM",
    "sasl.mechanisms": MECHANISM,
    "sasl.username": JAAS_CONFIG,
    "sasl.password": JAAS_CONFIG,
}


def problems(properties: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each name about security that is unknown, or whose value cannot have its effect."""
    if properties.get("config.providers", "").strip():
        yield "config.providers is not read in client properties; write the values, in a file of yours alone"
    for name, value in properties.items():
        if name.startswith(PREFIXES) and name not in HONOURED and name not in WITHOUT_EFFECT:
            if name in CLASSES:
                yield from _of_class(name, value)
            elif name.startswith(_ASSERTION):
                yield f"{name} is not supported; use client credentials, or a file in {_BEARER}token.endpoint.url"
            else:
                yield f"{name[:100]} is no setting of clients; {_nearest(name, HONOURED)}"


def _of_class(name: str, value: str) -> Iterator[str]:
    is_kafkas = value.startswith(_KAFKAS) and not value.endswith(_OTHER_EFFECT)
    if value and not is_kafkas:
        yield f"{name} names a class of Java, which is not run here; remove the setting"


def _nearest(name: str, names: Iterable[str]) -> str:
    if name in _OF_LIBRDKAFKA:
        return f"in Kafka's words it is {_OF_LIBRDKAFKA[name]}"
    near = get_close_matches(name[:100].lower().replace("_", "."), names, n=1, cutoff=0.6)
    return f"the nearest name is {near[0]}" if near else "remove it"
