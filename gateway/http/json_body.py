"""JSON as the body of an answer: at once if it is small, row by row if there may be thousands of rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from headgate.gateway.http.resources import JSON, OK, HttpAnswer

ROWS_AT_ONCE: Final = 32
"""The text of a row takes some ten microseconds."""


def answer(value: Mapping[str, Any], status: int = OK) -> HttpAnswer:
    """The answer with a small object."""
    return HttpAnswer(JSON, [json.dumps(value, allow_nan=False, indent=1).encode() + b"\n"], status)


def answer_with_rows(
    fields: Mapping[str, Any], name: str, rows: Iterable[Mapping[str, Any] | None], status: int = OK
) -> HttpAnswer:
    """The answer with an object: `fields`, and behind them the array `name`.

    `rows` are asked for slice by slice, while other tasks run. None among them ends a slice, after a longer step.
    """
    return HttpAnswer(JSON, _slices(fields, name, rows), status)


def error_text(sentence: str) -> bytes:
    """The body of an answer to a request that is refused."""
    return _text({"error": sentence}) + b"\n"


def _slices(fields: Mapping[str, Any], name: str, rows: Iterable[Mapping[str, Any] | None]) -> Iterator[bytes]:
    head = _text(fields)[:-1]
    texts = [head, b", " if fields else b"", _text(name), b": ["]
    separator = b"\n"
    for row in rows:
        if row is not None:
            texts += [separator, _text(row)]
            separator = b",\n"
        if row is None or len(texts) >= 2 * ROWS_AT_ONCE:
            yield b"".join(texts)
            texts.clear()
    texts.append(b"\n]}\n")
    yield b"".join(texts)


def _text(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()
