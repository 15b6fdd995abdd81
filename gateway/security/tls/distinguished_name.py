"""The distinguished name of a certificate as text, byte for byte as Java's `X500Principal.getName()` (RFC 2253).

Kafka makes the principal of a client from this text, so ACLs and `super.users` have it. Libraries of Python give other
texts, and lose what Java shows of an attribute of unknown type: its encoding, in hexadecimal. So the name is read
from its DER here; the rest of a certificate is left to `cryptography` and OpenSSL.

Java's oddities, of JDK 17: all values are taken for UTF-8, also of BMPString; the last attribute stands first; only
the nine types of RFC 2253 have a keyword.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_SEQUENCE, _SET, _OBJECT_IDENTIFIER, _VERSION = 0x30, 0x31, 0x06, 0xA0
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_STRING_TAGS = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString."""
_ESCAPED = re.compile(r'[,=+<>#;"\\]')
_OUTER_BLANKS = re.compile(r"^[ \r]+|[ \r]+\Z")
_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()


class MalformedName(ValueError):
    """Bytes that are no certificate, or no distinguished name."""


class _Element(NamedTuple):
    """One DER element: its tag, its content, and all its bytes."""

    tag: int
    content: bytes
    encoding: bytes


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER. Raises MalformedName."""
    outer = _only(certificate, _SEQUENCE, "a certificate")
    fields = [field for field in _elements(_only_first(outer, "a certificate").content) if field.tag != _VERSION]
    # RFC 5280, 4.1: [version], serial number, signature, issuer, validity, subject
    if len(fields) < 5:
        raise MalformedName("the certificate ends before its subject")
    return text_of(fields[4].encoding)


def text_of(name: bytes) -> str:
    """The text of a distinguished name in DER (X.501, `Name`). Raises MalformedName."""
    attributes = [_relative_name(element) for element in _elements(_only(name, _SEQUENCE, "a name"))]
    return ",".join(reversed(attributes))


def _relative_name(element: _Element) -> str:
    if element.tag != _SET:
        raise MalformedName("a relative distinguished name is no set")
    return "+".join(map(_attribute, _elements(element.content)))


def _attribute(element: _Element) -> str:
    parts = list(_elements(element.content))
    if element.tag != _SEQUENCE or len(parts) != 2 or parts[0].tag != _OBJECT_IDENTIFIER:
        raise MalformedName("an attribute of a name is no pair of type and value")
    type_ = _dotted(parts[0].content)
    keyword = _KEYWORDS.get(type_)
    if keyword is None or parts[1].tag not in _STRING_TAGS:
        return f"{keyword or type_}=#{parts[1].encoding.hex()}"
    return f"{keyword}={_escaped(_decoded(parts[1].content))}"


def _decoded(value: bytes) -> str:
    """UTF-8 as Java decodes it: an encoded surrogate, even cut, is one wrong character, not one a byte."""
    return _ENCODED_SURROGATE.sub(_REPLACEMENT, value).decode("utf-8", "replace")


def _escaped(text: str) -> str:
    escaped = _ESCAPED.sub(r"\\\g<0>", text).replace("\0", r"\00")
    return _OUTER_BLANKS.sub(lambda blanks: "".join(f"\\{blank}" for blank in blanks[0]), escaped)


def _dotted(content: bytes) -> str:
    """An object identifier in dotted form (X.690, 8.19)."""
    if not content or content[-1] & 0x80:
        raise MalformedName("the type of an attribute ends within a number")
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _only(data: bytes, tag: int, what: str) -> bytes:
    """The content of the one element that `data` is."""
    elements = list(_elements(data))
    if len(elements) != 1 or elements[0].tag != tag:
        raise MalformedName(f"the bytes are not {what}")
    return elements[0].content


def _only_first(content: bytes, what: str) -> _Element:
    for element in _elements(content):
        return element
    raise MalformedName(f"the bytes are not {what}")


def _elements(data: bytes) -> Iterator[_Element]:
    """The DER elements of `data`, one after another (X.690, 8.1)."""
    position = 0
    while position < len(data):
        start, content = position, position + 2
        if content > len(data) or data[start] & 0x1F == 0x1F:
            raise MalformedName("an element of the name is cut, or has a long tag")
        length = data[start + 1]
        if length & 0x80:
            content += length & 0x7F
            length = int.from_bytes(data[start + 2 : content], "big") if content - start <= 6 else len(data)
        position = content + length
        if position > len(data):
            raise MalformedName("an element of the name is cut")
        yield _Element(data[start], data[content:position], data[start:position])
