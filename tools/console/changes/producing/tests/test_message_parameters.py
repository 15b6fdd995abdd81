"""Texts of a form become exactly these bytes, or one sentence."""

from __future__ import annotations

import json

import pytest

from headgate.protocol.records.batch import Record
from headgate.tools.console.changes.producing.message_parameters import (
    BASE64,
    HEX,
    JSON,
    MOST_HEADERS,
    NULL,
    TEXT,
    AvroContent,
    WrittenMessage,
    parse_content,
    parse_headers,
    parse_message,
    parse_timestamp,
    shorten_content,
)
from headgate.tools.console.parameters import BadParameter, Parameters


@pytest.mark.parametrize(
    "form, text, content",
    [
        (NULL, "left over", None),
        (TEXT, "", b""),
        (TEXT, " grün\r\n", " grün\r\n".encode()),
        (
            JSON,
            '{"b": 1.0,\n "a": 1e400, "b": 12345678901234567890}',
            b'{"b": 1.0,\n "a": 1e400, "b": 12345678901234567890}',
        ),
        (JSON, "1" * 5000, b"1" * 5000),
        (JSON, " null ", b" null "),
        (HEX, "00 Ff\n1a", b"\x00\xff\x1a"),
        (HEX, "", b""),
        (BASE64, "AP8\n=", b"\x00\xff"),
        (BASE64, "", b""),
    ],
)
def test_a_content_is_sent_as_written(form: str, text: str, content: bytes | None) -> None:
    assert parse_content("value", form, text) == content


@pytest.mark.parametrize(
    "form, text, sentence",
    [
        (TEXT, "\ud800", "the value has half of a character"),
        (JSON, '"\ud800"', "the value has half of a character"),
        (JSON, "", "the value is no JSON: Expecting value: line 1 column 1"),
        (JSON, "{\n'a': 1}", "the value is no JSON: .* line 2 column 1"),
        (JSON, "NaN", "the value is no JSON: NaN is no value of JSON"),
        (JSON, "[" * 100_000, "the value is nested too deep"),
        (HEX, "00 f", "the value is no list of bytes in hexadecimal digits"),
        (HEX, "0g", "the value is no list of bytes in hexadecimal digits"),
        (BASE64, "AP8", "the value is no base64: Incorrect padding"),
        (BASE64, "A?8=", "the value is no base64"),
        (BASE64, "grün", "the value is "),
    ],
)
def test_a_content_that_does_not_fit_its_format(form: str, text: str, sentence: str) -> None:
    with pytest.raises(BadParameter, match=f"^{sentence}"):
        parse_content("value", form, text)


def no_avro(part: str, value: object) -> AvroContent:
    raise AssertionError(part)


def parsed(*pairs: tuple[str, str]) -> WrittenMessage:
    return parse_message(Parameters(pairs), no_avro)


def test_avro_is_json_for_its_encoder() -> None:
    given: list[tuple[str, object]] = []

    def encode(part: str, value: object) -> AvroContent:
        given.append((part, value))
        return AvroContent(b"encoded", "7")

    pairs = [("key_format", "text"), ("value", '{"a": 1}'), ("value_format", "avro")]
    message = parse_message(Parameters(pairs), encode)
    assert (message.key, message.value, message.schemas) == (b"", b"encoded", {"value": "7"})
    assert given == [("value", {"a": 1})]
    with pytest.raises(BadParameter, match=r"^the value is no JSON"):
        parsed(("value", "{"), ("value_format", "avro"))
    with pytest.raises(BadParameter, match=r"^the value cannot be read: Exceeds the limit"):
        parsed(("value", "1" * 5000), ("value_format", "avro"))


def test_an_empty_key_is_not_null() -> None:
    assert parsed() == WrittenMessage(None, b"", [], None)
    assert parsed(("key_format", "text")).key == b""
    assert parsed(("key", "k"), ("key_format", "null")).key is None
    assert parsed(("value_format", "null")).value is None
    with pytest.raises(BadParameter, match="key_format=protobuf is not one of"):
        parsed(("key_format", "protobuf"))


def test_headers_keep_their_order_and_repetitions() -> None:
    rows = [
        {"name": "b", "value": "1"},
        {"name": "a", "format": "null"},
        {"name": "b", "value": "1"},
        {"name": "=", "format": "hex", "value": "00"},
    ]
    assert parse_headers(json.dumps(rows)) == [("b", b"1"), ("a", None), ("b", b"1"), ("=", b"\x00")]
    assert parse_headers("") == []


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("{", "headers is a list as in"),
        ("3", "headers is a list as in"),
        ('{"name": "a"}', "headers is a list as in"),
        ('[{"value": "a"}]', "headers is a list as in"),
        ('[{"name": "a", "value": 1}]', "headers is a list as in"),
        ('[{"name": ""}]', "a header has no name"),
        ('[{"name": "a", "format": "avro"}]', "the header a has the format 'avro'"),
        ('[{"name": "a", "format": "hex", "value": "x"}]', "the header a is no list of bytes"),
        ('[{"name": "\\ud800"}]', "the name of a header has half of a character"),
        (json.dumps([{"name": "a"}] * (MOST_HEADERS + 1)), "there are 1001 headers"),
    ],
)
def test_headers_that_cannot_be_used(text: str, sentence: str) -> None:
    with pytest.raises(BadParameter, match=f"^{sentence}"):
        parse_headers(text)


@pytest.mark.parametrize(
    "text, found",
    [
        ("", None),
        ("0", 0),
        ("1795867200123", 1795867200123),
        ("2026-11-28T12:00:00Z", 1795867200000),
        ("2026-11-28T13:00:00.123+01:00", 1795867200123),
        ("2026-11-28 12:00", 1795867200000),
        ("9999-12-31T23:59:59.999Z", 253402300799999),
    ],
)
def test_a_time_is_milliseconds_or_a_date(text: str, found: int | None) -> None:
    assert parse_timestamp(text) == found


@pytest.mark.parametrize("text", ["now", "-1", "1969-12-31", "1" * 19, "2026-13-01", "٣"])
def test_a_text_that_is_no_time(text: str) -> None:
    with pytest.raises(BadParameter, match="is no time since 1970"):
        parse_timestamp(text)


def test_a_message_without_a_time_has_that_of_its_sending() -> None:
    message = WrittenMessage(b"k", None, [("a", None)], None)
    assert message.record(7) == Record(timestamp=7, key=b"k", value=None, headers=[("a", None)])
    assert message._replace(timestamp_ms=3).record(7).timestamp == 3


@pytest.mark.parametrize(
    "content, shown",
    [
        (None, "null"),
        (b"", ""),
        (b"a\nb\x1b", "a\\nb\\x1b"),
        (b"x" * 100, "x" * 100),
        (b"x" * 101, "x" * 100 + "…"),
        (b"\x00\xff\xfe", "00 ff fe"),
        (b"\xff" * 34, "ff " * 32 + "ff …"),
    ],
)
def test_contents_are_shown_shortened(content: bytes | None, shown: str) -> None:
    assert shorten_content(content) == shown
