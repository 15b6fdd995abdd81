"""`ssl.principal.mapping.rules`: from the distinguished name of a client's certificate to the name of its principal.

The rules are those of Kafka's `SslPrincipalMapper` (KIP-371): `RULE:pattern/replacement/[LU]` and `DEFAULT`, separated
by commas; the first rule whose pattern matches the whole name counts. As in Java, the replacement then takes the place
of every match in the name, so `RULE:.*/x/` gives `xx`: the end of a name is an empty match.

Patterns are matched by RE2, in linear time, since a peer chooses the name. Java's syntax that RE2 lacks or reads in
another way is refused when the rules are parsed: flags as `(?i)`, look-around, back references within a pattern,
possessive quantifiers, `&&` and classes within classes. A replacement that could never give a name is refused too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

MAX_NAME_BYTES = 32_767
"""The longest distinguished name that rules are tried on: no string of the older protocol is longer."""
MAX_PATTERN_BYTES = 16_384
MAX_PROGRAM_BYTES = 4 << 20
_MAX_QUOTED = 200
_BLANKS = " \t\n\v\f\r"
_RULE = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_END_OF_RULE = re.compile(rf"[{_BLANKS}]*(?:,[{_BLANKS}]*|\Z)")
_ANY_CHARACTER = r"[^\n\r\x{85}\x{2028}\x{2029}]"
"""Java's `.`; that of RE2 excludes the line feed alone."""
_LETTERS_AFTER_BACKSLASH = frozenset("dDwWsSbBAztnrfaxpP")
_REPETITION = re.compile(r"\{\d+(?:,\d*)?\}")
_BRACED_ESCAPE = re.compile(r"\\[pPx]\{\w+\}")
_GROUP_START = re.compile(r"\(\?(?::|<[a-zA-Z][a-zA-Z0-9]*>)")
_GROUP_NAME = re.compile(r"\{([a-zA-Z][a-zA-Z0-9]*)\}")
_DIGITS = frozenset("0123456789")


class _Pattern(Protocol):
    """A compiled pattern of RE2 over bytes, whose module has no types."""

    groups: int
    groupindex: Mapping[bytes, int]

    def fullmatch(self, text: bytes) -> _Match | None: ...

    def search(self, text: bytes, pos: int) -> _Match | None: ...


class _Match(Protocol):
    def start(self) -> int: ...

    def end(self) -> int: ...

    def group(self, number: int) -> bytes | None: ...


class MappingRuleProblem(ValueError):
    """A rule that cannot be used; the text says why, and what to do."""


class PrincipalProblem(ValueError):
    """A certificate gives no name of a principal: its client cannot be authenticated, as in Kafka."""


class _Rule(NamedTuple):
    """A compiled rule. `replacement`: texts, and numbers of groups. `case`: L, U or empty."""

    pattern: _Pattern
    replacement: tuple[str | int, ...]
    case: str

    def apply(self, name: str) -> str | None:
        """The name of the principal; None if the pattern does not match all of `name`."""
        data = name.encode()
        if self.pattern.fullmatch(data) is None:
            return None
        parts, position = [], 0
        for match in _matches(self.pattern, data):
            parts.append(data[position : match.start()])
            parts += (part.encode() if isinstance(part, str) else match.group(part) or b"" for part in self.replacement)
            position = match.end()
        result = b"".join((*parts, data[position:])).decode()
        return result.lower() if self.case == "L" else result.upper() if self.case == "U" else result


class PrincipalMapping:
    """The parsed rules of `ssl.principal.mapping.rules`; None stands for `DEFAULT`, the name itself."""

    def __init__(self, rules: tuple[_Rule | None, ...]) -> None:
        self._rules = rules

    def name_of(self, distinguished_name: str) -> str:
        """The name of the principal, without `User:`. Raises PrincipalProblem."""
        shown = repr(distinguished_name[:_MAX_QUOTED])
        if len(distinguished_name.encode()) > MAX_NAME_BYTES:
            raise PrincipalProblem(f"the distinguished name {shown}... is longer than {MAX_NAME_BYTES} bytes")
        for rule in self._rules:
            name = distinguished_name if rule is None else rule.apply(distinguished_name)
            if name is not None:
                return name
        raise PrincipalProblem(
            f"no rule of ssl.principal.mapping.rules matches {shown}; add one, or DEFAULT as the last rule"
        )


def parse(text: str) -> PrincipalMapping:
    """Parse the rules. Raises MappingRuleProblem.

    Without any rule no client with a certificate gets a name, as in Kafka.
    """
    rules: list[_Rule | None] = []
    text = text.strip("".join(map(chr, range(0x21))))  # Java's trim
    position = 0
    while position < len(text):
        matched = _RULE.match(text, position)
        end = matched.end() if matched else position + len("DEFAULT") * text.startswith("DEFAULT", position)
        following = _END_OF_RULE.match(text, end)
        if following is None:
            raise _invalid(text[position:], "a rule is RULE:pattern/replacement/, with L or U behind it, or DEFAULT")
        if matched:
            rules.append(_compiled(*matched.groups()))
        elif end > position:
            rules.append(None)
        position = max(following.end(), position + 1)
    return PrincipalMapping(tuple(rules))


