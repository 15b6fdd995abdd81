"""Avro values within their budget, and bombs, which are refused by a sentence before a decoder sees them."""

from __future__ import annotations

import decimal
import io
import json
from contextlib import suppress
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.records.varint import encode_varint
from headgate.protocol.tests.examples import share
from headgate.tools.console.messages.values.avro import AvroSchema

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]},
            },
        },
        {"name": "again", "type": {"type": "map", "values": "Line"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "PAID"]}},
        {"name": "raw", "type": "bytes"},
        {"name": "sum", "type": {"type": "fixed", "name": "Sum", "size": 2}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "flags", "type": "boolean"},
        {"name": "share", "type": "double"},
    ],
}
NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}


def encoded(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def decoded(schema: Any, content: bytes, *references: Any) -> Any:
    return AvroSchema(json.dumps(schema), [json.dumps(each) for each in references]).decode(content)


def order() -> dict[str, Any]:
    return {
        "id": 1 << 60,
        "note": None,
        "lines": [{"sku": "a"}, {"sku": "b"}],
        "again": {"x": {"sku": "c"}},
        "kind": "PAID",
        "raw": b"\xff\x00",
        "sum": b"ab",
        "price": decimal.Decimal("12.50"),
        "at": 1_700_000_000_000,
        "flags": True,
        "share": 0.5,
    }


def test_a_record_becomes_a_value_for_json() -> None:
    value = decoded(ORDER, encoded(ORDER, order()))
    assert json.loads(json.dumps(value)) == {
        **order(),
        "raw": {"base64": "/wA="},
        "sum": "ab",
        "price": "12.50",
        "at": "2023-11-14T22:13:20+00:00",
    }


def test_a_schema_may_refer_to_others() -> None:
    outer = {"type": "record", "name": "Outer", "fields": [{"name": "node", "type": "Node"}]}
    assert decoded(outer, b"\x02\x00", NODE) == {"node": {"next": {"next": None}}}


def test_a_large_value_is_not_decoded() -> None:
    with pytest.raises(ValueError, match="is not decoded"):
        decoded("bytes", encode_varint(5 << 20) + bytes(5 << 20))


@pytest.mark.parametrize(
    "text", ["", "{", "12", '{"type": "record"}', '"Unknown"', "[" * 100_000, "null", '{"type": "fixed", "name": "F"}']
)
def test_what_is_no_schema_is_refused_by_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"no Avro schema|does not fit|unknown type|claims"):
        AvroSchema(text).decode(b"abc")


@given(st.binary(max_size=200))
@settings(max_examples=share(200))
def test_any_bytes_are_a_value_or_a_sentence(content: bytes) -> None:
    schema = AvroSchema(json.dumps(ORDER))
    with suppress(ValueError):
        json.dumps(schema.decode(content), allow_nan=False)


@given(st.integers(0, 60), st.binary(max_size=30))
@settings(max_examples=share(100))
def test_the_budget_passes_what_fastavro_writes(depth: int, raw: bytes) -> None:
    node: Any = None
    for _ in range(depth // 2):
        node = {"next": node}
    assert decoded(NODE, encoded(NODE, {"next": node}))
    assert decoded("bytes", encoded("bytes", raw)) is not None
