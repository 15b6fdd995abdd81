"""Bombs of Avro: each is refused by a sentence before a decoder sees it."""

from __future__ import annotations

import json

import pytest

from headgate.protocol.records.varint import encode_varint
from headgate.tools.console.messages.values.avro import AvroSchema

NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
BOMBS = {
    "recursion": (NODE, b"\x02" * 1_000_000 + b"\x00", "nested deeper"),
    "a block of nulls": ({"type": "array", "items": "null"}, encode_varint(1 << 60) + b"\x00", "claims a block"),
    "many blocks of nulls": ({"type": "array", "items": "null"}, encode_varint(90_000) * 9 + b"\x00", "more than"),
    "arrays of arrays of nothing": (
        {"type": "array", "items": {"type": "array", "items": "null"}},
        (encode_varint(99_000) + encode_varint(99_000) + b"\x00") * 5,
        "more than",
    ),
    "a length": ("bytes", encode_varint(1 << 60) + b"abc", "claims"),
    "a negative length": ("string", encode_varint(-5) + b"abc", "claims"),
    "a cut": ("double", b"abc", "claims"),
    "bytes behind": ("null", b"abc", "3 bytes follow"),
    "a branch that does not exist": (["null", "string"], encode_varint(7), "branch 7"),
    "a symbol that does not exist": ({"type": "enum", "name": "E", "symbols": ["A"]}, encode_varint(3), "symbol"),
    "a varint without end": ("long", b"\xff" * 30, "ends too early"),
    "a year that does not exist": (
        {"type": "long", "logicalType": "timestamp-millis"},
        encode_varint(1 << 62),
        "does not fit",
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_by_a_sentence(name: str) -> None:
    schema, content, sentence = BOMBS[name]
    with pytest.raises(ValueError, match=sentence):
        AvroSchema(json.dumps(schema)).decode(content)
