"""Bytes as text and as hexadecimal digits, and JSON with line breaks, in time linear in the shown part."""

from __future__ import annotations

import json
import re
from typing import Any, Final

SHOWN_CHARACTERS: Final = 1 << 20
"""Of one value in a message's details. The bytes can be downloaded whole."""
_PARSED_BYTES: Final = 4 << 20
"""Larger JSON is recognised by its first and last byte, and not parsed."""
_HEX_BYTES: Final = 64 * 1024
_MOST_STRANGE: Final = 4  # one character in so many
_INDENT: Final = "  "
_DEEPEST_INDENT: Final = 40
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_UNREADABLE: Final = re.compile(r"\\x[0-9a-f]{2}")
_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{},:]|[^\s"\[\]{},:]+', re.DOTALL)
_OPENING, _CLOSING = "[{", "]}"
_PROBE_BYTES: Final = 4096


def read_text(content: bytes, limit: int = SHOWN_CHARACTERS) -> tuple[str, bool]:
    """The first `limit` characters, and whether all bytes of these are UTF-8; others become a backslash, x, digits."""
    part = content[: 4 * limit]
    try:
        return part.decode()[:limit], True
    except UnicodeDecodeError as error:
        # A character that the cut has split is no fault
        if len(part) < len(content) and error.start >= len(part) - 3:
            return part[: error.start].decode()[:limit], True
        return part.decode(errors="backslashreplace")[:limit], False


def looks_like_text(content: bytes) -> bool:
    """Whether people would read the bytes as text: few bytes are no UTF-8, or control characters."""
    part = content[:_PROBE_BYTES]
    text, is_valid = read_text(part, _PROBE_BYTES)
    strange = sum(1 for _ in _CONTROLS.finditer(text))
    if not is_valid:
        strange += sum(1 for _ in _UNREADABLE.finditer(text))
    return strange * _MOST_STRANGE <= len(part)


def hexadecimal(content: bytes, limit: int = _HEX_BYTES) -> str:
    """The first `limit` bytes as digits, two for a byte, with a space between bytes."""
    return content[:limit].hex(" ")


def parse_json(content: bytes) -> Any:
    """The value of JSON of a usual size. Raises ValueError, also for `_PARSED_BYTES` and more, and deep nesting."""
    if len(content) > _PARSED_BYTES:
        raise ValueError(f"it has {len(content)} bytes; JSON of more than {_PARSED_BYTES} is not parsed")
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except MemoryError:
        raise ValueError("its values take too much memory") from None


def looks_like_json(content: bytes) -> bool:
    """Whether the bytes are an object or an array. A large one is judged by its ends."""
    head = content[:64].lstrip()[:1]
    if head not in (b"{", b"["):
        return False
    if len(content) > _PARSED_BYTES:
        return content[-64:].rstrip()[-1:] == (b"}" if head == b"{" else b"]")
    try:
        parse_json(content)
    except ValueError:
        return False
    return True


def break_lines(text: str, limit: int = SHOWN_CHARACTERS) -> str:
    """JSON with a line for each value, as written: order, numbers and escapes stay. At most `limit` characters.

    Text that is not JSON comes out with other white space, and no worse.
    """
    parts: list[str] = []
    depth = size = 0
    before = ""
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token in _CLOSING:
            depth = max(0, depth - 1)
            lead = "" if before in _OPENING and before else _line(depth)
        elif token in (",", ":"):
            lead = ""
        elif before == ":":
            lead = " "
        else:
            lead = _line(depth) if before else ""
        if token in _OPENING:
            depth += 1
        parts += (lead, token)
        size += len(lead) + len(token)
        before = token[0]
        if size >= limit:
            break
    return "".join(parts)[:limit]


def _line(depth: int) -> str:
    return "\n" + _INDENT * min(depth, _DEEPEST_INDENT)
