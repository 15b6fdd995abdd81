"""The data of a node: JSON objects, decimal numbers and text, read within bounds; names as parts of paths.

Kafka writes compact JSON, in the order of its hash tables, and text that is not ASCII as UTF-8 (Jackson).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final, NoReturn

from headgate.gateway.metadata.new_topics import check_name
from headgate.protocol.errors import KafkaError

# Four times ZooKeeper's default (jute.maxbuffer), which people raise for topics with very many partitions
MAX_DATA_BYTES: Final = 4 << 20
MAX_INT32, MAX_INT64 = 2**31 - 1, 2**63 - 1
MAX_DEPTH: Final = 64
"""The deepest JSON; Kafka's has at most four levels. Beyond it Python may fail, depending on its stack."""
NO_FIELDS: Final[Mapping[str, Any]] = {}
_REQUIRED: Final[Any] = object()
_TOO_DEEP: Final = "the JSON is nested too deeply"
_SHOWN = 60

_DECIMAL: Final = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
# ZooKeeper's PathUtils. It sees UTF-16: a character above U+FFFF is a pair of surrogates there
_ILLEGAL: Final = re.compile("[\x00-\x1f/\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")
_ESCAPES: Final = re.compile(rb"\\u00([0-9a-f]{2})")


class InvalidNode(ValueError):
    """The data or the name of a node is not one that Kafka 0.8.2 to 3.9 writes."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"ZooKeeper's {path}: {reason}")
        self.path = path
        self.reason = reason


def encode_object(members: Mapping[str, Any]) -> bytes:
    """Compact JSON in the given order. Raises ValueError for text that UTF-8 cannot encode (lone surrogates)."""
    data = json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()
    # Jackson writes these escapes in capitals
    return _ESCAPES.sub(lambda found: b"\\u00" + found[1].upper(), data) if b"\\u00" in data else data


class NodeFields:
    """The members of a JSON object. Each getter raises InvalidNode for a wrong type, and for a missing member."""

    def __init__(self, path: str, members: dict[str, Any]) -> None:
        self.path = path
        self._members = members
        self._known: set[str] = set()

    def integer(self, name: str, default: Any = _REQUIRED, *, low: int = -1, high: int = MAX_INT32) -> int:
        value = self._get(name, default)
        return value if value is default else self._integer(name, value, low, high)

    def decimal(self, name: str) -> int:
        """An integer that is written as text."""
        return decode_decimal(self.path, self.text(name).encode(), low=0)

    def text(self, name: str, default: Any = _REQUIRED) -> str:
        value = self._get(name, default)
        if value is not default and not isinstance(value, str):
            self._fail(name, value, "a string")
        return value  # type: ignore[no-any-return]

    def timestamp_ms(self) -> int:
        """`timestamp`, informational only: text or a number; -1 for any other value."""
        value = self._get("timestamp", -1)
        if isinstance(value, str) and _DECIMAL.fullmatch(value):
            value = int(value)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return value if is_number and 0 <= value <= MAX_INT64 else -1

    def integers(self, name: str, default: Any = _REQUIRED) -> tuple[int, ...]:
        value = self._get(name, default)
        return value if value is default else self._integers(name, value)

    def texts(self, name: str) -> list[str]:
        value = self._get(name, _REQUIRED)
        if not isinstance(value, list) or not all(isinstance(element, str) for element in value):
            self._fail(name, value, "an array of strings")
        return value

    def mapping_of_text(self, name: str) -> dict[str, str]:
        """A member that is an object of strings; empty where it is missing."""
        members = self._object(name)
        for key, value in members.items():
            if not isinstance(value, str):
                self._fail(f"{name}.{key}", value, "a string")
        return members

    def mapping_of_integers(self, name: str) -> dict[str, int]:
        """A member that is an object of integers; empty where it is missing."""
        return {key: self._integer(f"{name}.{key}", value, 0, MAX_INT32) for key, value in self._object(name).items()}

    def mapping_of_replicas(self, name: str) -> dict[int, tuple[int, ...]]:
        """A member that is an object of arrays of broker ids, by partition; empty where it is missing."""
        found = {}
        for key, value in self._object(name).items():
            index = decode_decimal(self.path, key.encode(), low=0, high=MAX_INT32)
            found[index] = self._integers(f"{name}.{key}", value)
        return found

    def mapping_of_objects(self, name: str) -> Iterator[tuple[str, NodeFields]]:
        """The members of a member, each an object; none where it is missing."""
        for key, value in self._object(name).items():
            yield key, self._fields(f"{name}.{key}", value)

    def objects(self, name: str) -> Iterator[NodeFields]:
        """A member that is an array of objects."""
        value = self._get(name, _REQUIRED)
        if not isinstance(value, list):
            self._fail(name, value, "an array")
        for element in value:
            yield self._fields(name, element)

    def unknown(self) -> Mapping[str, Any]:
        """The members that no getter has read."""
        return {name: value for name, value in self._members.items() if name not in self._known} or NO_FIELDS

    def fail(self, reason: str) -> NoReturn:
        raise InvalidNode(self.path, reason)

    def _get(self, name: str, default: Any) -> Any:
        self._known.add(name)
        value = self._members.get(name, default)
        if value is _REQUIRED:
            self.fail(f"`{name}` is missing")
        return value

    def _object(self, name: str) -> dict[str, Any]:
        value = self._get(name, {})
        if not isinstance(value, dict):
            self._fail(name, value, "an object")
        return value

    def _fields(self, name: str, value: object) -> NodeFields:
        if not isinstance(value, dict):
            self._fail(name, value, "an object")
        return NodeFields(self.path, value)

    def _integer(self, name: str, value: object, low: int, high: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self._fail(name, value, f"an integer from {low} to {high}")
        return value

    def _integers(self, name: str, value: object) -> tuple[int, ...]:
        if not isinstance(value, list):
            self._fail(name, value, "an array of integers")
        return tuple([self._integer(name, element, 0, MAX_INT32) for element in value])

    def _fail(self, name: str, value: object, wanted: str) -> NoReturn:
        self.fail(f"`{shown(name)}` must be {wanted}, and is {shown(value)}")


def decode_fields(path: str, data: bytes | None) -> NodeFields:
    """The JSON object of a node. Raises InvalidNode."""
    value = decode_json(path, data)
    if not isinstance(value, dict):
        raise InvalidNode(path, f"the data must be a JSON object, and are {shown(value)}")
    return NodeFields(path, value)


def decode_json(path: str, data: bytes | None) -> Any:
    """The JSON value of a node. Raises InvalidNode."""
    text = decode_text(path, data)
    try:
        value = json.loads(text, parse_float=_refuse, parse_constant=_refuse)
        if "\\u" in text:  # an escape can be half a surrogate pair, which could not be written again
            encode_object({"": value})
    except RecursionError:
        raise InvalidNode(path, _TOO_DEEP) from None
    except ValueError as error:
        raise InvalidNode(path, f"the data are not JSON ({error}): {shown(text)}") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _is_deeper(value, MAX_DEPTH):
        raise InvalidNode(path, _TOO_DEEP)
    return value


def decode_text(path: str, data: bytes | None) -> str:
    """The text of a node. Raises InvalidNode."""
    if data is None:
        raise InvalidNode(path, "the node has no data")
    if len(data) > MAX_DATA_BYTES:
        raise InvalidNode(path, f"{len(data)} bytes exceed the limit of {MAX_DATA_BYTES}")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidNode(path, f"the data are not UTF-8: {shown(data[:_SHOWN])}") from None


def decode_decimal(path: str, data: bytes | None, *, low: int = -MAX_INT64 - 1, high: int = MAX_INT64) -> int:
    """Data that are one decimal number, without a plus, leading zeros or blanks. Raises InvalidNode."""
    text = decode_text(path, data)
    if not _DECIMAL.fullmatch(text) or not low <= int(text) <= high:
        raise InvalidNode(path, f"{shown(text)} is not a decimal number from {low} to {high}")
    return int(text)


def encode_decimal(number: int) -> bytes:
    return b"%d" % number


def child_path(parent: str, name: str) -> str:
    """The path of a child. Raises InvalidNode for a name that ZooKeeper cannot have."""
    if name in {"", ".", ".."}:
        raise InvalidNode(parent, f"{name!r} is not the name of a node")
    found = _ILLEGAL.search(name)
    if found is not None:
        raise InvalidNode(parent, f"{shown(name)} cannot be in ZooKeeper: a node's name has no {found[0]!r}")
    return f"{parent}/{name}"


def topic_child_path(parent: str, topic: str) -> str:
    """The path of the child with a topic's name. Raises InvalidNode for a name that Kafka refuses."""
    try:
        check_name(topic)
    except KafkaError as error:
        raise InvalidNode(parent, str(error)) from None
    return f"{parent}/{topic}"


def number_child_path(parent: str, number: int) -> str:
    """The path of the child with a broker's id or a partition's index. Raises InvalidNode for a negative one."""
    if not 0 <= number <= MAX_INT32:
        raise InvalidNode(parent, f"{number} is not from 0 to {MAX_INT32}")
    return f"{parent}/{number}"


def child_number(parent: str, name: str) -> int:
    """The broker's id or the partition's index in a child's name. Raises InvalidNode."""
    return decode_decimal(child_path(parent, name), name.encode(), low=0, high=MAX_INT32)


def with_unknown(members: dict[str, Any], unknown: Mapping[str, Any]) -> bytes:
    """The known members, followed by the unknown ones. A known member takes precedence."""
    return encode_object(members | {name: value for name, value in unknown.items() if name not in members})


def shown(value: object) -> str:
    """A short literal for an error."""
    text = repr(value if not isinstance(value, str | bytes | list) else value[:_SHOWN])
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _is_deeper(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        inner = [
            element.values() if isinstance(element, dict) else element
            for element in level
            if isinstance(element, dict | list)
        ]
        level = list(chain.from_iterable(inner))
        if not level:
            return False
    return True


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text[:_SHOWN]} is not an integer")
