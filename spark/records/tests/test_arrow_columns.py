"""Arrow columns of pieces of a buffer, and of headers, many of one record too."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from headgate.protocol.records import batch
from headgate.protocol.records.batch import Header, Record
from headgate.spark.records.arrow_columns import binary_column, number_column, repeated_text
from headgate.spark.records.columns import UnreadableRecords
from headgate.spark.records.record_fields import Slices
from headgate.spark.records.tests.topics import rows

_WITHOUT_PANDAS = """
import sys
from headgate.protocol.records import batch
from headgate.spark.records.tests.topics import rows
data = bytes(batch.build([batch.Record(0, 1, b"k", None, [("a", b"1")]), batch.Record(1, 1)]))
assert len(rows(data)) == 2
assert "pandas" not in sys.modules, "a worker would take a second longer to start"
"""


def headers_of(*of_records: list[Header]) -> list[list[Header]]:
    data = bytes(batch.build([Record(-1, 0, None, None, one) for one in of_records]))
    found = rows(data, names=["headers"])
    return [[(one["key"], one["value"]) for one in row["headers"] or ()] for row in found]


def test_byte_strings_come_from_their_places() -> None:
    block = pa.py_buffer(b"..ab....cde.")
    slices = Slices(np.array([2, 5, 8]), np.array([4, 5, 11]), np.array([False, True, False]))
    assert binary_column(block, slices).to_pylist() == [b"ab", None, b"cde"]
    assert binary_column(block, slices._replace(is_null=None)).to_pylist() == [b"ab", b"", b"cde"]
    nothing = np.array([], np.int64)
    assert binary_column(block, Slices(nothing, nothing, None)).to_pylist() == []


def test_numbers_and_texts_are_columns() -> None:
    assert number_column(pa.int64(), np.array([1, -2])).to_pylist() == [1, -2]
    assert number_column(pa.int32(), np.array([1, 2], np.int32), np.array([True, False])).to_pylist() == [None, 2]
    assert repeated_text("été", 2).to_pylist() == ["été", "été"]


@pytest.mark.parametrize("count", [1, 64, 65, 300])
def test_headers_of_a_record_keep_their_order(count: int) -> None:
    many: list[Header] = [(f"n{index}", None if index % 3 else b"%d" % index) for index in range(count)]
    wanted: list[list[Header]] = [[], many, [("a", b"")], many[:2]]
    assert headers_of(*wanted) == wanted


def test_names_that_are_no_text_are_replaced() -> None:
    data = batch.build([Record(-1, 0, None, None, [("ab", b"1"), ("é", b"2")])])
    data[data.index(b"ab")] = 0xFF
    batch.set_crc(data)
    (row,) = rows(bytes(data), names=["headers"])
    assert [one["key"] for one in row["headers"]] == ["\ufffdb", "é"]


@pytest.mark.parametrize("count", [1, 70])
def test_a_header_without_a_name_is_refused(count: int) -> None:
    data = batch.build([Record(-1, 0, None, None, [("n", b"v")] * (count - 1) + [("last", b"v")])])
    place = data.index(b"last")
    data[place - 1 : place + 4] = b"\x01\x08\x00\x00\x00"
    batch.set_crc(data)
    with pytest.raises(UnreadableRecords):
        rows(bytes(data), names=["headers"])


@pytest.mark.slow
@pytest.mark.sockets
def test_no_column_needs_pandas() -> None:
    subprocess.run([sys.executable, "-c", _WITHOUT_PANDAS], check=True)
