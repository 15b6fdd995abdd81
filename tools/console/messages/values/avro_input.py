"""Values of JSON that a visitor has typed as values for an Avro schema: the inverse of what the page shows.

Bytes are texts, or `{"base64": "..."}`; times, decimals and UUIDs are texts as `isoformat` and `str` write them. Of a
union the first type that fits is taken. Nothing is lost: a name that the schema has not is refused.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
from collections.abc import Callable, Mapping
from typing import Any, Final

_INT_BITS: Final = {"int": 32, "long": 64}
_OBJECT: Final = "an object"
_NAMES: Final = {
    "null": "null",
    "boolean": "true or false",
    "string": "a text",
    "array": "a list",
    "map": _OBJECT,
    "record": _OBJECT,
    "error": _OBJECT,
}
_MOST_DIGITS: Final = 10_000
"""Of a decimal: `1E+999999999` has the length of a gigabyte."""


def _decimal(text: str) -> decimal.Decimal:
    """Raises ValueError, ArithmeticError."""
    found = decimal.Decimal(text)
    if not found.is_finite() or abs(found.adjusted()) > _MOST_DIGITS:
        raise ValueError
    return found


_LOGICAL: Final[dict[str, Callable[[str], Any]]] = {
    "date": dt.date.fromisoformat,
    "time-millis": dt.time.fromisoformat,
    "time-micros": dt.time.fromisoformat,
    "timestamp-millis": dt.datetime.fromisoformat,
    "timestamp-micros": dt.datetime.fromisoformat,
    "local-timestamp-millis": dt.datetime.fromisoformat,
    "local-timestamp-micros": dt.datetime.fromisoformat,
    "decimal": _decimal,
}


def typed(value: Any, schema: Any, named: Mapping[str, Any], path: str = "the value") -> Any:
    """The value for fastavro's writer. `schema`: parsed; `named`: those that it names. Raises ValueError."""
    if isinstance(schema, list):
        return _of_union(value, schema, named, path)
    if isinstance(schema, str):
        return typed(value, named[schema], named, path) if schema in named else _primitive(value, schema, path)
    kind, logical = schema["type"], schema.get("logicalType")
    if isinstance(value, str) and logical in _LOGICAL:
        return _logical(value, logical, path)
    match kind:
        case "record" | "error" if isinstance(value, dict):
            return _record(value, schema, named, path)
        case "enum":
            if value in schema["symbols"]:
                return value
            raise ValueError(f"{path} is not one of {', '.join(schema['symbols'][:20])}")
        case "fixed":
            content: bytes = _bytes(value, path)
            if len(content) == schema["size"]:
                return content
            raise ValueError(f"{path} has {len(content)} bytes, not {schema['size']}")
        case "array" if isinstance(value, list):
            return [typed(each, schema["items"], named, f"{path}[{index}]") for index, each in enumerate(value)]
        case "map" if isinstance(value, dict):
            return {name: typed(each, schema["values"], named, f"{path}.{name}") for name, each in value.items()}
    return _primitive(value, kind, path) if isinstance(kind, str) else typed(value, kind, named, path)


def _of_union(value: Any, schemas: list[Any], named: Mapping[str, Any], path: str) -> Any:
    reasons = []
    for schema in schemas:
        try:
            found = typed(value, schema, named, path)
        except ValueError as error:
            reasons.append(str(error))
            continue
        whole = named.get(schema, schema) if isinstance(schema, str) else schema
        is_record = isinstance(whole, dict) and whole["type"] in ("record", "error")
        return (whole["name"], found) if is_record else found
    raise ValueError("; or ".join(reasons[:5]) or f"{path} has no type")


def _record(value: dict[str, Any], schema: Any, named: Mapping[str, Any], path: str) -> dict[str, Any]:
    fields = {field["name"]: field for field in schema["fields"]}
    for name in value:
        if name not in fields:
            raise ValueError(f"{path}.{name} is no field of {schema['name']}")
    found = {}
    for name, field in fields.items():
        if name in value:
            found[name] = typed(value[name], field["type"], named, f"{path}.{name}")
        elif "default" in field:
            found[name] = _default(field, named, f"{path}.{name}")
        else:
            raise ValueError(f"{path}.{name} is missing")
    return found


def _default(field: Any, named: Mapping[str, Any], path: str) -> Any:
    """A default of bytes is a text with a character for each byte."""
    schema, default = field["type"], field["default"]
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind in ("bytes", "fixed") and isinstance(default, str):
        return default.encode("latin-1")
    return typed(default, schema, named, path)


def _primitive(value: Any, kind: str, path: str) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "null" if value is None:
            return None
        case "boolean" if isinstance(value, bool):
            return value
        case "string" if isinstance(value, str):
            return value
        case "bytes":
            return _bytes(value, path)
        case "int" | "long":
            bits = _INT_BITS[kind]
            if isinstance(value, int) and is_number and -(1 << bits - 1) <= value < 1 << bits - 1:
                return value
            raise ValueError(f"{path} is no whole number of {bits} bits")
        case "float" | "double":
            if is_number or value in ("nan", "inf", "-inf"):
                return float(value)
            raise ValueError(f"{path} is no number")
    raise ValueError(f"{path} is not {_NAMES.get(kind, kind)}")


def _logical(value: str, logical: str, path: str) -> Any:
    try:
        return _LOGICAL[logical](value)
    except (ValueError, ArithmeticError):
        raise ValueError(f"{path} is no {logical}") from None


def _bytes(value: Any, path: str) -> bytes:
    match value:
        case str():
            return value.encode()
        case {"base64": str() as digits} if len(value) == 1:
            try:
                return base64.b64decode(digits, validate=True)
            except ValueError:
                raise ValueError(f"{path} is no base64") from None
    raise ValueError(f'{path} is neither a text nor {{"base64": "..."}}')
