"""JSON as the body of an answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from headgate.gateway.http import json_body
from headgate.gateway.http.json_body import ROWS_AT_ONCE
from headgate.gateway.http.resources import JSON


def test_a_small_object_is_one_slice() -> None:
    answer = json_body.answer({"a": 1, "b": "\u00e4<", "c": None}, 503)
    assert (answer.content_type, answer.status) == (JSON, 503)
    (text,) = answer.body
    assert json.loads(text) == {"a": 1, "b": "\u00e4<", "c": None}
    assert text.endswith(b"}\n")


def test_a_number_that_is_none_of_json_is_a_fault() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_body.answer({"a": float("nan")})


@pytest.mark.parametrize("count", [0, 1, ROWS_AT_ONCE - 1, ROWS_AT_ONCE, 10 * ROWS_AT_ONCE])
@pytest.mark.parametrize("fields", [{}, {"at_ms": 5, "note": "x"}])
def test_many_rows_are_slices_of_one_object(count: int, fields: dict[str, Any]) -> None:
    rows = [{"number": number} for number in range(count)]
    slices = list(json_body.answer_with_rows(fields, "rows", rows).body)
    assert json.loads(b"".join(slices)) == {**fields, "rows": rows}
    assert len(slices) >= count // ROWS_AT_ONCE


def test_rows_are_made_while_they_are_asked_for() -> None:
    made = []

    def rows() -> Iterator[dict[str, int] | None]:
        for number in range(3):
            made.append(number)
            yield {"number": number}
            yield None

    slices = iter(json_body.answer_with_rows({}, "rows", rows()).body)
    assert made == []
    parts = [next(slices)]
    assert made == [0]
    parts += slices
    assert json.loads(b"".join(parts)) == {"rows": [{"number": 0}, {"number": 1}, {"number": 2}]}


def test_a_refusal_is_an_object_with_a_sentence() -> None:
    assert json.loads(json_body.error_text('it says "no"')) == {"error": 'it says "no"'}
