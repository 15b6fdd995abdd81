from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.zookeeper.layout.node import (
    MAX_DATA_BYTES,
    InvalidNode,
    child_number,
    child_path,
    decode_decimal,
    decode_fields,
    decode_json,
    decode_text,
    encode_decimal,
    encode_object,
    number_child_path,
    topic_child_path,
    with_unknown,
)
from headgate.gateway.zookeeper.layout.tests.unread_nodes import sequence_number


def test_json_is_compact_and_keeps_its_order() -> None:
    assert encode_object({"b": [1, 2], "a": {"x": None}}) == b'{"b":[1,2],"a":{"x":null}}'


def test_text_is_written_as_jackson_does() -> None:
    """Not as `json` does by itself: UTF-8 unescaped, escapes in capitals."""
    assert encode_object({"ä": '"\\/\n\x1f\x7f'}) == '{"ä":"\\"\\\\/\\n\\u001F\x7f"}'.encode()


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=9) | st.integers(), max_size=4))
def test_objects_round_trip(members: dict[str, object]) -> None:
    assert decode_json("/a", encode_object(members)) == members


@given(st.integers(-(2**63), 2**63 - 1))
def test_decimals_round_trip(number: int) -> None:
    assert decode_decimal("/a", encode_decimal(number)) == number


@pytest.mark.parametrize("text", ["", " 1", "1\n", "+1", "01", "-0", "1.0", "0x1", "٣", "9223372036854775808", "1_0"])
def test_other_numbers_are_refused(text: str) -> None:
    with pytest.raises(InvalidNode, match=r"^ZooKeeper's /a/b: .* is not a decimal number"):
        decode_decimal("/a/b", text.encode())


@pytest.mark.parametrize(
    "data, reason",
    [
        (None, "the node has no data"),
        (b"", "not JSON"),
        (b"\xff", "not UTF-8"),
        (b"{", "not JSON"),
        (b'{"a":1.5}', "1.5 is not an integer"),
        (b'{"a":Infinity}', "Infinity is not an integer"),
        (b"[" * 100_000, "nested too deeply"),
        (b"1" * 5_000, "not JSON"),
        (b'"\\udc00"', "not JSON"),
        (b"7", "must be a JSON object, and are 7"),
        (b" " * (MAX_DATA_BYTES + 1), "exceed the limit of 4194304"),
    ],
)
def test_data_that_are_no_object_are_refused_with_a_reason(data: bytes | None, reason: str) -> None:
    with pytest.raises(InvalidNode) as refused:
        decode_fields("/some/node", data)
    assert str(refused.value).startswith("ZooKeeper's /some/node: ")
    assert reason in refused.value.reason


def test_the_end_of_a_long_value_is_not_quoted() -> None:
    with pytest.raises(InvalidNode) as refused:
        decode_fields("/a", b'{"name":"' + b"x" * 10_000 + b'"').integer("name")
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize("value", ['"1"', "true", "null", "-2", "2147483648", "[1]", "{}"])
def test_an_integer_is_nothing_else(value: str) -> None:
    fields = decode_fields("/a", f'{{"port":{value}}}'.encode())
    with pytest.raises(InvalidNode, match="`'port'` must be an integer from -1 to 2147483647, and is"):
        fields.integer("port")


def test_a_missing_member_is_named() -> None:
    fields = decode_fields("/a", b"{}")
    with pytest.raises(InvalidNode, match=r"^ZooKeeper's /a: `port` is missing$"):
        fields.integer("port")
    assert fields.integer("port", -1) == -1


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0", "\x1f", "\x7f", "\ue000", "\uffff", "😀", "\ud800"])
def test_names_that_zookeeper_cannot_have_are_refused(name: str) -> None:
    with pytest.raises(InvalidNode):
        child_path("/consumers", name)


def test_a_name_may_have_blanks_and_letters_of_any_script() -> None:
    assert child_path("/consumers", "eine Gruppe: ä文") == "/consumers/eine Gruppe: ä文"


@pytest.mark.parametrize("name", ["", "..", "a b", "a/b", "x" * 250])
def test_names_that_kafka_refuses_for_topics_are_refused(name: str) -> None:
    with pytest.raises(InvalidNode, match="is illegal"):
        topic_child_path("/brokers/topics", name)


def test_brokers_and_partitions_are_plain_decimals() -> None:
    assert number_child_path("/brokers/ids", 10) == "/brokers/ids/10"
    assert child_number("/brokers/ids", "10") == 10
    for name in ("-1", "010", "a", ""):
        with pytest.raises(InvalidNode):
            child_number("/brokers/ids", name)
    with pytest.raises(InvalidNode):
        number_child_path("/brokers/ids", -1)


def test_sequence_numbers() -> None:
    assert sequence_number("config_change_0000000012", "config_change_") == 12
    assert sequence_number("config_change_-2147483648", "config_change_") == -(2**31)  # ZooKeeper's overflow
    for name in ("config_change_12", "config_change_", "isr_change_0000000001"):
        with pytest.raises(InvalidNode):
            sequence_number(name, "config_change_")


def test_known_members_win_over_kept_ones() -> None:
    assert with_unknown({"version": 3}, {"version": 1, "ours": {}}) == b'{"version":3,"ours":{}}'


def test_text_is_utf_8() -> None:
    assert decode_text("/a", "ä".encode()) == "ä"
