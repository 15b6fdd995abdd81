"""Declarations: a message is one class, whose fields carry the versions in which they are on the wire.

    class FetchTopic(Struct):
        topic: string = v("0-12")
        topic_id: uuid = v("13+")
        partitions: array[FetchPartition] = v("0+")

    class FetchRequest(Message, key=1, versions="0-18", flexible="12+"):
        cluster_id: nullable_string = v("12+", tag=0, default=None)
        max_wait_ms: int32 = v("0+")
        topics: array[FetchTopic] = v("0+")

A type is for two readers. `int32` is `Annotated[int, Int32sb]`: mypy sees an int, `tree` sees the construct. Fields
stand in the order of the wire; names are those of Kafka's message definitions in snake_case. Every field has a default,
so a constructor takes only what matters: the one given to `v`, else that of its type (0, False, "", b"", [], ZERO_UUID,
a struct of defaults; None for records).

A field that is not in a version is not on the wire in it: not written, and read as its default. A module of
declarations has no `from __future__ import annotations`: types must be there, not their names.

Instances are slotted and compare by value. **Treat them as immutable**: a default struct is shared by all that have it.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar, Union, dataclass_transform, get_args, get_origin

from headgate.protocol import wire
from headgate.protocol.errors import ErrorCode
from headgate.protocol.wire import ZERO_UUID, Construct, Length, Splice

T = TypeVar("T")


class VersionedType(NamedTuple):
    """A type whose spelling depends on the version: `lower(flexible, nullable)` gives the construct."""

    lower: Callable[[bool, bool], Construct]
    zero: Any


def _text(flexible: bool, nullable: bool) -> Construct:
    return wire.Text(Length.compact(nullable) if flexible else Length.short(nullable))


def _bytes(flexible: bool, nullable: bool) -> Construct:
    return wire.Blob(_array_length(flexible, nullable))


def _records(flexible: bool, nullable: bool) -> Construct:
    return wire.Records(_array_length(flexible, nullable))


def _array_length(flexible: bool, nullable: bool) -> Length:
    return Length.compact(nullable) if flexible else Length.long(nullable)


class _ArrayMark:
    """Marks an annotation as an array; its element type is the list's."""


_TEXT = VersionedType(_text, "")
_BYTES = VersionedType(_bytes, b"")
_RECORDS = VersionedType(_records, None)
_ARRAY = _ArrayMark()

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
_OF_TYPE = object()


class Field:
    """One declared field. `nullable` are the versions in which null may stand on the wire."""

    __slots__ = ("annotation", "declared_default", "name", "nullable", "tag", "versions")

    def __init__(self, versions: str, default: Any, tag: int | None, nullable: str | None) -> None:
        self.name = ""
        self.annotation: Any = None
        self.versions = Versions.parse(versions)
        self.declared_default = default
        self.tag = tag
        self.nullable = self.versions if nullable is None else Versions.parse(nullable)

    def complete(self, name: str, annotation: Any) -> None:
        """Take name and type; null is possible only if the type says so."""
        if isinstance(annotation, str):
            raise TypeError(
                f"{name}: the type is a string; declare messages without `from __future__ import annotations`"
            )
        self.name, self.annotation = name, annotation
        if not _is_optional(annotation):
            self.nullable = Versions.parse("none")

    @property
    def is_array(self) -> bool:
        return _ARRAY in _marks(self.annotation)

    @property
    def element(self) -> Any:
        """The type of an array's elements, or the type itself."""
        plain = _plain(self.annotation)
        return get_args(plain)[0] if self.is_array else plain

    def default(self) -> Any:
        """A new array, or the one default shared by all instances."""
        if self.declared_default is not _OF_TYPE:
            return self.declared_default
        return [] if self.is_array else _zero(self.annotation)

    def lower(self, version: int, flexible: bool) -> Construct:
        nullable = version in self.nullable
        if self.is_array:
            element = _lower(self.element, version, flexible, nullable=False)
            return wire.Array(_array_length(flexible, nullable), element)
        lowered = _lower(self.annotation, version, flexible, nullable)
        if self.tag is not None and isinstance(lowered, wire.NullableStructNode):
            return wire.NullableStructNode(lowered.instance, null=0)
        return lowered


