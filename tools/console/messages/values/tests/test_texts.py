"""Bytes as text, JSON and digits, whatever they are."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.tests.examples import share
from headgate.tools.console.messages.values import texts


@pytest.mark.parametrize(
    "content",
    [
        b"hello",
        "Grüße, 世界".encode(),
        b"",
        b"tabs\tand\nlines\r\n",
        b"one\x00in many more letters",
        b"caf\xe9 in Latin-1",
    ],
)
def test_what_people_wrote_looks_like_text(content: bytes) -> None:
    assert texts.looks_like_text(content)


@pytest.mark.parametrize(
    "content", [bytes(8), b"\x00\x00\x01\x02\x03\x7f", bytes(range(128, 256)), b"\x93\xff\xfe\x80"]
)
def test_other_bytes_do_not_look_like_text(content: bytes) -> None:
    assert not texts.looks_like_text(content)


def test_invalid_utf8_is_shown_and_named() -> None:
    assert texts.read_text(b"caf\xe9") == ("caf\\xe9", False)


def test_a_character_split_by_the_cut_is_no_fault() -> None:
    content = ("x" * 15 + "世" * 20).encode()
    for limit in range(1, 30):
        text, is_valid = texts.read_text(content, limit)
        assert is_valid
        assert content.decode().startswith(text)


@pytest.mark.parametrize(
    "content, is_json",
    [
        (b'{"a": 1}', True),
        (b" [1, 2]\n", True),
        (b"12", False),
        (b"{a: 1}", False),
        (b"", False),
        (b"[" * 100_000, False),
        (b"[" + b"1," * 3_000_000 + b"1]", True),
    ],
)
def test_objects_and_arrays_look_like_json(content: bytes, is_json: bool) -> None:
    assert texts.looks_like_json(content) is is_json


def test_deep_json_and_large_json_are_refused_by_a_sentence() -> None:
    with pytest.raises(ValueError, match="nested too deep"):
        texts.parse_json(b"[" * 100_000)
    with pytest.raises(ValueError, match="is not parsed"):
        texts.parse_json(b"[" + b"1," * 3_000_000 + b"1]")


def test_lines_keep_numbers_escapes_and_order() -> None:
    text = '{"b":12345678901234567890.10,"a":["\\u0041",{}, []],"b":null}'
    assert texts.break_lines(text) == (
        '{\n  "b": 12345678901234567890.10,\n  "a": [\n    "\\u0041",\n    {},\n    []\n  ],\n  "b": null\n}'
    )


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=6,
    )
)
@settings(max_examples=share(60))
def test_lines_change_only_white_space(value: object) -> None:
    assert json.loads(texts.break_lines(json.dumps(value))) == value


@given(st.text(alphabet='{}[],:"\\ ab1'))
@settings(max_examples=share(60))
def test_lines_of_any_text_keep_its_characters(text: str) -> None:
    shown = texts.break_lines(text)
    assert [each for each in shown if not each.isspace()] == [each for each in text if not each.isspace()]


@pytest.mark.parametrize(
    "text", ["[" * 1_000_000, '"' + '\\"' * 500_000, '{"a":' * 200_000, "x" * 1_000_000, ", " * 500_000]
)
def test_lines_of_endless_text_take_no_time(text: str) -> None:
    began = time.process_time()
    shown = texts.break_lines(text, 100_000)
    assert len(shown) <= 100_000
    assert time.process_time() - began < 1


def test_digits_are_bounded() -> None:
    assert texts.hexadecimal(b"\x00\xff\x10") == "00 ff 10"
    assert len(texts.hexadecimal(bytes(10_000_000))) < 200_000
