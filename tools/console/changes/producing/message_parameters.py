"""A message that a visitor has written: key, value, headers and time from the texts of a form. Pure."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from headgate.protocol.records.batch import Header, Record
from headgate.tools.console.messages.values import texts
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.output import printable

NULL, TEXT, JSON, HEX, BASE64, AVRO = "null", "text", "json", "hex", "base64", "avro"
HEADER_FORMATS: Final = (TEXT, JSON, HEX, BASE64, NULL)
VALUE_FORMATS: Final = (*HEADER_FORMATS, AVRO)
KEY_FORMATS: Final = (NULL, TEXT, JSON, HEX, BASE64, AVRO)
MOST_HEADERS: Final = 1_000
LONGEST_TIME: Final = 40
_SHOWN_CHARACTERS: Final = 100
_HEADERS: Final = 'headers is a list as in [{"name": "trace", "format": "text", "value": "4711"}]'
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class WrittenMessage(NamedTuple):
    """A message that is not sent yet. `timestamp_ms`: None for the moment in which it is sent.

    `schemas`: the names of the schemas of `key` and `value`, where these are Avro.
    """

    key: bytes | None
    value: bytes | None
    headers: list[Header]
    timestamp_ms: int | None
    schemas: Mapping[str, str] = {}

    def record(self, now_ms: int) -> Record:
        """The record; `now_ms` is its time if the visitor has given none."""
        timestamp_ms = now_ms if self.timestamp_ms is None else self.timestamp_ms
        return Record(timestamp=timestamp_ms, key=self.key, value=self.value, headers=self.headers)


class AvroContent(NamedTuple):
    """The bytes of a key or a value, and the name of its schema."""

    content: bytes
    schema: str


EncodeAvro = Callable[[str, Any], AvroContent]
"""Encodes a value of JSON for `key` or `value`. Raises BadParameter."""


def parse_message(parameters: Parameters, encode_avro: EncodeAvro) -> WrittenMessage:
    """Parse `key`, `key_format`, `value`, `value_format`, `headers` and `timestamp`. Raises BadParameter.

    Without `key_format` the key is null; without `value_format` the value is text.
    """
    contents: dict[str, bytes | None] = {}
    schemas: dict[str, str] = {}
    for part, formats in (("key", KEY_FORMATS), ("value", VALUE_FORMATS)):
        form, text = parameters.choice(f"{part}_format", formats), parameters.text(part, "")
        if form == AVRO:
            parse_content(part, JSON, text)
            contents[part], schemas[part] = encode_avro(part, _loaded(part, text))
        else:
            contents[part] = parse_content(part, form, text)
    headers = parse_headers(parameters.text("headers", ""))
    timestamp_ms = parse_timestamp(parameters.text("timestamp", "").strip())
    return WrittenMessage(contents["key"], contents["value"], headers, timestamp_ms, schemas)


def _loaded(part: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:  # a number of thousands of digits
        raise BadParameter(f"the {part} cannot be read: {error}") from None


def parse_content(part: str, form: str, text: str) -> bytes | None:
    """The bytes of a key, a value or a header; None for null. `form`: one of HEADER_FORMATS. Raises BadParameter."""
    if form == NULL:
        return None
    try:
        return _PARSERS[form](text)
    except UnicodeEncodeError:
        raise BadParameter(f"the {part} has half of a character; write its bytes as hexadecimal digits") from None
    except RecursionError:
        raise BadParameter(f"the {part} is nested too deep to be checked as JSON; write it as text") from None
    except ValueError as error:
        raise BadParameter(f"the {part} is {error}") from None


def _json(text: str) -> bytes:
    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is no value of JSON")

    try:
        json.loads(text, parse_constant=refuse, parse_int=str, parse_float=str)
    except ValueError as error:
        raise ValueError(f"no JSON: {error}") from None
    return text.encode()


def _hexadecimal(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ValueError("no list of bytes in hexadecimal digits; write two digits a byte, as in 00 ff 1a") from None


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error as error:
        raise ValueError(f"no base64: {error}") from None


_PARSERS: Final[dict[str, Callable[[str], bytes]]] = {
    TEXT: str.encode,
    JSON: _json,
    HEX: _hexadecimal,
    BASE64: _base64,
}


def parse_headers(text: str) -> list[Header]:
    """Headers of a JSON list, in its order; a name may come several times. Raises BadParameter."""
    try:
        rows = [(row["name"], row.get("format", TEXT), row.get("value", "")) for row in json.loads(text or "[]")]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise BadParameter(_HEADERS) from None
    if not all(isinstance(each, str) for row in rows for each in row):
        raise BadParameter(_HEADERS)
    if len(rows) > MOST_HEADERS:
        raise BadParameter(f"there are {len(rows)} headers; a message from here has at most {MOST_HEADERS}")
    return [_header(*row) for row in rows]


def _header(name: str, form: str, text: str) -> Header:
    shown = printable(name[:_SHOWN_CHARACTERS])
    if form not in HEADER_FORMATS:
        raise BadParameter(
            f"the header {shown} has the format {form[:40]!r}, which is not one of {', '.join(HEADER_FORMATS)}"
        )
    if not name:
        raise BadParameter("a header has no name")
    parse_content("name of a header", TEXT, name)
    return name, parse_content(f"header {shown}", form, text)


def parse_timestamp(text: str) -> int | None:
    """Milliseconds since 1970, or a time as 2026-11-28T12:00:00Z; None for an empty text. Raises BadParameter.

    A time without a zone is UTC, as in Kafka's own tools.
    """
    if not text:
        return None
    found = -1
    if text.isascii() and text.isdecimal() and len(text) <= 18:
        found = int(text)
    elif len(text) <= LONGEST_TIME:
        found = _milliseconds(text)
    if found < 0:
        raise BadParameter(
            f"timestamp={text[:LONGEST_TIME]!r} is no time since 1970; write 2026-11-28T12:00:00Z, or milliseconds"
        )
    return found


def _milliseconds(text: str) -> int:
    """-1 for a text that is no time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return -1
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


def shorten_content(content: bytes | None) -> str:
    """The first characters of a text, or the first bytes as hexadecimal digits."""
    if content is None:
        return NULL
    if not texts.looks_like_text(content):
        shown = texts.hexadecimal(content, _SHOWN_CHARACTERS // 3)
        return shown + " …" * (len(content) > _SHOWN_CHARACTERS // 3)
    shown = texts.read_text(content, _SHOWN_CHARACTERS + 1)[0]
    return printable(shown[:_SHOWN_CHARACTERS]) + "…" * (len(shown) > _SHOWN_CHARACTERS)
