from __future__ import annotations

import pyarrow as pa
import pytest

from headgate.spark.load.formats.decoding import BYTES, ERROR
from headgate.spark.load.formats.rejected import split_rejected


@pytest.mark.slow  # `pa.array` imports pandas
def test_rows_part_by_their_errors() -> None:
    columns = {"value": [1, None, 3], "offset": [5, 6, 7], ERROR: [None, "why", None], BYTES: [None, b"x", None]}
    rows, rejected = split_rejected(pa.RecordBatch.from_pydict(columns))
    assert rows.to_pylist() == [{"value": 1, "offset": 5}, {"value": 3, "offset": 7}]
    assert rejected.to_pylist() == [{"value": b"x", "offset": 6, "error": "why"}]
    sound, none = split_rejected(pa.RecordBatch.from_pydict({**columns, ERROR: pa.array([None] * 3, pa.string())}))
    assert sound.num_rows == 3
    assert none.num_rows == 0