def _compiled(pattern: str, replacement: str, case: str) -> _Rule:
    compiled = _compile(pattern)
    return _Rule(compiled, tuple(_parts(replacement, compiled.groups, _names(compiled))), case)


def _names(compiled: _Pattern) -> Mapping[str, int]:
    return {name.decode(): number for name, number in compiled.groupindex.items()}


def _compile(pattern: str) -> _Pattern:
    import re2  # here, because most brokers have no rule

    source = "".join(_translated(pattern)).encode()
    if len(source) > MAX_PATTERN_BYTES:
        raise _invalid(pattern, f"the pattern has more than {MAX_PATTERN_BYTES} bytes")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_PROGRAM_BYTES
    try:
        compiled: _Pattern = re2.compile(source, options)
        return compiled
    except re2.error as error:
        reason = error.args[0] if error.args else b""
        raise _invalid(
            pattern, f"RE2: {reason.decode(errors='replace') if isinstance(reason, bytes) else reason}"
        ) from None
    finally:
        re2.purge()  # RE2's module would cache the program


def _translated(pattern: str) -> Iterator[str]:
    """The parts of a pattern of Java in RE2's syntax, where both mean the same. Raises MappingRuleProblem."""
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            part = _escape(pattern, position)
        elif character == "[":
            part = _character_class(pattern, position)
        elif pattern.startswith("(?", position):
            part = _bounded(_GROUP_START, pattern, position, "RE2 has groups (?:...) and (?<name>...) only")
        elif character == "{":
            part = _bounded(_REPETITION, pattern, position, "a repetition is {2}, {2,} or {2,3}; else write \\{")
        else:
            part = character
        yield _ANY_CHARACTER if part == "." else part
        position += len(part)


def _bounded(expected: re.Pattern[str], pattern: str, position: int, advice: str) -> str:
    found = expected.match(pattern, position)
    if found is None:
        raise _invalid(pattern, advice)
    return found[0]


def _escape(pattern: str, position: int) -> str:
    letter = pattern[position + 1]  # `_RULE` takes no single backslash
    if letter.isalnum() and letter not in _LETTERS_AFTER_BACKSLASH:
        raise _invalid(pattern, f"\\{letter} is not supported: RE2 has no back reference, and reads some letters anew")
    braced = _BRACED_ESCAPE.match(pattern, position)
    return braced[0] if braced else f"\\{letter}"


def _character_class(pattern: str, start: int) -> str:
    """The class that begins at `start`, with its brackets."""
    position = start + 1
    while position < len(pattern) and (pattern[position] != "]" or pattern[start + 1 : position] in {"", "^"}):
        if pattern[position] == "[" or pattern.startswith("&&", position):
            raise _invalid(pattern, "RE2 has no classes within classes; write \\[ and \\& for the characters")
        position += len(_escape(pattern, position)) if pattern[position] == "\\" else 1
    return pattern[start : position + 1]


def _parts(replacement: str, groups: int, names: Mapping[str, int]) -> Iterator[str | int]:
    """Texts and numbers of groups. Raises MappingRuleProblem for a reference that Java refuses in every login."""
    position = 0
    while position < len(replacement):
        character, following = replacement[position], replacement[position + 1 : position + 2]
        position += 1
        if character == "\\":
            yield following
            position += 1
        elif character != "$":
            yield character
        elif following in _DIGITS:
            number, position = _group_number(replacement, position, groups)
            # A number without a group stays as text in Kafka, but not where the pattern has no group at all
            if number > groups == 0:
                raise _invalid(
                    replacement, f"${number} names a group, and the pattern has none; write \\$ for the sign"
                )
            yield number if number <= groups else f"${number}"
        else:
            named = _GROUP_NAME.match(replacement, position)
            if named is None or named[1] not in names:
                raise _invalid(replacement, "$ is followed by the number or the {name} of a group; else write \\$")
            yield names[named[1]]
            position = named.end()


def _group_number(replacement: str, position: int, groups: int) -> tuple[int, int]:
    """As many digits as name a group, at least one, as Java reads them; and the position behind them."""
    number, position = int(replacement[position]), position + 1
    while replacement[position : position + 1] in _DIGITS:
        longer = number * 10 + int(replacement[position])
        if longer > groups:
            break
        number, position = longer, position + 1
    return number, position


def _matches(pattern: _Pattern, data: bytes) -> Iterator[_Match]:
    """The matches in `data`, one after another, as Java finds them: also an empty one right behind another.

    RE2's module finds an empty match twice if it has passed over text before it.
    """
    position = 0
    while position <= len(data):
        match = pattern.search(data, position)
        if match is None:
            return
        yield match
        position = match.end()
        if match.start() == position:
            position += 1
            while position < len(data) and data[position] & 0xC0 == 0x80:  # within a character
                position += 1


def _invalid(shown: str, reason: str) -> MappingRuleProblem:
    return MappingRuleProblem(f"{shown[:_MAX_QUOTED]!r}: {reason}")
