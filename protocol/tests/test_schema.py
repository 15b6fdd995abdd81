"""Declarations: versions, defaults, nullability, constructors; and the trees that come of them."""

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.schema import (
    Message,
    Struct,
    Versions,
    array,
    blob,
    boolean,
    fields_in,
    float64,
    int32,
    int64,
    nullable_array,
    nullable_blob,
    nullable_string,
    record_data,
    string,
    tree,
    uint16,
    uint32,
    uuid,
    v,
)
from headgate.protocol.wire import ZERO_UUID


class Point(Struct):
    x: int32 = v("0+")
    y: int32 = v("1+", default=-1)


class Everything(Message, key=999, versions="0-3", flexible="2+"):
    flag: boolean = v("0+")
    port: uint16 = v("0+")
    big: uint32 = v("0+")
    ratio: float64 = v("0+")
    name: string = v("0+")
    alias: nullable_string = v("0+", nullable="1+")
    key: uuid = v("0+")
    data: blob = v("0+")
    extra: nullable_blob = v("0+", default=None)
    numbers: array[int64] = v("0+")
    points: nullable_array[Point] = v("1-2")
    origin: Point = v("0+")
    maybe: Point | None = v("1+", default=None)
    batches: record_data = v("0+")
    hint: Point = v("2+", tag=1)
    note: nullable_string = v("2+", tag=0, default=None)


def test_defaults_are_those_of_the_types() -> None:
    value = Everything()
    assert (value.flag, value.port, value.big, value.ratio, value.name, value.alias) == (False, 0, 0, 0.0, "", "")
    assert (value.key, value.data, value.extra, value.numbers, value.points) == (ZERO_UUID, b"", None, [], [])
    assert (value.origin, value.maybe, value.batches, value.note) == (Point(0, -1), None, None, None)
    assert value.unknown_tags is None


def test_a_default_array_belongs_to_its_instance_alone() -> None:
    first, second = Everything(), Everything()
    first.numbers.append(1)
    assert second.numbers == []


def test_a_type_must_not_be_a_string() -> None:
    with pytest.raises(TypeError, match="x: the type is a string"):

        class Late(Struct):
            x: "int32" = v("0+")


def test_fields_are_set_by_position_and_by_name() -> None:
    assert Point(1, 2) == Point(y=2, x=1)
    assert Point(1).y == -1
    with pytest.raises(TypeError, match="z"):
        Point(z=1)  # type: ignore[call-arg]


def test_instances_have_slots() -> None:
    assert not hasattr(Point(), "__dict__")
    with pytest.raises(AttributeError):
        Point().z = 1  # type: ignore[attr-defined]


def test_equality_is_by_value_and_class() -> None:
    class Other(Struct):
        x: int32 = v("0+")
        y: int32 = v("1+", default=-1)

    assert Point(1) == Point(1)
    assert Point(1) != Point(2)
    assert Point(1) != Other(1)
    tagged = Point(1)
    tagged.unknown_tags = {5: b""}
    assert tagged != Point(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point(1))


def test_a_repr_can_be_read_back() -> None:
    value = Everything(name="n", points=[Point(1, 2)])
    assert eval(repr(value)) == value
    value.unknown_tags = {9: b"z"}
    assert repr(value).endswith("unknown_tags={9: b'z'})")


@pytest.mark.parametrize("version", range(4))
def test_a_version_carries_its_fields_and_no_others(version: int) -> None:
    sent = Everything(alias="a", numbers=[1, 2], points=[Point(5, 6)], maybe=Point(7, 8), note="n", hint=Point(9))
    received = tree(Everything, version).parse(tree(Everything, version).build(sent))
    assert received.numbers == [1, 2]
    assert received.points == ([Point(5, 6)] if version in {1, 2} else [])
    assert received.maybe == (Point(7, 8) if version >= 1 else None)
    assert received.note == ("n" if version >= 2 else None)
    assert received.hint == (Point(9) if version >= 2 else Point())


def test_trees_are_made_once() -> None:
    assert tree(Everything, 1) is tree(Everything, 1)
    with pytest.raises(ValueError, match="Everything has versions 0-3, not 4"):
        tree(Everything, 4)


def test_nullability_follows_type_and_versions() -> None:
    nullable = {field.name: str(field.nullable) for field in Everything.fields}
    assert nullable["alias"] == "1+"
    assert nullable["extra"] == "0+"
    assert nullable["points"] == "1-2"
    assert nullable["maybe"] == "1+"
    assert nullable["batches"] == "0+"
    assert nullable["name"] == nullable["numbers"] == nullable["origin"] == "none"


def test_fields_of_a_version_are_in_order_of_the_wire() -> None:
    assert [field.name for field in fields_in(Point, 0)] == ["x"]
    assert [field.name for field in fields_in(Point, 1)] == ["x", "y"]


@pytest.mark.parametrize(
    "text, inside, outside",
    [("2-4", {2, 3, 4}, {1, 5}), ("3+", {3, 99}, {2}), ("1", {1}, {0, 2}), ("none", set(), {0, 1})],
)
def test_ranges_of_versions_are_parsed(text: str, inside: set[int], outside: set[int]) -> None:
    versions = Versions.parse(text)
    assert str(versions) == text
    assert all(version in versions for version in inside)
    assert not any(version in versions for version in outside)


def test_a_message_may_have_no_error_response() -> None:
    with pytest.raises(NotImplementedError, match="Everything has no error response"):
        Everything().error_response(0, ErrorCode.NONE)
