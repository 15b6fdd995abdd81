"""Checkpoints as Spark 2.1 to 4.2 write them, and damaged ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.protocol.spark.checkpoint_files import (
    MAX_FILE_BYTES,
    MalformedCheckpoint,
    Progress,
    batch_numbers,
    decode,
    find_progress,
    lowest,
    parse_initial_positions,
    parse_offsets,
    parse_positions,
    parse_query_id,
)

METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{"spark.sql.shuffle.partitions":"2"}}'


def test_version_1_has_a_line_for_each_source() -> None:
    log = parse_offsets(f'v1\n{METADATA}\n{{"orders":{{"0":250,"10":3}}}}\n-\n{{"logOffset":4}}\n51')
    assert (log.version, log.planned_ms) == (1, 1_700_000_000_000)
    assert log.positions() == {("orders", 0): 250, ("orders", 10): 3}
    assert log.sources == {"0": '{"orders":{"0":250,"10":3}}', "1": None, "2": '{"logOffset":4}', "3": "51"}
    assert log.foreign() == ["2", "3"]


def test_version_2_names_the_sources() -> None:
    log = parse_offsets(f'v2\n{METADATA}\npayments:{{"p":{{"0":7}}}}\n0:-\norders:{{"o:1":{{"3":9}}}}\n')
    assert log.version == 2
    assert log.positions() == {("p", 0): 7, ("o:1", 3): 9}
    assert list(log.sources) == ["payments", "0", "orders"]


def test_a_partition_of_two_sources_counts_with_its_lowest_offset() -> None:
    log = parse_offsets('v1\n\n{"t":{"0":9,"1":1}}\n{"t":{"0":5,"2":2}}')
    assert log.planned_ms == 0
    assert log.positions() == {("t", 0): 5, ("t", 1): 1, ("t", 2): 2}
    assert lowest([]) == {}


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_file_that_was_copied_by_windows(ending: str) -> None:
    assert parse_offsets(ending.join(("v1", METADATA, '{"t":{"0":1}}', ""))).positions() == {("t", 0): 1}


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "begins with ''"),
        ("v3\n{}\n", "has version 3"),
        ("v\n{}", "begins with 'v'"),
        ("v1x\n{}", "begins with 'v1x'"),
        ("w1\n{}", "begins with 'w1'"),
        ("v1\n{", "are no JSON: "),
        ("v1\n[]", "are no JSON object"),
        ('v1\n{"batchTimestampMs":"now"}', "has the time 'now'"),
        ('v1\n{"batchTimestampMs":-5}', "has the time -5"),
        ("v2\n{}\nno source", "names no source"),
        ("v2\n{}\na:-\na:-", "repeats a source"),
    ],
)
def test_a_damaged_offset_log(text: str, reason: str) -> None:
    with pytest.raises(MalformedCheckpoint, match=reason):
        parse_offsets(text)


@pytest.mark.parametrize(
    "text",
    ["51", "null", '"t"', "[]", '{"logOffset":3}', '{"t":{"a":1}}', '{"t":{"0":null}}', '{"t":{"0":true}}', "text"],
)
def test_the_offsets_of_other_sources(text: str) -> None:
    assert parse_positions(text) is None


@pytest.mark.parametrize("text", ['{"t":{"0":-1}}', '{"t":{"0":9223372036854775808}}', '{"t":{"0":2', "{" * 100_000])
def test_offsets_that_no_partition_has(text: str) -> None:
    with pytest.raises(MalformedCheckpoint):
        parse_positions(text)


def test_the_start_of_a_query_of_the_format_headgate() -> None:
    log = parse_offsets('v1\n{}\n{"t":{"0":9},"#start":{"t":{"0":4,"1":5}}}\n{"t":{"1":3},"#start":"?"}\n7')
    assert log.positions() == {("t", 0): 9, ("t", 1): 3}
    assert log.initial_positions() == {("t", 0): 4, ("t", 1): 5}
    assert log.foreign() == ["2"]


def test_a_query_without_partitions() -> None:
    assert parse_positions("{}") == {}


@pytest.mark.parametrize(
    "data",
    [b'\0v1\n{"t":{"0":4}}', b'v1\n{"t":{"0":4}}', b'\0{"t":{"0":4}}'],
    ids=["since 2.2", "no zero byte", "2.1.0"],
)
def test_the_initial_offsets(data: bytes) -> None:
    assert parse_initial_positions(data) == {("t", 0): 4}


def test_the_id_of_a_query() -> None:
    assert parse_query_id('{"id":"0b2c"}') == "0b2c"
    for text in ("", "[]", "{}", '{"id":7}', '{"id":""}'):
        with pytest.raises(MalformedCheckpoint):
            parse_query_id(text)


def test_text() -> None:
    assert decode("ü".encode()) == "ü"
    with pytest.raises(MalformedCheckpoint, match="no text"):
        decode(b"\xff")
    with pytest.raises(MalformedCheckpoint, match="64 MiB"):
        decode(bytes(MAX_FILE_BYTES + 1))


def test_names_of_batches() -> None:
    assert batch_numbers(["10", "9", ".9.crc", ".11.a.tmp", "x", "٣", "9" * 30, "-1"]) == [9, 10]


@pytest.mark.parametrize(
    "offsets, commits, expected",
    [
        ([], [], Progress(None, None)),
        ([0], [], Progress(None, 0)),
        ([0, 1], [0, 1], Progress(1, None)),
        ([0, 1, 2], [0, 1], Progress(1, 2)),
        ([4, 8], [4], Progress(4, 8)),  # asynchronous progress tracking writes both logs now and then
        ([5, 6], [1, 2], Progress(None, 6)),
    ],
)
def test_progress(offsets: list[int], commits: list[int], expected: Progress) -> None:
    assert find_progress(offsets, commits) == expected


TEXTS = st.text(max_size=5) | st.sampled_from(["v1", "v2", "-", "\n", "{}", METADATA, '{"t":{"0":1}}', ":", "0:-"])


@given(st.lists(TEXTS, max_size=8).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_offsets, parse_positions, parse_query_id):
        try:
            found: Any = parse(text)
            if parse is parse_offsets:
                found.positions()
                found.initial_positions()
                found.foreign()
        except MalformedCheckpoint:
            continue


@given(st.binary())
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        parse_initial_positions(data)
    except MalformedCheckpoint:
        return


PARTITIONS = st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), max_size=3)


@given(st.dictionaries(st.text("az09._-", min_size=1, max_size=5), PARTITIONS, max_size=3))
def test_what_spark_writes_is_read(topics: dict[str, dict[int, int]]) -> None:
    line = json.dumps({topic: {str(one): at for one, at in rows.items()} for topic, rows in topics.items()})
    expected = {(topic, one): at for topic, rows in topics.items() for one, at in rows.items()}
    for header in (f"v1\n{METADATA}\n", f"v2\n{METADATA}\nsource:"):
        assert parse_offsets(header + line).positions() == expected
