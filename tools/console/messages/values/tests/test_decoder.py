"""The choice of a format, and what is shown where it fails."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from headgate.tools.console.messages.values import decoder
from headgate.tools.console.messages.values.decoder import ValueDecoder
from headgate.tools.schema_registry import AVRO, RegisteredSchema, SchemaError, SchemaMissing

PREFIX = b"\x00\x00\x00\x00"


class Schemas:
    """Schemas in memory; `asked` are all questions."""

    def __init__(self, by_name: Mapping[int | str, RegisteredSchema | SchemaError]) -> None:
        self._by_name = by_name
        self.asked: list[int | str] = []

    def by_id(self, number: int) -> RegisteredSchema:
        return self._find(number)

    def by_subject(self, subject: str) -> RegisteredSchema:
        return self._find(subject)

    def _find(self, name: int | str) -> RegisteredSchema:
        self.asked.append(name)
        found = self._by_name.get(name, SchemaMissing("there is none"))
        if isinstance(found, SchemaError):
            raise found
        return found


@pytest.mark.parametrize(
    "content, shown",
    [
        (b'{"a": 1}', "json"),
        (b"[1]", "json"),
        (b"{no json}", "text"),
        (b"hello", "text"),
        (b"", "text"),
        (b"12", "text"),
        (bytes(8), "hex"),
        (b"\x00\x00\x00\x00\x07abc", "hex"),
    ],
)
def test_the_choice_follows_the_bytes(content: bytes, shown: str) -> None:
    assert ValueDecoder().decode(content).format == shown


def test_a_named_schema_decides_first() -> None:
    schemas = Schemas(
        {
            1: RegisteredSchema(AVRO, '"string"'),
            2: RegisteredSchema("JSON", "{}"),
            3: RegisteredSchema("PROTOBUF", "syntax"),
        }
    )
    values = ValueDecoder(schemas=schemas)
    avro = values.decode(PREFIX + b"\x01\x06abc")
    assert (avro.format, avro.data, avro.schema) == ("avro", "abc", "1 (Confluent)")
    assert values.decode(b"\x00" + (1).to_bytes(8, "big") + b"\x06abc").schema == "1 (Apicurio)"
    assert values.decode(PREFIX + b'\x02{"a": 1}').text(100, has_lines=False) == '{"a": 1}'
    assert values.decode(PREFIX + b"\x03\x00\x08\x05").text(100, has_lines=True) == "1: 5"
    assert schemas.asked == [1, 2, 3]


def test_bytes_that_do_not_fit_their_schema_say_so() -> None:
    values = ValueDecoder(schemas=Schemas({1: RegisteredSchema(AVRO, '"string"')}))
    shown = values.decode(PREFIX + b"\x01\xff")
    assert shown.format == "hex"
    assert shown.problem is not None
    assert "schema 1" in shown.problem


def test_unknown_ids_are_asked_for_a_few_times_only() -> None:
    schemas = Schemas({})
    values = ValueDecoder(schemas=schemas)
    for number in range(1, 1000):
        assert values.decode(b"\x00" + number.to_bytes(4, "big") + b"abc").problem is None
    assert len(schemas.asked) == 20


def test_a_silent_registry_is_asked_once() -> None:
    schemas = Schemas({number: SchemaError("it is silent") for number in range(1, 50)})
    values = ValueDecoder(schemas=schemas)
    shown = [values.decode(b"\x00" + number.to_bytes(4, "big") + b"abc") for number in range(1, 50)]
    assert len(schemas.asked) == 1
    assert all(each.problem is not None and "it is silent" in each.problem for each in shown)


@pytest.mark.parametrize(
    "wanted, content, problem",
    [
        ("json", b"{", "not json"),
        ("avro", b"abc", "started without schemas"),
        ("protobuf", b"abc", "started without a descriptor set"),
        ("protobuf-raw", b"\xff", "not protobuf-raw"),
    ],
)
def test_a_wanted_format_that_fails_says_why(wanted: str, content: bytes, problem: str) -> None:
    shown = ValueDecoder(wanted).decode(content)
    assert shown.format in ("text", "hex")
    assert shown.problem is not None
    assert problem in shown.problem


def test_avro_without_a_prefix_takes_the_schema_of_the_subject() -> None:
    schemas = Schemas({"orders-value": RegisteredSchema(AVRO, '"string"')})
    shown = ValueDecoder("avro", "orders-value", schemas).decode(b"\x06abc")
    assert (shown.data, shown.schema) == ("abc", "orders-value")


@pytest.mark.parametrize("wanted", decoder.FORMATS)
@pytest.mark.parametrize("content", [b"", b"\x00", b"abc", b"\xff" * 50, b"[" * 1000, PREFIX + b"\x01abc"])
def test_any_bytes_are_shown_in_any_format(wanted: str, content: bytes) -> None:
    schemas = Schemas({1: RegisteredSchema(AVRO, '{"type": "array", "items": "null"}')})
    shown = ValueDecoder(wanted, "x", schemas).decode(content)
    for has_lines in (False, True):
        json.dumps(shown.text(100, has_lines=has_lines))
        assert len(shown.text(10, has_lines=has_lines)) <= 10
