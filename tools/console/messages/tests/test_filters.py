"""Which messages pass: parts of texts, expressions of RE2, headers, JMESPath."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from headgate.protocol.records.batch import Record
from headgate.tools.console.messages.filters import Filters
from headgate.tools.console.parameters import BadParameter, Parameters


class Given:
    """A message whose value is JSON."""

    def __init__(self, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]) -> None:
        self.record = Record(0, 0, key, value, headers)

    def text(self, *, is_key: bool) -> bytes | None:
        return None if is_key else b"decoded form"

    def data(self) -> Any:
        return json.loads(self.record.value or b"null")


MESSAGE = Given(b"order-17", b'{"sum": 12, "who": {"name": "Gr\xc3\xbcn"}}', [("trace", b"abc=d"), ("empty", None)])


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"key": "order"},
        {"key": "/^order-[0-9]+$/"},
        {"text": "Grün"},
        {"text": "/(?i)GRÜN/"},
        {"text": "order-17"},
        {"text": "abc=d"},
        {"text": "decoded form"},
        {"header": "trace"},
        {"header": "empty"},
        {"header": "trace=abc=d"},
        {"header": "trace=b"},
        {"header": "=abc"},
        {"header": "/^abc/"},
        {"jmespath": "sum > `10`"},
        {"jmespath": "who.name"},
        {"key": "17", "text": "sum", "header": "trace", "jmespath": "sum == `12`"},
    ],
)
def test_a_message_that_matches_all_filters_passes(filters: dict[str, str]) -> None:
    assert Filters(**filters).compile().match(MESSAGE)


@pytest.mark.parametrize(
    "filters",
    [
        {"key": "order-18"},
        {"key": "/^17/"},
        {"text": "grün"},
        {"header": "Trace"},
        {"header": "trace=x"},
        {"header": "empty=x"},
        {"header": "/x/"},
        {"jmespath": "sum > `12`"},
        {"jmespath": "nothing"},
        {"jmespath": "[]"},
        {"key": "17", "text": "nothing"},
    ],
)
def test_a_message_that_fails_one_filter_is_left_out(filters: dict[str, str]) -> None:
    assert not Filters(**filters).compile().match(MESSAGE)


def test_a_tombstone_matches_by_its_key_alone() -> None:
    tombstone = Given(b"a", None, [])
    assert Filters(key="a").compile().match(tombstone)
    assert not Filters(text="decoded").compile().match(tombstone)
    assert not Filters(jmespath="@ == `null`").compile().match(tombstone)


@pytest.mark.parametrize("value", [b"no json", b"[" * 50_000, b'"text"'])
def test_a_value_that_an_expression_cannot_take_is_counted(value: bytes) -> None:
    compiled = Filters(jmespath="abs(@) > `1`").compile()
    assert not compiled.match(Given(None, value, []))
    assert compiled.failed_expressions == 1


def test_an_evil_expression_takes_linear_time() -> None:
    compiled = Filters(text="/(a+)+$/").compile()
    began = time.process_time()
    compiled.match(Given(None, b"a" * 100_000 + b"!", []))
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    "name, text, sentence",
    [
        ("key", "/(/", "no regular expression of RE2"),
        ("text", "/(?=a)/", "no regular expression of RE2"),
        ("text", "/" + "(a{1000}){1000}" + "/", "no regular expression of RE2"),
        ("jmespath", "a[", "no expression of JMESPath"),
        ("jmespath", "[" * 2000, "no expression of JMESPath"),
        ("jmespath", "a" * 2001, "more than 2000 characters"),
    ],
)
def test_what_is_no_expression_is_refused_by_a_sentence(name: str, text: str, sentence: str) -> None:
    with pytest.raises(BadParameter, match=sentence):
        Filters.of_parameters(Parameters([(name, text)]))
