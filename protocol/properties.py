"""A parser of Java's `.properties` text, compatible with `java.util.Properties.load`.

A key ends at the first unescaped `=`, `:` or blank. A line with an odd number of backslashes at its end continues in
the next line, without that line's leading blanks. `#` and `!` begin a comment only at the beginning of a line. Source:
the Java API documentation of `Properties.load(Reader)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """One setting, and the line on which it begins (from 1)."""

    name: str
    value: str
    line: int


class MalformedProperties(ValueError):
    """An invalid escape; the text names the line."""


def parse(text: str) -> list[Property]:
    """Every setting in file order, repeated names included. Raises MalformedProperties."""
    return [_property(content, line) for content, line in _logical_lines(text)]


def _logical_lines(text: str) -> Iterator[tuple[str, int]]:
    parts: list[str] = []
    begun = 0
    for number, natural in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1):
        stripped = natural.lstrip(_BLANKS)
        if not parts:
            begun = number
            if not stripped or stripped[0] in "#!":
                continue
        continues = _ends_in_odd_backslashes(stripped)
        parts.append(stripped[:-1] if continues else stripped)
        if not continues:
            yield "".join(parts), begun
            parts = []
    if parts:
        yield "".join(parts), begun


def _ends_in_odd_backslashes(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _property(content: str, line: int) -> Property:
    end = _key_end(content)
    rest = content[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return Property(_unescape(content[:end], line), _unescape(rest, line), line)


def _key_end(content: str) -> int:
    position = 0
    while position < len(content):
        character = content[position]
        if character == "\\":
            position += 1
        elif character in "=:" or character in _BLANKS:
            break
        position += 1
    return min(position, len(content))


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    result: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "\\" and position < len(text):
            character, position = _escape(text, position, line)
        result.append(character)
    # Java writes characters beyond 16 bits as surrogate pairs.
    return "".join(result).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(text: str, position: int, line: int) -> tuple[str, int]:
    """The character of an escape, and the position after it. `position` is after the backslash."""
    character = text[position]
    if character != "u":
        return _ESCAPES.get(character, character), position + 1
    digits = text[position + 1 : position + 5]
    if len(digits) < 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
        raise MalformedProperties(f"line {line}: \\u must be followed by four hexadecimal digits, not {digits!r}")
    return chr(int(digits, 16)), position + 5