def v(versions: str, *, default: Any = _OF_TYPE, tag: int | None = None, nullable: str | None = None) -> Any:
    """Declare a field: the versions that have it, its default, its tag.

    `nullable`: the versions in which null is possible, if not in all; only for a type that allows None.
    """
    return Field(versions, default, tag, nullable)


class StructMeta(type):
    """Turns declared fields into slots.

    Slots must be known before a class exists, so this is a metaclass. It reads the values (`v(...)`), not the
    annotations, which newer Pythons evaluate late. `__init__` is made when the first instance is: a broker declares far
    more structs than it uses while it starts.
    """

    fields: tuple[Field, ...]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> StructMeta:
        declared = {key: value for key, value in namespace.items() if isinstance(value, Field)}
        namespace = {key: value for key, value in namespace.items() if key not in declared}
        namespace.setdefault("__slots__", tuple(declared))
        cls = super().__new__(mcs, name, bases, namespace, **options)
        for key, field in declared.items():
            field.complete(key, cls.__annotations__[key])
        cls.fields = tuple(declared.values())
        return cls


@dataclass_transform(kw_only_default=False)
class Struct(metaclass=StructMeta):
    """A part of a message. `unknown_tags`: undeclared tagged fields, by tag, as they came; they are written again."""

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

    `versions` are those that are declared; in `flexible` ones it has compact lengths and tagged fields (KIP-482).
    A `record` is read from a log, not from a client: its arrays may be as long as they were when it was written.
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

    def error_response(self, version: int, error: ErrorCode, message: str | None = None) -> Message:
        """What a client of `version` hears when the whole request failed; `message` goes where there is a place."""
        raise NotImplementedError(f"{type(self).__name__} has no error response")


@functools.cache
def tree(cls: type[Message], version: int) -> Construct:
    """The construct of one version of a message: parses to, and builds from, instances of `cls`."""
    if version not in cls.versions:
        raise ValueError(f"{cls.__name__} has versions {cls.versions}, not {version}")
    return _instance(cls, version, version in cls.flexible)


def fields_in(cls: type[Struct], version: int) -> Iterator[Field]:
    """The fields that a version has, in order of the wire."""
    return (field for field in cls.fields if version in field.versions)


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
    plain = _plain(annotation)
    if isinstance(plain, StructMeta):
        instance = _instance(plain, version, flexible)  # type: ignore[arg-type]
        return wire.NullableStructNode(instance) if nullable else instance
    (kind,) = _marks(annotation)
    return kind.lower(flexible, nullable) if isinstance(kind, VersionedType) else kind


def _constructor(cls: type[Struct]) -> Callable[..., None]:
    """`__init__` as one would write it by hand: it takes the fields in order, each with its default."""
    namespace: dict[str, Any] = {"_new": _OF_TYPE}
    parameters, assignments = ["self"], []
    for field in cls.fields:
        if field.is_array and field.declared_default is _OF_TYPE:
            parameters.append(f"{field.name}=_new")
            assignments.append(f" self.{field.name} = [] if {field.name} is _new else {field.name}")
        else:
            namespace[f"_{field.name}"] = field.default()
            parameters.append(f"{field.name}=_{field.name}")
            assignments.append(f" self.{field.name} = {field.name}")
    source = "\n".join([f"def __init__({', '.join(parameters)}):", *assignments, " self.unknown_tags = None"])
    exec(source, namespace)  # noqa: S102  a constructor made of declared names, as dataclasses makes it
    return namespace["__init__"]  # type: ignore[no-any-return]


def _names(cls: type[Struct]) -> Iterator[str]:
    yield from (field.name for field in cls.fields)
    yield "unknown_tags"


@functools.cache
def _default_struct(cls: type[Struct]) -> Struct:
    return cls()


def _zero(annotation: Any) -> Any:
    plain = _plain(annotation)
    if isinstance(plain, StructMeta):
        return _default_struct(plain)
    (kind,) = _marks(annotation)
    if isinstance(kind, VersionedType):
        return kind.zero
    return ZERO_UUID if kind is wire.UUID else plain()


def _marks(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()


def _plain(annotation: Any) -> Any:
    """The type that mypy sees, without the None of a nullable one."""
    inner = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    if _is_union(inner):
        return next(choice for choice in get_args(inner) if choice is not types.NoneType)
    return inner


def _is_optional(annotation: Any) -> bool:
    inner = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    return _is_union(inner) and types.NoneType in get_args(inner)


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (types.UnionType, Union)
