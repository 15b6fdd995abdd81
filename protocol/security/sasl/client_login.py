"""The credentials of a client for one mechanism: from a JAAS line and settings to the tokens of each login."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from headgate.protocol.security.client_properties import JAAS_CONFIG, MECHANISM, SERVICE_NAME
from headgate.protocol.security.sasl import jaas
from headgate.protocol.security.sasl.bearer_sources import InvalidSource, TokenSourceParts, source_of
from headgate.protocol.security.sasl.client_seams import ClientSeams
from headgate.protocol.security.sasl.client_tokens import ClientTokens, SaltedPasswords, bearer, plain, scram
from headgate.protocol.security.sasl.jaas import MODULES_OF_MECHANISMS, InvalidJaasConfig, JaasEntry
from headgate.protocol.security.sasl.scram_keys import SCRAM_MECHANISMS, ScramMechanism
from headgate.protocol.security.secret import Secret

_EXTENSION: Final = "extension_"
_OPTIONS: Final = {
    "PLAIN": 'username="NAME" password="PASSWORD"',
    "SCRAM-SHA-256": 'username="NAME" password="PASSWORD"',
    "SCRAM-SHA-512": 'username="NAME" password="PASSWORD"',
    "OAUTHBEARER": "",
    "GSSAPI": "useTicketCache=true",
}


class InvalidLogin(ValueError):
    """No login can be made of a JAAS line and settings: one sentence with the setting, without a secret."""


class ClientLogin:
    """Logins by one mechanism. `begin(host)` gives the tokens of a new one; it may take long. It raises LoginFailed."""

    def __init__(
        self, mechanism: str, begin: Callable[[str], ClientTokens], password: tuple[str, Secret] | None = None
    ) -> None:
        """`password`: the user and the password of PLAIN and SCRAM."""
        self.mechanism = mechanism
        self.begin = begin
        self.password = password

    def __repr__(self) -> str:
        return self.mechanism


def make_login(mechanism: str, line: Secret, settings: Mapping[str, str], seams: ClientSeams) -> ClientLogin:
    """The logins of a JAAS line. `settings`: those of `sasl.*` beside the line. Raises InvalidLogin."""
    if mechanism not in MODULES_OF_MECHANISMS:
        known = ", ".join(MODULES_OF_MECHANISMS)
        raise InvalidLogin(f"{MECHANISM}={mechanism[:100]} does not exist; use one of {known}")
    if not line.text.strip():
        options = f" {_OPTIONS[mechanism]}".rstrip()
        raise InvalidLogin(f"{JAAS_CONFIG} is missing; write {MODULES_OF_MECHANISMS[mechanism]} required{options};")
    try:
        entry = jaas.parse_for(mechanism, line.text)
        return _login(mechanism, entry, settings, seams)
    except InvalidJaasConfig as error:
        raise InvalidLogin(f"{JAAS_CONFIG}: {error}") from None
    except InvalidSource as error:
        raise InvalidLogin(str(error)) from None


def _login(mechanism: str, entry: JaasEntry, settings: Mapping[str, str], seams: ClientSeams) -> ClientLogin:
    if mechanism == "GSSAPI":
        return ClientLogin(mechanism, _kerberos(entry, settings))
    if mechanism == "OAUTHBEARER":
        parts = TokenSourceParts(seams.files.read, seams.post, seams.now_ms)
        source, extensions = source_of(entry.options, settings, parts), _extensions(entry)
        return ClientLogin(mechanism, lambda _host: bearer(source(), extensions))
    user, password = _text(entry, "username"), Secret(_text(entry, "password"))
    if mechanism == "PLAIN":
        return ClientLogin(mechanism, lambda _host: plain(user, password), (user, password))
    begin = _scram(SCRAM_MECHANISMS[mechanism], user, password, entry, seams)
    return ClientLogin(mechanism, begin, (user, password))


def _scram(
    mechanism: ScramMechanism, user: str, password: Secret, entry: JaasEntry, seams: ClientSeams
) -> Callable[[str], ClientTokens]:
    salted, is_token = SaltedPasswords(password), entry.options.get("tokenauth", "").lower() == "true"
    return lambda _host: scram(mechanism, user, salted, seams.new_nonce(), is_token=is_token)


def _kerberos(entry: JaasEntry, settings: Mapping[str, str]) -> Callable[[str], ClientTokens]:
    from headgate.protocol.security.sasl.gssapi_client import ClientCredentials

    of_line, of_setting = entry.options.get("serviceName", ""), settings.get(SERVICE_NAME, "")
    service = of_setting or of_line
    if not service:
        raise InvalidLogin(
            f"{SERVICE_NAME} is missing; set it to the first part of the brokers' principals, as in kafka"
        )
    if of_line and of_line != service:
        raise InvalidLogin(f"{SERVICE_NAME} and serviceName of {JAAS_CONFIG} differ; remove one of them")
    credentials = ClientCredentials(entry.options)
    return lambda host: credentials.begin(service, host)


def _text(entry: JaasEntry, option: str) -> str:
    text = entry.options.get(option, "")
    if not text:
        raise InvalidJaasConfig(f'the option {option} is missing; write {option}="..."')
    if "\x00" in text:
        raise InvalidJaasConfig(f"the option {option} has a zero character, which no login can have")
    return text


def _extensions(entry: JaasEntry) -> dict[str, str]:
    """The pairs for the broker (KIP-342). Source: Kafka's `OAuthBearerClientInitialResponse`."""
    named = {name[len(_EXTENSION) :]: text for name, text in entry.options.items() if name.startswith(_EXTENSION)}
    for name, text in named.items():
        if not (name.isascii() and name.isalpha()) or name.lower() == "auth":
            raise InvalidJaasConfig(
                f"the option {_EXTENSION}{name[:50]} needs letters after {_EXTENSION}, and not auth"
            )
        if not text or not all("\x21" <= each <= "\x7e" or each in " \t\r\n" for each in text):
            raise InvalidJaasConfig(f"the option {_EXTENSION}{name} has characters other than printable ASCII")
    return named
