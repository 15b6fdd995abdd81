"""Rows of a few kilobytes, whatever a message holds; internal topics in clear."""

from __future__ import annotations

import json

from headgate.protocol.internal import offsets
from headgate.protocol.internal.offsets import OffsetCommitKey, OffsetCommitValue
from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record
from headgate.tools.console.messages import rows
from headgate.tools.console.messages.filters import Filters
from headgate.tools.console.messages.record_batches import FetchedMessage
from headgate.tools.console.messages.rows import MessageDecoder
from headgate.tools.console.messages.values.decoder import ValueDecoder


def message(record: Record, is_control: bool = False) -> FetchedMessage:
    header = batch.read_header(batch.build([record], is_control=is_control))
    return FetchedMessage(0, header, record._replace(offset=0))


def decoder(topic: str = "t", keys: str = "auto", values: str = "auto", **filters: str) -> MessageDecoder:
    return MessageDecoder(topic, ValueDecoder(keys), ValueDecoder(values), Filters(**filters).compile())


def test_a_row_is_small_and_says_what_is_cut() -> None:
    headers = [(f"name-{number}" * 100, b"x" * 10_000) for number in range(2000)]
    given = message(Record(-1, 5, b"k" * 100_000, b'{"a":"' + b"v" * 10_000_000 + b'"}', headers))
    row = rows.row(decoder().decode(given))
    assert len(json.dumps(row)) < 5_000
    assert (row["value"]["is_cut"], row["value"]["bytes"], row["value"]["format"]) == (True, 10_000_008, "json")
    assert row["headers_count"] == 2000


def test_details_of_a_large_message_are_bounded() -> None:
    headers = [(f"name-{number}", b"x" * 10_000) for number in range(2000)]
    given = message(Record(-1, 5, None, b"\xff" * 10_000_000, headers))
    details = rows.details(decoder().decode(given), memoryview(batch.build([given.record])))
    assert len(details["value"]["hex"]) < 200_000
    assert (len(details["headers"]), details["headers_count"]) == (1000, 2000)


def test_scripts_and_strange_characters_stay_characters() -> None:
    text = "<script>alert(1)</script>\u202e\x00\u200b"
    row = rows.row(decoder().decode(message(Record(-1, 5, None, text.encode()))))
    assert json.loads(json.dumps(row))["value"]["text"] == text


def commit() -> Record:
    key, value = OffsetCommitKey("g", "orders", 3), OffsetCommitValue(offset=17, commit_timestamp=5)
    return Record(-1, 5, offsets.encode_key(key), offsets.encode_value(value))


def test_records_of_internal_topics_are_in_clear() -> None:
    row = rows.row(decoder("__consumer_offsets").decode(message(commit())))
    assert json.loads(row["key"]["text"])["group"] == "g"
    assert json.loads(row["value"]["text"])["offset"] == 17
    assert row["value"]["format"] == "kafka"


def test_a_chosen_format_wins_over_the_topic() -> None:
    row = rows.row(decoder("__consumer_offsets", values="hex").decode(message(commit())))
    assert (row["key"]["format"], row["value"]["format"]) == ("kafka", "hex")


def test_filters_look_through_decoded_records() -> None:
    given = message(commit())
    for filters in ({"key": '"orders"'}, {"text": "17"}, {"jmespath": "offset == `17`"}):
        found = decoder("__consumer_offsets", **filters)
        assert found.match(found.decode(given))
        other = decoder("orders", **filters)
        assert not other.match(other.decode(given))
