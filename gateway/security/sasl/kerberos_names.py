r"""Names of Kerberos, and the rules that make user names of them: `sasl.kerberos.principal.to.local.rules`.

    DEFAULT                                     the first part of a name of the own realm
    RULE:[1:$1@$0](.*@OTHER\.ORG)s/@.*//        names of one part and a realm; the pattern; the substitution
    RULE:[2:$1;$2](^.*;admin$)s/;admin$//g/L     of two parts; every match; lower case (U: upper case)

Kafka's classes are `KerberosName`, `KerberosRule` and `KerberosShortNamer`. Expressions are RE2's instead of Java's:
they have no references to groups within a pattern and no look-around, and take linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import re2

_NAME: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE: Final = re.compile(
    r"DEFAULT|RULE:\[(?P<count>\d*):(?P<format>[^\]]*)\](?:\((?P<pattern>[^)]*)\))?"
    r"(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?",
    re.ASCII,
)
_PARAMETER: Final = re.compile(r"\$(\d*)", re.ASCII)
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d)?", re.DOTALL | re.ASCII)
MAX_RULES: Final = 1000


class InvalidRule(ValueError):
    """A rule cannot be parsed; the text quotes the rule."""


class NoShortName(Exception):
    """No rule gives a user name for a name of Kerberos."""


class KerberosName(NamedTuple):
    """A name such as kafka/broker.example.com@EXAMPLE.COM. Without a realm, `service` has all of the name."""

    service: str
    host: str | None
    realm: str | None

    @classmethod
    def parse(cls, name: str) -> KerberosName:
        """Raises NoShortName for a name of more than two parts or realms."""
        match = _NAME.fullmatch(name)
        if match is not None:
            return cls(match[1], match[2], match[3])
        if "@" in name:
            raise NoShortName(f"Malformed Kerberos name: {name}")
        return cls(name, None, None)

    def __str__(self) -> str:
        host = "" if self.host is None else f"/{self.host}"
        return self.service + host + ("" if self.realm is None else f"@{self.realm}")


class _Expression(Protocol):
    """A compiled expression of RE2."""

    groups: int

    def fullmatch(self, text: str) -> object | None: ...

    def sub(self, replacement: Callable[[Any], str], text: str, count: int) -> str: ...


class PrincipalRule(NamedTuple):
    """A rule. `parts`: the number of parts of the names that it is for, None for DEFAULT. `case`: L, U or nothing."""

    text: str
    parts: int | None = None
    format: str = ""
    pattern: _Expression | None = None
    replaced: _Expression | None = None
    replacement: str = ""
    replaces_all: bool = False
    case: str = ""

    def apply(self, parts: Sequence[str], default_realm: str) -> str | None:
        """The user name of a name, or None if the rule is for others. `parts`: the realm first. Raises NoShortName."""
        found = self._found(parts, default_realm)
        if found is None:
            return None
        if "/" in found or "@" in found:
            raise NoShortName(f"Non-simple name {found} after auth_to_local rule {self.text}")
        return found.lower() if self.case == "L" else found.upper() if self.case == "U" else found

    def _found(self, parts: Sequence[str], default_realm: str) -> str | None:
        if self.parts is None:
            return parts[1] if parts[0] == default_realm else None
        if len(parts) - 1 != self.parts:
            return None
        text = _PARAMETER.sub(lambda match: self._parameter(parts, match[1]), self.format)
        if self.pattern is not None and self.pattern.fullmatch(text) is None:
            return None
        if self.replaced is None:
            return text
        return _substituted(self.replaced, self.replacement, text, 0 if self.replaces_all else 1)

    def _parameter(self, parts: Sequence[str], digits: str) -> str:
        if not digits:
            raise NoShortName(f"bad format in username mapping in {self.text}")
        number = int(digits[:9])
        if number >= len(parts):
            raise NoShortName(f"index {number} from {self.format} is outside of the valid range 0 to {len(parts) - 1}")
        return parts[number]


class ShortNamer(NamedTuple):
    """The rules of a broker, in order, and the realm that DEFAULT is for."""

    rules: tuple[PrincipalRule, ...]
    default_realm: str

    @classmethod
    def parse(cls, rules: Sequence[str], default_realm: str) -> ShortNamer:
        """Parse the rules of a setting, already split at commas. Raises InvalidRule."""
        if len(rules) > MAX_RULES:
            raise InvalidRule(f"there are {len(rules)} rules; the limit is {MAX_RULES}")
        return cls(tuple(parse_rule(rule) for rule in rules), default_realm)

    def short_name(self, name: str) -> str:
        """The user name of a name. Raises NoShortName."""
        parsed = KerberosName.parse(name)
        if parsed.host is None and parsed.realm is None:
            return parsed.service
        parts = [parsed.realm or "", parsed.service, *([] if parsed.host is None else [parsed.host])]
        for rule in self.rules:
            found = rule.apply(parts, self.default_realm)
            if found is not None:
                return found
        raise NoShortName(f"No rules apply to {parsed}, rules {', '.join(rule.text for rule in self.rules)}")


def parse_rule(text: str) -> PrincipalRule:
    """Raises InvalidRule."""
    match = _RULE.match(text)
    if match is None:
        raise InvalidRule(f"Invalid rule: {text}")
    if match.end() != len(text):
        raise InvalidRule(f"Invalid rule: `{text}`, unmatched substring: `{text[match.end() :]}`")
    if match["count"] is None:
        return PrincipalRule(text)
    if not 0 < len(match["count"]) < 10:
        raise InvalidRule(f"Invalid rule: `{text}`, a number of parts is missing or too large")
    replaced = _expression(text, match["from"])
    replacement = match["to"] or ""
    _check_replacement(text, replacement, 0 if replaced is None else replaced.groups)
    return PrincipalRule(
        text,
        int(match["count"]),
        match["format"],
        _expression(text, match["pattern"]),
        replaced,
        replacement,
        match["all"] is not None,
        match["case"] or "",
    )


def _expression(rule: str, pattern: str | None) -> _Expression | None:
    if pattern is None:
        return None
    try:
        options = re2.Options()
        options.log_errors = False
        compiled: _Expression = re2.compile(pattern, options)
    except re2.error as error:
        raise InvalidRule(f"Invalid rule: `{rule}`, the expression `{pattern}` is not one of RE2: {error}") from error
    return compiled


def _substituted(pattern: _Expression, replacement: str, text: str, count: int) -> str:
    """`text` with the matches replaced as Java does: `$1` is a group, a backslash quotes the next character."""

    def expand(found: Any) -> str:
        return _REFERENCE.sub(lambda reference: reference[1] or found.group(int(reference[2])) or "", replacement)

    return pattern.sub(expand, text, count)


def _check_replacement(rule: str, replacement: str, groups: int) -> None:
    """Java finds such a fault at the first login only."""
    if replacement.replace("\\\\", "").endswith("\\"):
        raise InvalidRule(f"Invalid rule: `{rule}`, the replacement ends with a backslash")
    for reference in _REFERENCE.finditer(replacement):
        if reference[1] is None and (reference[2] is None or int(reference[2]) > groups):
            raise InvalidRule(f"Invalid rule: `{rule}`, the replacement refers to a group that does not exist")
