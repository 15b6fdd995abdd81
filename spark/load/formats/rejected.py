"""Rejected rows: those whose values did not decode, apart from the others."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headgate.spark.load.formats.decoding import BYTES, ERROR


def split_rejected(batch: Any) -> tuple[Any, Any]:
    """Rows with decoded values, and the others with their bytes and errors."""
    is_right = pc.is_null(batch.column(ERROR))
    rows = batch.drop_columns([ERROR, BYTES])
    if pc.all(is_right).as_py():
        return rows, batch.slice(0, 0)
    wrong = batch.filter(pc.invert(is_right))
    names = wrong.schema.names
    columns = [wrong.column(BYTES if name == "value" else name) for name in names if name not in (ERROR, BYTES)]
    names = [name for name in names if name not in (ERROR, BYTES)]
    rejected = pa.RecordBatch.from_arrays([*columns, wrong.column(ERROR)], [*names, "error"])
    return rows.filter(is_right), rejected
