"""Protobuf values by a descriptor set, as values for JSON.

The set comes from `protoc --include_imports --descriptor_set_out=file`. Names of fields are those of the schema; a
field that is not set is left out, as in Protobuf's own JSON; 64-bit numbers stay numbers. Protobuf's own decoder
refuses messages deeper than 100 levels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

MOST_BYTES: Final = 4 << 20
MOST_ITEMS: Final = 100_000
_MOST_SET_BYTES: Final = 16 << 20
_HOW: Final = "protoc --include_imports --descriptor_set_out=file"


class InvalidDescriptorSet(ValueError):
    """The file has no descriptor set; the text says why, and how to make one."""


class MessageTypes:
    """The message types of a descriptor set."""

    def __init__(self, path: str) -> None:
        """Raises InvalidDescriptorSet."""
        from google.protobuf import descriptor_pb2, descriptor_pool
        from google.protobuf.message import DecodeError

        try:
            with Path(path).open("rb") as file:
                content = file.read(_MOST_SET_BYTES + 1)
            if len(content) > _MOST_SET_BYTES:
                raise InvalidDescriptorSet(f"{path} is larger than {_MOST_SET_BYTES >> 20} MB")
            files = descriptor_pb2.FileDescriptorSet.FromString(content)
            self._pool = descriptor_pool.DescriptorPool()
            for each in files.file:
                self._pool.Add(each)
            self.names = sorted(name for each in files.file for name in _names(each))
        except OSError as error:
            raise InvalidDescriptorSet(f"{path} cannot be read: {error.strerror}") from None
        except (DecodeError, TypeError) as error:
            raise InvalidDescriptorSet(f"{path} is no descriptor set ({_HOW}): {error}") from None
        self._decode_error = DecodeError

    def decode(self, name: str, content: bytes, position: int = 0) -> Any:
        """The message of a type at `position` to the end, for JSON. Raises ValueError."""
        from google.protobuf import message_factory

        if len(content) - position > MOST_BYTES:
            raise ValueError(f"it has {len(content)} bytes; Protobuf of more than {MOST_BYTES} is not decoded")
        try:
            descriptor = self._pool.FindMessageTypeByName(name)
        except KeyError:
            raise ValueError(f"the descriptor set has no message {name[:100]!r}; it has {self._shown_names}") from None
        try:
            message = message_factory.GetMessageClass(descriptor).FromString(content[position:])
        except (self._decode_error, MemoryError) as error:
            raise ValueError(f"it is no {name}: {str(error) or type(error).__name__}") from None
        return _Converter().message(message)

    @property
    def _shown_names(self) -> str:
        more = len(self.names) - 5
        return ", ".join([*self.names[:5], f"and {more} more"] if more > 0 else self.names)


def _names(file: Any) -> list[str]:
    """The full names of the messages of a file, also of those within others."""
    found: list[str] = []
    pending = [(file.package, message) for message in file.message_type]
    while pending:
        above, message = pending.pop()
        name = f"{above}.{message.name}".lstrip(".")
        if not message.options.map_entry:
            found.append(name)
        pending += [(name, nested) for nested in message.nested_type]
    return found


class _Converter:
    """Messages to values for JSON, up to a number of items."""

    def __init__(self) -> None:
        self._items = 0

    def message(self, message: Any) -> dict[str, Any]:
        """Raises ValueError over the budget."""
        return {field.name: self._field(field, value) for field, value in message.ListFields()}

    def _field(self, field: Any, value: Any) -> Any:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            inner = field.message_type.fields_by_name["value"]
            return {str(key): self._item(inner, value[key]) for key in value}
        return [self._item(field, item) for item in value] if field.is_repeated else self._item(field, value)

    def _item(self, field: Any, value: Any) -> Any:
        self._items += 1
        if self._items > MOST_ITEMS:
            raise ValueError(f"it has more than {MOST_ITEMS} items")
        if field.cpp_type == field.CPPTYPE_MESSAGE:
            return self.message(value)
        if field.cpp_type == field.CPPTYPE_ENUM:
            known = field.enum_type.values_by_number.get(value)
            return value if known is None else known.name
        if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):  # noqa: PLR0124 - not a number
            return str(value)
        return value if isinstance(value, bool | int | float | str) else _bytes(value)


def _bytes(value: bytes) -> Any:
    from headgate.tools.log.decoding import as_json

    return as_json(value)
