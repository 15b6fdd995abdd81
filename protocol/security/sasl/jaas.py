"""Lines of `sasl.jaas.config`: one login module with its options (Kafka's `JaasConfig`).

    org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" user_alice="secret";

Kafka reads a line with Java's `StreamTokenizer`: words, quoted texts with the escapes of Java, `//`, `/* */` and `/`
comments. No error of this module quotes a value: values are secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
LOGIN_MODULES: Final = (PLAIN_MODULE, SCRAM_MODULE, OAUTHBEARER_MODULE, KERBEROS_MODULE)
MODULES_OF_MECHANISMS: Final = {
    "PLAIN": PLAIN_MODULE,
    "SCRAM-SHA-256": SCRAM_MODULE,
    "SCRAM-SHA-512": SCRAM_MODULE,
    "OAUTHBEARER": OAUTHBEARER_MODULE,
    "GSSAPI": KERBEROS_MODULE,
}
"""The login module of each mechanism."""
_CONTROL_FLAGS: Final = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
_USER_PREFIX: Final = "user_"
_OPTIONS: Final = frozenset(
    [
        "username",
        "password",
        "tokenauth",
        "useKeyTab",
        "keyTab",
        "storeKey",
        "principal",
        "serviceName",
        "doNotPrompt",
        "useTicketCache",
        "ticketCache",
        "token",
    ]
)
MAX_LINE_LENGTH: Final = 1 << 20

_TOKEN: Final = re.compile(
    r"""(?P<space>[\x00-\x20]+|//[^\r\n]*|/\*.*?(?:\*/|\Z)|/[^\r\n]*)
    |(?P<word>[A-Za-z\xa0-\U0010ffff_$][A-Za-z0-9\xa0-\U0010ffff._$-]*)
    |(?P<number>-?[0-9.]+)
    |(?P<quoted>"(?:\\.|[^"\\\r\n])*"?|'(?:\\.|[^'\\\r\n])*'?)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class InvalidJaasConfig(Exception):
    """A line of `sasl.jaas.config` cannot be used. The text names no option's value."""


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """A login module with its control flag and its options. The options have secrets, which no text shows."""

    login_module: str
    control_flag: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def users(self) -> dict[str, str]:
        """Passwords by user: the options `user_NAME` of PLAIN."""
        found = self.options.items()
        return {name[len(_USER_PREFIX) :]: value for name, value in found if name.startswith(_USER_PREFIX)}


class _Token(NamedTuple):
    """A token: `text` is set for words and quoted texts, `symbol` for any other character."""

    text: str | None
    symbol: str


def parse(line: str) -> JaasEntry:
    """The only login module of a line. Raises InvalidJaasConfig."""
    if len(line) > MAX_LINE_LENGTH:
        raise InvalidJaasConfig(f"a JAAS config has {len(line)} characters; the limit is {MAX_LINE_LENGTH}")
    tokens = _tokens(line)
    entries = [_entry(first, tokens) for first in tokens]
    if not entries:
        raise InvalidJaasConfig("Login module not specified in JAAS config")
    if len(entries) != 1:
        count = len(entries)
        raise InvalidJaasConfig(f"JAAS config property contains {count} login modules, should be 1 module")
    return entries[0]


def parse_for(mechanism: str, line: str) -> JaasEntry:
    """The login module of a line for a mechanism. Raises InvalidJaasConfig, also for a class of another mechanism."""
    entry = parse(line)
    wanted = MODULES_OF_MECHANISMS.get(mechanism)
    if entry.login_module not in LOGIN_MODULES:
        known = ", ".join(LOGIN_MODULES)
        raise InvalidJaasConfig(f"the login module {entry.login_module} is not supported; these are: {known}")
    if entry.login_module != wanted:
        raise InvalidJaasConfig(f"the login module {entry.login_module} is not for {mechanism}; use {wanted}")
    return entry


def _entry(first: _Token, tokens: Iterator[_Token]) -> JaasEntry:
    if first.text is None:
        raise InvalidJaasConfig(f"a JAAS config begins with {first.symbol!r}; a login module has to come first")
    flag = next(tokens, None)
    if flag is None:
        raise InvalidJaasConfig("Login module control flag not specified in JAAS config")
    if flag.text is None:
        raise InvalidJaasConfig("Login module control flag is not available in the JAAS config")
    if flag.text.upper() not in _CONTROL_FLAGS:
        # The text is not shown: a forgotten flag leaves an option, maybe a quoted secret, in its place
        raise InvalidJaasConfig(f"Invalid login module control flag in JAAS config; use one of {_CONTROL_FLAGS}")
    return JaasEntry(first.text, flag.text.upper(), dict(_options(tokens)))


def _options(tokens: Iterator[_Token]) -> Iterator[tuple[str, str]]:
    before = "the control flag"
    for key in tokens:
        if key.symbol == ";":
            return
        if key.text is None:
            raise InvalidJaasConfig(f"{key.symbol[:1]!r} follows {before} in JAAS config; quote values that have it")
        equals, value = next(tokens, None), next(tokens, None)
        if equals is None or equals.symbol != "=" or value is None or value.text is None:
            # An unknown name may be the rest of a secret without quotes
            name = f"'{key.text}'" if _is_known_option(key.text) else f"that follows {before}"
            raise InvalidJaasConfig(f"Value not specified for key {name} in JAAS config; quote values")
        yield key.text, value.text
        before = f"option '{key.text}'"
    raise InvalidJaasConfig("JAAS config entry not terminated by semi-colon")


def _is_known_option(name: str) -> bool:
    return name in _OPTIONS or name.startswith(_USER_PREFIX)


def _tokens(line: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(line):
        if match["word"] is not None:
            yield _Token(match["word"], "")
        elif match["quoted"] is not None:
            yield _Token(_unquoted(match["quoted"]), "")
        elif match["space"] is None:  # a number has no text in Java's tokenizer either
            yield _Token(None, match[0])


def _unquoted(text: str) -> str:
    quote = text[0]
    inner = text[1:-1] if len(text) > 1 and _ends_quoted(text, quote) else text[1:]
    return _ESCAPE.sub(_replacement, inner)


def _ends_quoted(text: str, quote: str) -> bool:
    if text[-1] != quote:
        return False
    backslashes = len(text) - 1 - len(text[:-1].rstrip("\\"))
    return backslashes % 2 == 0


def _replacement(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8))
    return _ESCAPED.get(escaped, escaped)
