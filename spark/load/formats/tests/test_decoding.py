from __future__ import annotations

import pytest

from headgate.spark.load.formats.decoding import AVRO, JSON, PROTOBUF, RAW, Decoding
from headgate.spark.load.formats.protobuf_values import python_decoder
from headgate.spark.load.formats.spark_columns import decode


@pytest.mark.parametrize(
    "decoding",
    [Decoding(), Decoding(JSON, "a INT", True, reject_limit=3), Decoding(AVRO, "{}", True, {7: "{}"}, reject_limit=3)],
)
def test_a_decoding_comes_back_from_the_plan(decoding: Decoding) -> None:
    assert Decoding.of_options(decoding.to_options(), decoding.reject_limit) == decoding


def test_the_place_of_the_decoding() -> None:
    assert [Decoding(one).needs_spark for one in (RAW, JSON, AVRO, PROTOBUF)] == [False, True, True, False]
    assert python_decoder(Decoding()) is None
    assert callable(decode)
