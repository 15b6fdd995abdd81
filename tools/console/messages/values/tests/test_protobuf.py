"""Protobuf by a descriptor set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, struct_pb2, type_pb2

from headgate.tools.console.messages.values.protobuf import InvalidDescriptorSet, MessageTypes


@pytest.fixture
def types(tmp_path: Path) -> MessageTypes:
    files = descriptor_pb2.FileDescriptorSet()
    for module in (struct_pb2, descriptor_pb2):
        module.DESCRIPTOR.CopyToProto(files.file.add())
    path = tmp_path / "types.pb"
    path.write_bytes(files.SerializeToString())
    return MessageTypes(str(path))


def test_the_set_names_its_messages(types: MessageTypes) -> None:
    assert {"google.protobuf.Struct", "google.protobuf.DescriptorProto.ReservedRange"} <= set(types.names)
    assert not any(name.endswith("Entry") for name in types.names)


def test_a_message_becomes_a_value_for_json(types: MessageTypes) -> None:
    value = struct_pb2.Struct()
    value.update({"a": 1.5, "b": [True, None, "x"], "c": {"d": float("nan")}})
    shown = types.decode("google.protobuf.Struct", value.SerializeToString())
    assert json.loads(json.dumps(shown, allow_nan=False))["fields"]["c"] == {
        "struct_value": {"fields": {"d": {"number_value": "nan"}}}
    }
    assert shown["fields"]["b"]["list_value"]["values"][1] == {"null_value": "NULL_VALUE"}


def test_bombs_are_refused_by_a_sentence(types: MessageTypes) -> None:
    nested = b""
    for _ in range(2_000):
        nested = (
            struct_pb2.ListValue(values=[struct_pb2.Value(string_value="")]).SerializeToString()[:0]
            + b"\x0a"
            + bytes(_varint(len(nested) + 1 + len(_varint(len(nested)))))
            + b"\x32"
            + bytes(_varint(len(nested)))
            + nested
        )
    with pytest.raises(ValueError, match="it is no"):
        types.decode("google.protobuf.ListValue", nested)
    with pytest.raises(ValueError, match="more than 100000 items"):
        types.decode("google.protobuf.ListValue", b"\x0a\x00" * 200_000)
    with pytest.raises(ValueError, match="is not decoded"):
        types.decode("google.protobuf.ListValue", b"\x0a\x00" * 3_000_000)


def _varint(number: int) -> list[int]:
    out = []
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return [*out, number]


def test_wrong_names_bytes_and_files_are_sentences(types: MessageTypes, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no message 'shop\.Order'; it has google"):
        types.decode("shop.Order", b"")
    with pytest.raises(ValueError, match=r"it is no google\.protobuf\.Struct"):
        types.decode("google.protobuf.Struct", b"\xff\xff")
    path = tmp_path / "other"
    with pytest.raises(InvalidDescriptorSet, match="cannot be read"):
        MessageTypes(str(path))
    path.write_bytes(b"\xff" * 100)
    with pytest.raises(InvalidDescriptorSet, match="protoc --include_imports"):
        MessageTypes(str(path))
    assert type_pb2
