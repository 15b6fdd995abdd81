"""The mechanisms of a listener, from its settings: what a start checks, and the function that begins each login."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from headgate.gateway.config import BrokerConfig, ConfigError
from headgate.gateway.config.broker_table import MECHANISMS
from headgate.gateway.config.listeners import SASL_PROTOCOLS
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.security.sasl.exchange import SaslExchange
from headgate.gateway.security.sasl.gssapi import GssapiExchange, GssContext
from headgate.gateway.security.sasl.kerberos_names import InvalidRule, ShortNamer
from headgate.gateway.security.sasl.oauthbearer import OAuthBearerExchange, TokenValidator
from headgate.gateway.security.sasl.plain import JaasUsers, PlainExchange, ScramPasswords
from headgate.gateway.security.sasl.scram import ScramExchange, TokenLookup
from headgate.gateway.security.sasl.scram_credentials import ScramCredentials
from headgate.gateway.security.sasl.server_exchange import SaslListener
from headgate.gateway.security.sasl.settings import JAAS_CONFIG, BearerSettings, SaslSettings, of_listener
from headgate.protocol.security.sasl import jaas
from headgate.protocol.security.sasl.jaas import InvalidJaasConfig, JaasEntry
from headgate.protocol.security.sasl.scram_keys import SCRAM_MECHANISMS

if TYPE_CHECKING:
    from headgate.gateway.security.sasl.bearer_tokens import TokenRules

NewExchange = Callable[[], SaslExchange]
_GSSAPI: Final = "GSSAPI"
_JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_URL_SCHEMES: Final = ("https", "file")
_NO_ENTRY: Final = JaasEntry("", "REQUIRED", {})
_SCRAM_STORE: Final = "scram"


class InvalidSaslSettings(Exception):
    """A listener cannot be served with these settings. The text names the setting, and has no secret."""


@dataclass(frozen=True, slots=True)
class SaslParts:
    """The parts of a broker that logins need.

    `new_nonce` gives a random text for SCRAM. `fetch_keys` makes the function that fetches a key set from an address,
    which raises `jwks.FetchFailed`; `acceptor` the function that
    makes contexts of Kerberos (`gssapi_context.acceptor`).
    """

    credentials: ScramCredentials
    new_nonce: Callable[[], str]
    clock: Clock
    fetch_keys: Callable[[str], Callable[[], bytes]]
    acceptor: Callable[[Mapping[str, str]], Callable[[], GssContext]]
    default_realm: Callable[[], str]
    find_token: TokenLookup | None = None


def check(settings: SaslSettings) -> None:
    """Check the settings of a listener, without files and addresses. Raises InvalidSaslSettings."""
    if not settings.enabled_mechanisms:
        raise InvalidSaslSettings(f"{settings.name_of('sasl.enabled.mechanisms')}: name a mechanism: {_names()}")
    for mechanism in settings.enabled_mechanisms:
        if mechanism not in MECHANISMS:
            name = settings.name_of("sasl.enabled.mechanisms")
            raise InvalidSaslSettings(f"{name}: there is no mechanism {mechanism[:100]!r}; use {_names()}")
        entry = _entry(settings, mechanism)
        if mechanism == _GSSAPI:
            _short_namer(settings, "")
        elif mechanism == "OAUTHBEARER":
            _check_bearer(settings, entry)


def check_listeners(config: BrokerConfig) -> None:
    """Check the settings of all listeners with a login. Raises ConfigError with a sentence for each wrong listener."""
    problems = []
    for listener in config.listeners:
        if config.listener_security_protocol_map[listener.name] in SASL_PROTOCOLS:
            try:
                check(of_listener(config, listener.name))
            except InvalidSaslSettings as error:
                problems.append(str(error))
    if problems:
        raise ConfigError(problems)


def make_listener(settings: SaslSettings, parts: SaslParts) -> SaslListener:
    """The listener of checked settings. Raises InvalidSaslSettings for what only the parts know."""
    check(settings)
    made = {mechanism: _maker(settings, mechanism, parts) for mechanism in settings.enabled_mechanisms}
    return SaslListener(made, settings.max_reauth_ms, settings.failure_delay_ms, settings.max_receive_bytes)


def _maker(settings: SaslSettings, mechanism: str, parts: SaslParts) -> NewExchange:
    entry = _entry(settings, mechanism)
    if mechanism == "PLAIN":
        is_scram = settings.plain_store == _SCRAM_STORE
        store = ScramPasswords(parts.credentials) if is_scram else JaasUsers(entry.users)
        return lambda: PlainExchange(store)
    if mechanism in SCRAM_MECHANISMS:
        scram = SCRAM_MECHANISMS[mechanism]
        return lambda: ScramExchange(scram, parts.credentials, parts.new_nonce, parts.find_token)
    if mechanism == _GSSAPI:
        return _gssapi(settings, entry, parts)
    validator = _validator(settings, entry, parts)
    return lambda: OAuthBearerExchange(validator)


def _gssapi(settings: SaslSettings, entry: JaasEntry, parts: SaslParts) -> NewExchange:
    try:
        new_context = parts.acceptor(entry.options)
    except InvalidJaasConfig as error:
        raise InvalidSaslSettings(f"{settings.name_of(JAAS_CONFIG, _GSSAPI)}: {error}") from error
    short_namer = _short_namer(settings, parts.default_realm())
    return lambda: GssapiExchange(new_context, short_namer)


def _entry(settings: SaslSettings, mechanism: str) -> JaasEntry:
    """The JAAS line of a mechanism. SCRAM and OAUTHBEARER need none here: they have nothing to say in it."""
    line, name = settings.jaas_configs.get(mechanism), settings.name_of(JAAS_CONFIG, mechanism)
    if line is None:
        is_needed = mechanism == _GSSAPI or (mechanism == "PLAIN" and settings.plain_store != _SCRAM_STORE)
        if is_needed:
            raise InvalidSaslSettings(f"{name} is missing; the mechanism {mechanism} needs it")
        return _NO_ENTRY
    try:
        entry = jaas.parse_for(mechanism, line.text)
    except InvalidJaasConfig as error:
        raise InvalidSaslSettings(f"{name}: {error}") from error
    if mechanism == "PLAIN" and settings.plain_store != _SCRAM_STORE and not entry.users:
        raise InvalidSaslSettings(f'{name}: no user can log in; add user_NAME="PASSWORD" for each user')
    return entry


def _short_namer(settings: SaslSettings, default_realm: str) -> ShortNamer:
    try:
        return ShortNamer.parse(settings.kerberos_rules, default_realm)
    except InvalidRule as error:
        raise InvalidSaslSettings(f"sasl.kerberos.principal.to.local.rules: {error}") from error


def _check_bearer(settings: SaslSettings, entry: JaasEntry) -> None:
    url = settings.bearer.jwks_endpoint_url
    if url is None:
        if settings.is_unsecured:
            _unsecured_skew_ms(settings, entry)
            return
        reason = "OAUTHBEARER needs the keys that sign tokens; set it to https://... or file:///..."
        raise InvalidSaslSettings(f"{settings.name_of(_JWKS_URL)} is missing: {reason}")
    if urlsplit(url).scheme not in _URL_SCHEMES:
        raise InvalidSaslSettings(f"{settings.name_of(_JWKS_URL)}={url[:200]}: write https://... or file:///...")


def _validator(settings: SaslSettings, entry: JaasEntry, parts: SaslParts) -> TokenValidator:
    # Not at the head: a broker without OAUTHBEARER does not import `jwt`
    from headgate.gateway.security.sasl.bearer_tokens import SignedTokens, UnsecuredRules, UnsecuredTokens
    from headgate.gateway.security.sasl.jwks import CachedKeys

    bearer = settings.bearer
    if bearer.jwks_endpoint_url is None:
        options = entry.options
        rules = UnsecuredRules(
            options.get("unsecuredValidatorPrincipalClaimName", "sub").strip() or "sub",
            options.get("unsecuredValidatorScopeClaimName", "scope").strip() or "scope",
            options.get("unsecuredValidatorRequiredScope", "").split(),
            _unsecured_skew_ms(settings, entry),
        )
        return UnsecuredTokens(rules, parts.clock.now_ms)
    keys = CachedKeys(
        parts.fetch_keys(bearer.jwks_endpoint_url),
        parts.clock,
        bearer.jwks_endpoint_refresh_ms,
        bearer.jwks_endpoint_retry_backoff_ms,
        bearer.jwks_endpoint_retry_backoff_max_ms,
    )
    return SignedTokens(keys, _token_rules(bearer), parts.clock.now_ms, allows_shared_keys=settings.is_unsecured)


def _token_rules(bearer: BearerSettings) -> TokenRules:
    from headgate.gateway.security.sasl.bearer_tokens import TokenRules

    return TokenRules(
        bearer.expected_audience or (),
        bearer.expected_issuer,
        bearer.sub_claim_name,
        bearer.scope_claim_name,
        bearer.clock_skew_seconds * 1000,
    )


def _unsecured_skew_ms(settings: SaslSettings, entry: JaasEntry) -> int:
    text = entry.options.get("unsecuredValidatorAllowableClockSkewMs", "").strip() or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        name = settings.name_of(JAAS_CONFIG, "OAUTHBEARER")
        raise InvalidSaslSettings(f"{name}: unsecuredValidatorAllowableClockSkewMs is no whole number from 0 on")
    return int(text)


def _names() -> str:
    return ", ".join(MECHANISMS)
