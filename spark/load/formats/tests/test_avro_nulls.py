from __future__ import annotations

from typing import Any

import pytest

from headgate.spark.load.formats.avro_nulls import null_bytes, parse
from headgate.spark.load.output.planning import LoadRefused


@pytest.mark.parametrize(
    "types, expected",
    [
        ([], b""),
        (["null"], b""),
        ([["null", "long"], ["string", "null"]], b"\0\2"),
        ([["null", "long"], "string"], None),
        ([["int", "string"]], None),
    ],
)
def test_the_encoding_of_nulls(types: list[Any], expected: bytes | None) -> None:
    schema = {"type": "record", "fields": [{"name": f"f{n}", "type": one} for n, one in enumerate(types)]}
    assert null_bytes(schema) == expected


@pytest.mark.parametrize("text", ["{", '"string"', "[]", '{"type": "enum"}'])
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(LoadRefused, match=r"^place"):
        parse(text, "place")
