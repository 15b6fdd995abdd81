"""Values of Protocol Buffers as Arrow structs, by the package `protobuf`.

The schema is a descriptor set (`protoc --include_imports --descriptor_set_out=file`). A field that tracks presence is
null if it is not set; another has its default. Enums are names, maps are maps. Confluent's prefix goes on with the
path of the message in its file: a count, then an index for each level; a single zero byte means the first message.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headgate.protocol.records.varint import read_varint
from headgate.spark.load.formats.decoding import BYTES, ERROR, PREFIX_BYTES, PROTOBUF, RAW, Decoding
from headgate.spark.load.output.planning import LoadRefused

_DEEPEST = 30


class ProtobufDecoder:
    """Decodes the values of one message type."""

    def __init__(self, descriptor_set: str, message: str, *, is_confluent: bool) -> None:
        """`descriptor_set`: in base64. Raises LoadRefused."""
        try:
            from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
            from google.protobuf.message import DecodeError
        except ImportError:
            raise LoadRefused("Protobuf needs the package: pip install 'headgate[decode]'") from None
        try:
            files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(descriptor_set))
            pool = descriptor_pool.DescriptorPool()
            for file in files.file:
                pool.Add(file)
            self._descriptor = pool.FindMessageTypeByName(message)
        except (DecodeError, TypeError, ValueError) as error:
            raise LoadRefused(
                f"this is no descriptor set (protoc --include_imports --descriptor_set_out=file): {error}"
            ) from None
        except KeyError:
            names = [
                f"{file.package}.{message_type.name}".lstrip(".")
                for file in files.file
                for message_type in file.message_type
            ]
            raise LoadRefused(f"the descriptor set has no message {message}; it has {', '.join(names)}") from None
        self._class = message_factory.GetMessageClass(self._descriptor)
        self._decode_error = DecodeError
        self._type = message_type(self._descriptor)
        self._path = _path(self._descriptor) if is_confluent else None

    def decode(self, batch: Any) -> Any:
        """The batch with structs as values, and the columns of errors and of bytes."""
        values: list[Any] = []
        errors: list[str | None] = []
        contents = batch.column("value").to_pylist()
        for content in contents:
            value = error = None
            if content is not None:
                try:
                    value = to_value(self._class.FromString(self._payload(content)))
                except (self._decode_error, ValueError, IndexError) as problem:
                    error = f"the value is no {self._descriptor.full_name}: {problem}"
            values.append(value)
            errors.append(error)
        wrong = [content if error else None for content, error in zip(contents, errors, strict=True)]
        place = batch.schema.get_field_index("value")
        decoded = batch.set_column(place, pa.field("value", self._type), pa.array(values, self._type))
        return decoded.append_column(ERROR, pa.array(errors, pa.string())).append_column(
            BYTES, pa.array(wrong, pa.binary())
        )

    def _payload(self, content: bytes) -> bytes:
        """The message behind Confluent's prefix. Raises ValueError, IndexError."""
        if self._path is None:
            return content
        if len(content) <= PREFIX_BYTES or content[0]:
            raise ValueError("it lacks the five bytes before Confluent's formats")
        count, position = read_varint(content, PREFIX_BYTES)
        path = []
        for _ in range(min(count, _DEEPEST)):
            index, position = read_varint(content, position)
            path.append(index)
        if (path or [0]) != self._path:
            raise ValueError(f"it has the message with the indexes {path} of its file")
        return content[position:]


def python_decoder(decoding: Decoding) -> Callable[[Any], Any] | None:
    """Decodes a record batch in this process; None where values stay as they are. Raises LoadRefused."""
    if decoding.format != PROTOBUF:
        assert decoding.format == RAW, f"Spark decodes {decoding.format}"
        return None
    return ProtobufDecoder(decoding.schema, decoding.message, is_confluent=decoding.is_confluent).decode


def _path(descriptor: Any) -> list[int]:
    """The indexes of a message in its file, from the outermost message in."""
    path: list[int] = []
    while descriptor is not None:
        above = descriptor.containing_type
        siblings = list(above.nested_types if above else descriptor.file.message_types_by_name.values())
        path.insert(0, [message.full_name for message in siblings].index(descriptor.full_name))
        descriptor = above
    return path


def message_type(descriptor: Any, depth: int = 0) -> Any:
    """The Arrow type of a message. Raises LoadRefused for a message that contains itself."""
    if depth > _DEEPEST:
        raise LoadRefused(f"the message {descriptor.full_name} contains itself; Arrow has no such type")
    return pa.struct([pa.field(field.name, _field_type(field, depth)) for field in descriptor.fields])


def _field_type(field: Any, depth: int) -> Any:
    if _is_map(field):
        entry = field.message_type
        key, value = (entry.fields_by_name[name] for name in ("key", "value"))
        return pa.map_(_one_type(key, depth), _one_type(value, depth))
    return pa.list_(_one_type(field, depth)) if field.is_repeated else _one_type(field, depth)


def _one_type(field: Any, depth: int) -> Any:
    if field.cpp_type == field.CPPTYPE_MESSAGE:
        return message_type(field.message_type, depth + 1)
    if field.type == field.TYPE_BYTES:
        return pa.binary()
    # Spark has no unsigned types: 32 bits widen, 64 bits become decimals
    return {
        field.CPPTYPE_INT32: pa.int32(),
        field.CPPTYPE_UINT32: pa.int64(),
        field.CPPTYPE_INT64: pa.int64(),
        field.CPPTYPE_UINT64: pa.decimal128(20, 0),
        field.CPPTYPE_DOUBLE: pa.float64(),
        field.CPPTYPE_FLOAT: pa.float32(),
        field.CPPTYPE_BOOL: pa.bool_(),
        field.CPPTYPE_ENUM: pa.string(),
        field.CPPTYPE_STRING: pa.string(),
    }[field.cpp_type]


def _is_map(field: Any) -> bool:
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)


def to_value(message: Any) -> dict[str, Any]:
    """A message as the values that Arrow takes."""
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            found[field.name] = None
            continue
        value = getattr(message, field.name)
        if _is_map(field):
            inner = field.message_type.fields_by_name["value"]
            found[field.name] = [(key, _one_value(inner, value[key])) for key in value]
        elif field.is_repeated:
            found[field.name] = [_one_value(field, item) for item in value]
        else:
            found[field.name] = _one_value(field, value)
    return found


def _one_value(field: Any, value: Any) -> Any:
    if field.cpp_type == field.CPPTYPE_MESSAGE:
        return to_value(value)
    if field.cpp_type == field.CPPTYPE_ENUM:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value
