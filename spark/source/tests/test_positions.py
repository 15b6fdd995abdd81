from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.source.positions import from_json, parse_offsets, parse_partitions, to_json
from headgate.spark.source.tests.fake_log import T0, T1
from headgate.tools.output import UsageError

OFFSETS = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "a.b", "t"]), st.integers(0, 30)), st.integers(-2, (1 << 63) - 1)
)

NOT_OFFSETS = st.text(alphabet='[]0,:t"', max_size=9) | st.lists(st.integers() | st.text()).map(json.dumps)


@given(OFFSETS)
def test_offsets_survive_their_json(offsets: dict[TopicPartition, int]) -> None:
    text = json.dumps(to_json(offsets))
    assert from_json(json.loads(text)) == parse_offsets("x", text) == offsets
    assert text == json.dumps(to_json(dict(reversed(offsets.items())))), "one order, as Spark compares texts"


@given(NOT_OFFSETS)
def test_other_texts_are_refused_or_empty(text: str) -> None:
    for parse in (parse_offsets, parse_partitions):
        with pytest.raises(UsageError, match="name-of-option"):
            parse("name-of-option", text)


@pytest.mark.parametrize(
    "text",
    [
        '{"t":{"0":true}}',
        '{"t":{"0":1.5}}',
        '{"t":{"-1":1}}',
        '{"t":[1]}',
        '{"t":{"0":9223372036854775808}}',
        '{"t":1}',
    ],
)
def test_numbers_of_other_kinds_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected JSON"):
        parse_offsets("startingOffsets", text)


def test_partitions_are_sorted_and_named_once() -> None:
    assert parse_partitions("assign", '{"t":[1,0,1]}') == (T0, T1)
    with pytest.raises(UsageError, match="assign"):
        parse_partitions("assign", '{"t":["0"]}')


def test_keys_beside_topics_are_left_out_of_a_checkpoint() -> None:
    assert from_json({"t": {"0": 5}, "#start": {"t": {"0": 1}}}) == {T0: 5}


def test_a_checkpoint_of_another_kind_is_refused() -> None:
    values: list[object] = [[], "x", {"t": 5}, None]
    for value in values:
        with pytest.raises(UsageError, match="checkpoint"):
            from_json(value)
