"""Hides secrets in texts: those that are known, and everything that looks like one.

A text of a bundle may come from anywhere: a log may have a line of a properties file, a URL with a password, a token.
So a name that sounds like a secret hides its value, to the end of the line where nothing says where the value ends. A
bundle that hides too much is a nuisance, one that hides too little a leak.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import quote, quote_plus

HIDDEN: Final = "[hidden]"
SHORTEST: Final = 4
"""Shorter secrets are hidden by their names alone: the same letters stand everywhere."""
_SOUNDS: Final = (
    r"pass(?:word|wd|phrase|code)|\bpwd\b|secret|token|credential|jaas|hmac|cookie|salt|signature|\bsig\b"
    r"|api[._-]?key|access[._-]?key|private[._-]?key|(?:stored|server|account|shared|signing|encryption)[._-]?key"
    r"|keystore\.key|authorization"
)
# Names begin where a word begins, and all repetitions have a limit: a hostile text must not take minutes
_NAME: Final = rf"(?<![\w.\-])[\w.\-]{{0,200}}?(?:{_SOUNDS})[\w.\-\[\]]{{0,200}}"
_BLANK: Final = r"[^\S\n]{0,40}"
_DOUBLE: Final = r'"(?:[^"\\\n]|\\.)*"?'
_SINGLE: Final = r"'(?:[^'\\\n]|\\.)*'?"
# A number or a word of JSON with an end is no secret; it stays, so that JSON stays JSON
_HARMLESS: Final = r"(?![^\S\n]{0,40}(?:-?\d{1,20}(?:\.\d{1,20})?|true|false|null)[^\S\n]{0,40}[,}\]])"
_NAMED: Final = re.compile(
    rf"""(?P<name>["']?{_NAME}["']?{_BLANK}(?:=>|[=:]){_HARMLESS}{_BLANK})(?P<value>{_DOUBLE}|{_SINGLE}|[^\n]+)""",
    re.IGNORECASE,
)
_ESCAPED: Final = re.compile(
    rf"""(?P<name>{_NAME}\\?["']?{_BLANK}[=:]{_BLANK}\\{{1,9}}["'])(?P<value>[^\n]*?)(?=\\+["']|$)""",
    re.IGNORECASE | re.MULTILINE,
)
_OPTION: Final = re.compile(
    rf"(?P<name>(?<![\w\-])--?[\w.\-]{{0,200}}?(?:{_SOUNDS})[\w.\-]{{0,200}})[^\S\n]+(?P<value>[^\s-]\S*)",
    re.IGNORECASE,
)
_XML: Final = re.compile(rf"(?P<name><{_NAME}[^>\n]{{0,200}}>)(?P<value>[^<]*)", re.IGNORECASE)
_USER_OPTION: Final = re.compile(
    rf"(?P<name>\buser_[\w.@\-]{{1,200}}{_BLANK}={_BLANK})(?P<value>{_DOUBLE}|{_SINGLE}|[^\s;]+)"
)
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL
)
_USERINFO: Final = re.compile(
    r"(?P<scheme>(?<![a-z0-9+.\-])[a-z][a-z0-9+.\-]{0,40}://)[^\s/@\"'<>]{1,2000}@", re.IGNORECASE
)
_JWT: Final = re.compile(r"(?<![\w\-])eyJ[\w\-]{5,}\.[\w\-]+(?:\.[\w\-]*)?")
_SCHEME: Final = re.compile(
    r"(?P<name>\b(?:Bearer|Basic|Digest|Negotiate)[^\S\n]{1,40})[A-Za-z0-9+/=._~\-]{6,}", re.IGNORECASE
)
_CLOUD_KEY: Final = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[pousr]_[A-Za-z0-9]{20,}|\bxox[abps]-[\w\-]{10,}")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')


class Redaction:
    """Hides these secrets and whatever looks like one."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets for part in _parts(secret) for form in _forms(part)}
        known = sorted((form for form in forms if len(form) >= SHORTEST), key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def __call__(self, text: str) -> str:
        """The text with `[hidden]` in place of each secret."""
        text = _PRIVATE_KEY.sub(HIDDEN, text)
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        text = _USERINFO.sub(rf"\g<scheme>{HIDDEN}@", text)
        text = _SCHEME.sub(rf"\g<name>{HIDDEN}", text)
        text = _JWT.sub(HIDDEN, text)
        text = _CLOUD_KEY.sub(HIDDEN, text)
        text = _ESCAPED.sub(rf"\g<name>{HIDDEN}", text)
        for pattern in (_XML, _OPTION, _USER_OPTION):
            text = pattern.sub(rf"\g<name>{HIDDEN}", text)
        return _NAMED.sub(_hide_value, text)

    def json(self, text: str) -> str:
        """The same for a text of JSON, which stays JSON; any other text is taken as it is."""
        try:
            return json.dumps(self._hide(json.loads(text)), indent=1) + "\n"
        except (ValueError, RecursionError):
            return self(text)

    def _hide(self, value: Any) -> Any:
        if isinstance(value, str):
            return self(value)
        if isinstance(value, list):
            return [self._hide(one) for one in value]
        if isinstance(value, dict):
            return {
                self(name): HIDDEN if isinstance(one, str) and is_secret_name(name) else self._hide(one)
                for name, one in value.items()
            }
        return value


def _hide_value(found: re.Match[str]) -> str:
    """A quoted value keeps its quotes, so that JSON stays JSON."""
    value = found["value"]
    mark = value[0] if value[0] in "\"'" and value[-1] == value[0] and len(value) > 1 else ""
    return f"{found['name']}{mark}{HIDDEN}{mark}"


def _parts(secret: str) -> Iterator[str]:
    """A secret, its lines, and the quoted values in it: a line of JAAS has the passwords of several users."""
    text = secret.strip()
    yield text
    yield from (line.strip() for line in text.splitlines())
    for quoted in _QUOTED.findall(text):
        yield quoted
        yield re.sub(r"\\(.)", r"\1", quoted)


def _forms(secret: str) -> Iterator[str]:
    """A secret as it may stand in a text: plain, in a URL, in JSON, in base64."""
    yield secret
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield json.dumps(secret)[1:-1]
    yield base64.b64encode(secret.encode()).decode().rstrip("=")


def is_secret_name(name: str) -> bool:
    """Whether a setting's name sounds like that of a secret."""
    return re.search(_SOUNDS, name, re.IGNORECASE) is not None
