"""What the page shows of an Avro value is what a visitor may type."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headgate.tools.console.messages.values.avro import AvroSchema

FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "small", "type": ["null", "int", "string"], "default": None},
    {"name": "ratio", "type": "double", "default": 0},
    {"name": "raw", "type": "bytes", "default": "\u00ff"},
    {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}, "default": "ab"},
    {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}, "default": "RED"},
    {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "string"}}, "default": {}},
    {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
    {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
    {
        "name": "price",
        "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}],
        "default": None,
    },
    {"name": "next", "type": ["null", "Order"], "default": None},
]
SCHEMA = AvroSchema(json.dumps({"type": "record", "name": "shop.Order", "fields": FIELDS}))
WHOLE: dict[str, Any] = {
    "id": 1 << 40,
    "small": "x",
    "ratio": "nan",
    "raw": {"base64": "AP8="},
    "hash": "zz",
    "color": "BLUE",
    "tags": {"a": ["b", "c"]},
    "at": "2026-11-28T12:00:00.123000+00:00",
    "day": "2026-11-28",
    "price": "12.50",
}


def test_a_value_comes_back_as_typed() -> None:
    inner = {**WHOLE, "small": 7, "ratio": 1.5, "next": None}
    value = {**WHOLE, "next": inner}
    assert SCHEMA.decode(SCHEMA.encode(value)) == value


def test_fields_with_a_default_may_be_left_out() -> None:
    found = SCHEMA.decode(SCHEMA.encode({"id": 1}))
    assert (found["color"], found["raw"], found["hash"], found["tags"]) == ("RED", {"base64": "/w=="}, "ab", {})


@pytest.mark.parametrize(
    "fields, sentence",
    [
        ({"id": 1 << 63}, "the value.id is no whole number of 64 bits"),
        ({"id": True}, "the value.id is no whole number of 64 bits"),
        ({"small": 1.5}, "the value.small is not null; or the value.small is no whole number of 32 bits; or"),
        ({"ratio": "much"}, "the value.ratio is no number"),
        ({"raw": {"base64": "!"}}, "the value.raw is no base64"),
        ({"raw": 3}, "the value.raw is neither a text nor"),
        ({"hash": "a"}, "the value.hash has 1 bytes, not 2"),
        ({"color": "GREEN"}, "the value.color is not one of RED, BLUE"),
        ({"tags": {"a": [1]}}, r"the value.tags.a\[0\] is not a text"),
        ({"tags": []}, "the value.tags is not an object"),
        ({"at": "noon"}, ".*the value.at is no timestamp-millis"),
        ({"price": "x"}, ".*the value.price is no decimal"),
        ({"price": "1E+999999999"}, ".*the value.price is no decimal"),
        ({"price": "0E+999999999"}, ".*the value.price is no decimal"),
        ({"price": "NaN"}, ".*the value.price is no decimal"),
        ({"price": "123456.789"}, ""),
        ({"next": {}}, ".*the value.next.id is missing"),
        ({"other": 1}, "the value.other is no field of shop.Order"),
    ],
)
def test_a_value_that_does_not_fit_is_named(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{sentence}"):
        SCHEMA.encode({"id": 1, **fields})


def test_a_record_wants_an_object_with_its_fields() -> None:
    with pytest.raises(ValueError, match=r"^the value\.id is missing"):
        SCHEMA.encode({})
    with pytest.raises(ValueError, match=r"^the value is not an object"):
        SCHEMA.encode([])


def test_the_first_record_of_a_union_that_fits_is_taken() -> None:
    rows = [{"type": "record", "name": name, "fields": [{"name": name, "type": "int"}]} for name in ("a", "b")]
    union = AvroSchema(json.dumps(rows))
    assert union.decode(union.encode({"b": 3})) == {"b": 3}
    assert union.encode({"b": 3}) == b"\x02\x06"


@pytest.mark.parametrize("value", [None, True, 3, "x", [], {}])
def test_types_are_never_mixed(value: Any) -> None:
    kinds: list[Any] = [
        "null",
        "boolean",
        "long",
        "string",
        {"type": "array", "items": "int"},
        {"type": "map", "values": "int"},
    ]
    whole = AvroSchema(json.dumps(kinds))
    found = whole.decode(whole.encode(value))
    assert (found, type(found)) == (value, type(value))
    assert whole.encode(value)[0] == 2 * [None, True, 3, "x", [], {}].index(value)
