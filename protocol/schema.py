"""Declarations of messages: one class a message, one range of versions a field.

    class FetchTopic(Struct):
        topic: string = v("0-12")
        topic_id: uuid = v("13+")
        partitions: array[FetchPartition] = v("0+")

    class FetchRequest(Message, key=1, versions="0-18", flexible="12+"):
        cluster_id: nullable_string = v("12+", tag=0, default=None)
        max_wait_ms: int32 = v("0+")
        topics: array[FetchTopic] = v("0+")

A type serves two readers. `int32` is `Annotated[int, Int32sb]`: mypy sees an int, `tree` sees the construct. Fields
stand in the order of the wire. Their names are those of Kafka's message definitions, in snake_case. Every field has a
default, so a constructor call names only the other values. The default is the one given to `v`, or that of the type:
0, False, "", b"", [], ZERO_UUID, a struct of defaults; None for records.

A version without a field does not write the field, and reads the field as its default. A module of declarations has no
`from __future__ import annotations`: `StructMeta` needs the types themselves, not their names.

Instances have slots and compare by value. **Treat instances as immutable**: they share their default structs.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar, Union, dataclass_transform, get_args, get_origin

from headgate.protocol import wire
from headgate.protocol.errors import ErrorCode
from headgate.protocol.steps import lazy_map
from headgate.protocol.wire import ZERO_UUID, Construct, Length, Splice

T = TypeVar("T")


class VersionedType(NamedTuple):
    """A type whose encoding depends on the version.

    `lower(flexible, nullable)` returns the construct. `default` is the default of a field of this type.
    """

    lower: Callable[[bool, bool], Construct]
    default: Any


def _text(flexible: bool, nullable: bool) -> Construct:
    return wire.Text(Length.compact(nullable) if flexible else Length.short(nullable))


def _bytes(flexible: bool, nullable: bool) -> Construct:
    return wire.Blob(_array_length(flexible, nullable))


def _records(flexible: bool, nullable: bool) -> Construct:
    return wire.Records(_array_length(flexible, nullable))


def _array_length(flexible: bool, nullable: bool) -> Length:
    return Length.compact(nullable) if flexible else Length.long(nullable)


class _ArrayMarker:
    """Marks an annotation as an array. The element type is that of the list."""


_TEXT = VersionedType(_text, "")
_BYTES = VersionedType(_bytes, b"")
_RECORDS = VersionedType(_records, None)
_ARRAY = _ArrayMarker()

boolean = Annotated[bool, wire.Flag]
int8 = Annotated[int, wire.Int8sb]
int16 = Annotated[int, wire.Int16sb]
uint16 = Annotated[int, wire.Int16ub]
int32 = Annotated[int, wire.Int32sb]
uint32 = Annotated[int, wire.Int32ub]
int64 = Annotated[int, wire.Int64sb]
float64 = Annotated[float, wire.Float64b]
uuid = Annotated[bytes, wire.UUID]
string = Annotated[str, _TEXT]
nullable_string = Annotated[str | None, _TEXT]
blob = Annotated[bytes, _BYTES]
nullable_blob = Annotated[bytes | None, _BYTES]
record_data = Annotated[bytes | bytearray | memoryview | Splice | None, _RECORDS]
array = Annotated[list[T], _ARRAY]
nullable_array = Annotated[list[T] | None, _ARRAY]


class Versions(NamedTuple):
    """A range of versions, inclusive. Written "2-5", "2+", "2", or "none"."""

    first: int
    last: int

    @staticmethod
    @functools.cache
    def parse(text: str) -> Versions:
        if text == "none":
            return Versions(0, -1)
        if text.endswith("+"):
            return Versions(int(text[:-1]), _NO_LIMIT)
        first, _, last = text.partition("-")
        return Versions(int(first), int(last or first))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __str__(self) -> str:
        if self.last < self.first:
            return "none"
        if self.last == _NO_LIMIT:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


_NO_LIMIT = 0x7FFF
_TYPE_DEFAULT = object()


class Field:
    """One declared field. `nullable`: the versions that allow null on the wire."""

    __slots__ = ("annotation", "declared_default", "failed", "name", "nullable", "tag", "versions")

    def __init__(self, versions: str, default: Any, tag: int | None, nullable: str | None, failed: int | None) -> None:
        self.name = ""
        self.annotation: Any = None
        self.versions = Versions.parse(versions)
        self.declared_default = default
        self.tag = tag
        self.failed = failed
        self.nullable = self.versions if nullable is None else Versions.parse(nullable)

    def bind(self, name: str, annotation: Any) -> None:
        """Set name and type. A type without None makes the field not nullable. Raises TypeError for a string."""
        if isinstance(annotation, str):
            raise TypeError(
                f"{name}: the type is a string; declare messages without `from __future__ import annotations`"
            )
        self.name, self.annotation = name, annotation
        if not _is_optional(annotation):
            self.nullable = Versions.parse("none")

    @property
    def is_array(self) -> bool:
        return _ARRAY in _metadata(self.annotation)

    @property
    def element(self) -> Any:
        """The type of the elements of an array; the type itself of any other field."""
        plain = _plain_type(self.annotation)
        return get_args(plain)[0] if self.is_array else plain

    def default(self) -> Any:
        """Return a new array, or the one default that all instances share."""
        if self.declared_default is not _TYPE_DEFAULT:
            return self.declared_default
        return [] if self.is_array else _type_default(self.annotation)

    def lower(self, version: int, flexible: bool) -> Construct:
        """Return the construct of the field in one version."""
        nullable = version in self.nullable
        if self.is_array:
            element = _lower(self.element, version, flexible, nullable=False)
            return wire.Array(_array_length(flexible, nullable), element)
        lowered = _lower(self.annotation, version, flexible, nullable)
        if self.tag is not None and isinstance(lowered, wire.NullableStructNode):
            return wire.NullableStructNode(lowered.inner, null=0)
        return lowered


def v(
    versions: str,
    *,
    default: Any = _TYPE_DEFAULT,
    tag: int | None = None,
    nullable: str | None = None,
    failed: int | None = None,
) -> Any:
    """Declare a field: its versions, its default, its tag.

    `nullable`: the versions that allow null, if not all do; only for a type with None. `failed`: the value in an error
    response, if it is not the default.
    """
    return Field(versions, default, tag, nullable, failed)


class StructMeta(type):
    """The metaclass of structs: turns declared fields into slots.

    A class must know its slots before it exists, so this is a metaclass. It reads the values (`v(...)`), not the
    annotations: newer Pythons evaluate annotations late. The first instance of a class makes `__init__`: the start of a
    broker declares far more structs than it uses.
    """

    fields: tuple[Field, ...]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> StructMeta:
        declared = {key: value for key, value in namespace.items() if isinstance(value, Field)}
        namespace = {key: value for key, value in namespace.items() if key not in declared}
        namespace.setdefault("__slots__", tuple(declared))
        cls = super().__new__(mcs, name, bases, namespace, **options)
        for key, field in declared.items():
            field.bind(key, cls.__annotations__[key])
        cls.fields = tuple(declared.values())
        return cls


@dataclass_transform(kw_only_default=False)
class Struct(metaclass=StructMeta):
    """A part of a message. `unknown_tags`: the bytes of undeclared tagged fields, by tag; they are written again."""

    __slots__ = ("unknown_tags",)
    unknown_tags: dict[int, bytes] | None

    def __init__(self, *args: Any, **values: Any) -> None:
        cls = type(self)
        setattr(cls, "__init__", _constructor(cls))  # noqa: B010  mypy refuses the plain assignment
        cls.__init__(self, *args, **values)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _names(type(self)))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = {name: getattr(self, name) for name in _names(type(self))}
        if self.unknown_tags is None:
            del values["unknown_tags"]
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in values.items())})"


class Message(Struct):
    """A request, a response, or a record of an internal topic.

    `versions`: the declared versions. `flexible`: the versions with compact lengths and tagged fields (KIP-482).
    `is_record`: the message comes from a log, not from a client, so its arrays have no limit.
    """

    __slots__ = ()
    api_key: ClassVar[int]
    versions: ClassVar[Versions]
    flexible: ClassVar[Versions]
    is_response: ClassVar[bool]
    is_record: ClassVar[bool]

    def __init_subclass__(
        cls, *, key: int, versions: str, flexible: str, response: bool = False, record: bool = False
    ) -> None:
        super().__init_subclass__()
        cls.api_key = key
        cls.versions = Versions.parse(versions)
        cls.flexible = Versions.parse(flexible)
        cls.is_response = response
        cls.is_record = record

    def error_response(self, version: int, error: ErrorCode, message: str | None = None) -> Any:
        """Return the response of `version` to a request that failed as a whole.

        The error stands at the top of the response. A response without a place at the top has the error for each
        element of the request; a request with other rules overrides this method. Only some responses have a field for
        `message`. Raises NotImplementedError for a message that is no request.
        """
        name = type(self).__name__
        response = getattr(sys.modules[self.__module__], name.removesuffix("Request") + "Response", None)
        if response is None or not name.endswith("Request"):
            raise NotImplementedError(f"{name} has no error response")
        return _failed(response, self, version, error, message)


@functools.cache
def tree(cls: type[Message], version: int) -> Construct:
    """Return the construct tree of one version. It parses to, and builds from, instances of `cls`.

    Raises ValueError for a version that is not declared.
    """
    if version not in cls.versions:
        raise ValueError(f"{cls.__name__} has versions {cls.versions}, not {version}")
    return _instance(cls, version, version in cls.flexible)


def fields_in(cls: type[Struct], version: int) -> Iterator[Field]:
    """Return the fields of one version, in order of the wire."""
    return (field for field in cls.fields if version in field.versions)


_ERROR_CODES = {"error_code", "partition_error_code"}
_NUMBERS_OF_ELEMENTS = {"index", "partition", "partition_index", "producer_id", "resource_type"}


def _failed(result: Any, source: Any, version: int, error: ErrorCode, message: str | None) -> Any:
    """Return the result of a request that failed, or of one element of the request."""
    kind: Any = type(source)
    constants, codes, repeated, arrays = _failure(result, kind, version)
    values = constants | dict.fromkeys(codes, error)
    if "error_message" in constants:
        values["error_message"] = message
    if isinstance(source, Struct):
        values |= {name: getattr(source, name) for name in repeated}
    else:
        values[repeated[0]] = source
    if arrays is not None:
        requested, responded, element = arrays
        elements = getattr(source, requested) or []
        values[responded] = lazy_map(elements, lambda each: _failed(element, each, version, error, message))
    return result(**values)


@functools.cache
def _failure(
    result: type[Struct], source: type, version: int
) -> tuple[dict[str, Any], list[str], list[str], tuple[str, str, Any] | None]:
    """Return what a failed result consists of.

    These are: constants, fields for the error code, fields that name the source, and the arrays of the source and of
    the result with the type of its elements: for a result without an error code.
    """
    fields = {field.name: field for field in fields_in(result, version)}
    constants: dict[str, Any] = {name: field.failed for name, field in fields.items() if field.failed is not None}
    if fields.pop("error_message", None) is not None:
        constants["error_message"] = None
    codes = [name for name in fields if name in _ERROR_CODES]
    if not issubclass(source, Struct):
        return constants, codes, [name for name in fields if name not in codes][:1], None
    requested = {field.name: field for field in fields_in(source, version)}
    shared = [] if issubclass(source, Message) else [name for name in fields if name in requested]
    repeated = [name for name in shared if fields[name].element in {str, bytes} or name in _NUMBERS_OF_ELEMENTS]
    if codes:
        return constants, codes, repeated, None
    array = next(field for field in fields.values() if field.is_array)
    asked = next(name for name, field in requested.items() if field.is_array)
    return constants, codes, repeated, (asked, array.name, array.element)


def _instance(cls: type[Struct], version: int, flexible: bool) -> wire.StructNode:
    present = list(fields_in(cls, version))
    members = [(field.name, field.lower(version, flexible)) for field in present if field.tag is None]
    tagged = [
        wire.TaggedField(field.tag, field.name, field.lower(version, flexible), field.default)
        for field in present
        if field.tag is not None
    ]
    return wire.StructNode(cls, members, sorted(tagged) if flexible else None)


def _lower(annotation: Any, version: int, flexible: bool, nullable: bool) -> Construct:
    plain = _plain_type(annotation)
    if isinstance(plain, StructMeta):
        instance = _instance(plain, version, flexible)  # type: ignore[arg-type]
        return wire.NullableStructNode(instance) if nullable else instance
    (marker,) = _metadata(annotation)
    return marker.lower(flexible, nullable) if isinstance(marker, VersionedType) else marker


def _constructor(cls: type[Struct]) -> Callable[..., None]:
    """Make `__init__`, the same as one written by hand: it takes the fields in order, each with its default."""
    namespace: dict[str, Any] = {"_new": _TYPE_DEFAULT}
    parameters, assignments = ["self"], []
    for field in cls.fields:
        if field.is_array and field.declared_default is _TYPE_DEFAULT:
            parameters.append(f"{field.name}=_new")
            assignments.append(f" self.{field.name} = [] if {field.name} is _new else {field.name}")
        else:
            namespace[f"_{field.name}"] = field.default()
            parameters.append(f"{field.name}=_{field.name}")
            assignments.append(f" self.{field.name} = {field.name}")
    source = "\n".join([f"def __init__({', '.join(parameters)}):", *assignments, " self.unknown_tags = None"])
    exec(source, namespace)  # noqa: S102  the source has declared names only, as in dataclasses
    return namespace["__init__"]  # type: ignore[no-any-return]


def _names(cls: type[Struct]) -> Iterator[str]:
    yield from (field.name for field in cls.fields)
    yield "unknown_tags"


@functools.cache
def _default_struct(cls: type[Struct]) -> Struct:
    return cls()


def _type_default(annotation: Any) -> Any:
    plain = _plain_type(annotation)
    if isinstance(plain, StructMeta):
        return _default_struct(plain)
    (marker,) = _metadata(annotation)
    if isinstance(marker, VersionedType):
        return marker.default
    return ZERO_UUID if marker is wire.UUID else plain()


def _metadata(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()


def _plain_type(annotation: Any) -> Any:
    """Return the type that mypy sees, without the None of a nullable type."""
    inner = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    if _is_union(inner):
        return next(choice for choice in get_args(inner) if choice is not types.NoneType)
    return inner


def _is_optional(annotation: Any) -> bool:
    inner = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    return _is_union(inner) and types.NoneType in get_args(inner)


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (types.UnionType, Union)
