"""The check before Avro is decoded: a value within its budget makes no decoder recurse deep, or allocate much.

A value of a few bytes can claim 2^60 items, or nest a recursive type a million times; decoders in C then crash or fill
the memory. So the value is walked first: every length lies within the value, and its items and depth are counted.

Source: Apache Avro's specification 1.12, "Binary Encoding".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.protocol.records.varint import read_varint

MOST_ITEMS: Final = 100_000
DEEPEST: Final = 192
_FIXED_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}


class OverBudget(ValueError):
    """The value does not fit its schema, or has too many items, or is nested too deep."""


def check(content: bytes, position: int, schema: Any, named: Mapping[str, Any]) -> None:
    """Walk the value at `position` to its end. `named`: the schemas of named types. Raises OverBudget."""
    walk = _Walk(content, position, named)
    try:
        walk.value(schema, 0)
    except IndexError:
        raise OverBudget("it ends too early") from None
    if walk.position != len(content):
        raise OverBudget(f"{len(content) - walk.position} bytes follow it")


class _Walk:
    def __init__(self, content: bytes, position: int, named: Mapping[str, Any]) -> None:
        self._content = content
        self.position = position
        self._named = named
        self._items = 0

    def value(self, schema: Any, depth: int) -> None:
        self._items += 1
        if self._items > MOST_ITEMS:
            raise OverBudget(f"it has more than {MOST_ITEMS} items")
        if depth > DEEPEST:
            raise OverBudget(f"it is nested deeper than {DEEPEST} levels")
        if isinstance(schema, list):
            self.value(self._choose(schema), depth + 1)
            return
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, dict | list):
            self.value(kind, depth + 1)
        elif kind in {"record", "error"}:
            for field in schema["fields"]:
                self.value(field["type"], depth + 1)
        elif kind in {"array", "map"}:
            self._blocks(schema["items" if kind == "array" else "values"], depth, has_keys=kind == "map")
        else:
            self._scalar(kind, schema, depth)

    def _scalar(self, kind: str, schema: Any, depth: int) -> None:
        if kind in _FIXED_SIZES:
            self._skip(_FIXED_SIZES[kind])
        elif kind in {"int", "long"}:
            self._number()
        elif kind in {"bytes", "string"}:
            self._skip(self._number())
        elif kind == "fixed":
            self._skip(schema["size"])
        elif kind == "enum":
            if not 0 <= self._number() < len(schema["symbols"]):
                raise OverBudget(f"it has a symbol that {schema['name']} lacks")
        elif kind in self._named:
            self.value(self._named[kind], depth + 1)
        else:
            raise OverBudget(f"its schema names the unknown type {kind!r}")

    def _choose(self, schemas: list[Any]) -> Any:
        index = self._number()
        if not 0 <= index < len(schemas):
            raise OverBudget(f"it has branch {index} of a union of {len(schemas)}")
        return schemas[index]

    def _blocks(self, schema: Any, depth: int, *, has_keys: bool) -> None:
        while count := self._number():
            if count < 0:
                count = -count
                self._number()  # the bytes of the block
            if count > MOST_ITEMS:
                raise OverBudget(f"it claims a block of {count} items")
            for _ in range(count):
                if has_keys:
                    self._skip(self._number())
                self.value(schema, depth + 1)

    def _number(self) -> int:
        number, self.position = read_varint(self._content, self.position)
        return number

    def _skip(self, count: int) -> None:
        if not 0 <= count <= len(self._content) - self.position:
            raise OverBudget(f"it claims {count} bytes and has {len(self._content) - self.position}")
        self.position += count
