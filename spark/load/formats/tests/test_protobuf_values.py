from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pytest

from headgate.spark.load.formats.decoding import BYTES, ERROR
from headgate.spark.load.formats.protobuf_values import ProtobufDecoder
from headgate.spark.load.output.planning import LoadRefused

pytest.importorskip("google.protobuf")


def file_descriptor(*, is_recursive: bool = False) -> Any:
    """A message M, whose fields have most types, with a message N and a map in it, and O without fields."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto(name="m.proto", package="p", syntax="proto3")
    kind = file.enum_type.add(name="E")
    for number, name in enumerate(("ZERO", "ONE")):
        kind.value.add(name=name, number=number)
    message = file.message_type.add(name="M")
    file.message_type.add(name="O")
    inner = message.nested_type.add(name="N")
    inner.field.add(name="x", number=1, type=Field.TYPE_BYTES, label=1)
    if is_recursive:
        inner.field.add(name="y", number=2, type=Field.TYPE_MESSAGE, type_name=".p.M", label=1)
    entry = message.nested_type.add(name="FEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=Field.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=Field.TYPE_MESSAGE, type_name=".p.M.N", label=1)
    message.oneof_decl.add(name="_c")
    message.field.add(name="a", number=1, type=Field.TYPE_INT64, label=1)
    message.field.add(name="b", number=2, type=Field.TYPE_STRING, label=3)
    message.field.add(name="c", number=3, type=Field.TYPE_UINT64, label=1, oneof_index=0, proto3_optional=True)
    message.field.add(name="d", number=4, type=Field.TYPE_ENUM, type_name=".p.E", label=1)
    message.field.add(name="e", number=5, type=Field.TYPE_MESSAGE, type_name=".p.M.N", label=1)
    message.field.add(name="f", number=6, type=Field.TYPE_MESSAGE, type_name=".p.M.FEntry", label=3)
    return file


def descriptor_set(*, is_recursive: bool = False) -> bytes:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    data: bytes = FileDescriptorSet(file=[file_descriptor(is_recursive=is_recursive)]).SerializeToString()
    return data


def message_class() -> Any:
    from google.protobuf import descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    pool.Add(file_descriptor())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.M"))


def decode(values: list[bytes | None], name: str = "p.M", *, is_confluent: bool = False) -> list[dict[str, Any]]:
    decoder = ProtobufDecoder(base64.b64encode(descriptor_set()).decode(), name, is_confluent=is_confluent)
    batch = pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary()), "offset": list(range(len(values)))})
    found: list[dict[str, Any]] = decoder.decode(batch).to_pylist()
    return found


@pytest.mark.slow  # pyarrow imports pandas for maps in Python
def test_fields_become_columns() -> None:
    message = message_class()(a=-1, b=["x", ""], c=(1 << 64) - 1, d=1, e={"x": b"z"}, f={"k": {"x": b"v"}})
    full, empty, null, wrong, unknown = decode([message.SerializeToString(), b"", None, b"\xff", b"\x20\x07"])
    assert full["value"] == {
        "a": -1,
        "b": ["x", ""],
        "c": (1 << 64) - 1,
        "d": "ONE",
        "e": {"x": b"z"},
        "f": [("k", {"x": b"v"})],
    }
    assert empty["value"] == {"a": 0, "b": [], "c": None, "d": "ZERO", "e": None, "f": []}
    assert null == {"value": None, "offset": 2, ERROR: None, BYTES: None}
    assert (wrong["value"], wrong[BYTES]) == (None, b"\xff")
    assert wrong[ERROR].startswith("the value is no p.M: ")
    assert unknown["value"]["d"] == "7"


@pytest.mark.slow
def test_the_prefix_of_confluent_names_the_message() -> None:
    prefix, inner = b"\0\0\0\0\7", b"\x0a\x01z"
    first, path, nested, short, cut, bad = (
        decode([value], "p.M.N" if "nested" in name else "p.M", is_confluent=True)[0]
        for name, value in {
            "first": prefix + b"\0" + b"\x08\x05",
            "path": prefix + b"\x02\x00" + b"\x08\x05",
            "nested": prefix + b"\x04\x00\x00" + inner,
            "short": b"\0\0",
            "cut": prefix + b"\x08",
            "bad": prefix + b"\x02\x02",
        }.items()
    )
    assert first["value"]["a"] == path["value"]["a"] == 5
    assert nested["value"] == {"x": b"z"}
    assert "lacks the five bytes" in short[ERROR]
    assert cut[ERROR] is not None
    assert "has the message with the indexes [1]" in bad[ERROR]


def test_what_is_no_schema_is_refused() -> None:
    with pytest.raises(LoadRefused, match=r"has no message q; it has p.M, p.O"):
        decode([], "q")
    with pytest.raises(LoadRefused, match="no descriptor set"):
        ProtobufDecoder(base64.b64encode(b"\xff").decode(), "p.M", is_confluent=False)
    with pytest.raises(LoadRefused, match="contains itself"):
        ProtobufDecoder(base64.b64encode(descriptor_set(is_recursive=True)).decode(), "p.M", is_confluent=False)
