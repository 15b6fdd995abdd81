"""Change events of Debezium decode in one real Spark session (`make soak`); test_merging has whole tables of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headgate.spark.load.formats.debezium import decode_event, key_without_envelope
from headgate.spark.load.runners import SparkRunner

pytestmark = [pytest.mark.soak, pytest.mark.sockets, pytest.mark.filterwarnings("ignore::ResourceWarning")]

ROW = '{"id":1,"price":1.10,"tags":["a"],"of":{"x":null}}'
CASES: list[tuple[bytes, str | None, str | None]] = [
    (b'{"op":"c","after":%b}' % ROW.encode(), ROW, None),
    (b'{"op":"r","before":null,"after":%b,"source":{"op":"x"}}' % ROW.encode(), ROW, None),
    (b'{"schema":{"op":"no"},"payload":{"op":"u","after":%b}}' % ROW.encode(), ROW, None),
    (b'{"payload":{"op":"u","after":%b}}' % ROW.encode(), ROW, None),
    (json.dumps({"op": "u", "after": ROW}).encode(), ROW, None),  # MongoDB: a document as text
    (b'{"op":"d","before":%b,"after":null}' % ROW.encode(), None, None),
    (b'{"op":"d","before":%b}' % ROW.encode(), None, None),
    (b'{"schema":null,"payload":{"op":"d"}}', None, None),
    (b'{"op":"u","after":null}', None, "the op u has no after"),
    (b'{"op":"t"}', None, "the op t is no change of one row"),
    (b'{"op":"m","message":{}}', None, "the op m is no change of one row"),
    (ROW.encode(), None, "the value is no change event of Debezium: it has no op"),
    (b'{"schema":{},"payload":null}', None, "the value is no change event of Debezium: it has no op"),
    (b'{"op":"u"', None, "the value is no JSON object"),
    (b"", None, "the value is no JSON object"),
    (b"[]", None, "the value is no JSON object"),
    (b"\xff", None, "the value is no UTF-8"),
]
KEYS = {
    b'{"id":1}': b'{"id":1}',
    b'{ "id": 1 }': b'{"id":1}',
    b'{"schema":{"type":"struct"},"payload":{"id":1}}': b'{"id":1}',
    b'{"schema":{},"payload":7}': b"7",
    b"7": b"7",
    b"any text": b"any text",
    b"\xff\x00": b"\xff\x00",
    b"{broken": b"{broken",
}


def test_values(runner: SparkRunner) -> None:
    frame = runner.session.createDataFrame([(number, one[0]) for number, one in enumerate(CASES)], "n int, v binary")
    row, error = decode_event(frame["v"], None)
    found = {one.n: (one.row, one.error) for one in frame.select("n", row.alias("row"), error.alias("error")).collect()}
    for number, (value, wanted_row, wanted_error) in enumerate(CASES):
        row, error = found[number]
        assert error == wanted_error, value
        if wanted_error is None:
            assert (row and json.loads(row)) == (wanted_row and json.loads(wanted_row)), value


def test_keys(runner: SparkRunner) -> None:
    frame = runner.session.createDataFrame([(one,) for one in KEYS], "k binary")
    rows: list[Any] = frame.select("k", key_without_envelope(frame["k"]).alias("found")).collect()
    assert {bytes(one.k): bytes(one.found) for one in rows} == KEYS
