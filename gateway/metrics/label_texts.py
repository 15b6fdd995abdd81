"""The labels of a row of a table as text, made once for all metrics of the row.

The text leaves out the name of the metric, and that of the first label, which others' names call otherwise:

    kafka_consumergroup_lag{consumergroup | ="g",topic="t",partition="0"} | 17

Format: Prometheus' exposition formats, version 0.0.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def escape(value: str) -> str:
    """A label's value as the format has it between quotes."""
    return value.translate(_ESCAPES)


def label_text(labels: Sequence[str], values: Sequence[str]) -> str:
    """The text of a row, from behind the first label's name to the space before the number."""
    pairs = zip(("", *(f",{name}" for name in labels[1:])), values, strict=True)
    return "".join([f'{name}="{escape(value)}"' for name, value in pairs]) + "} "
