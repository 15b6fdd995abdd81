"""Rows for eyes."""

from __future__ import annotations

from headgate.tools.log.table import format_rows, time_text

ROW = {"offset": 5, "timestamp": 1_700_000_000_123, "key": {"a": "b"}, "value": "x" * 100, "headers": [], "crc": 1}


def test_columns_of_default_values_are_left_out() -> None:
    head, row = format_rows([ROW])
    assert head.split() == ["OFFSET", "TIMESTAMP", "KEY", "VALUE"]
    assert row.split() == ["5", "2023-11-14T22:13:20.123Z", "a=b", "x" * 59 + "…"]
    assert "HEADERS" in format_rows([ROW, {**ROW, "headers": [["h", "v"]]}])[0]


def test_long_values_are_shortened() -> None:
    key = {"type": "OffsetCommit", "group": "billing", "topic": "orders", "partition": 2, "members": [{"id": None}]}
    expected = 'type=OffsetCommit group=billing topic=orders partition=2 members=[{"id": null}]'
    assert expected[:59] + "…" in format_rows([{**ROW, "key": key}])[1]


def test_rows_of_two_kinds_are_two_tables() -> None:
    epochs, identity = {"leader_epoch": 0, "start_offset": 5}, {"version": 0}
    assert format_rows([{"topic_id": "abc"}]) == ["TOPIC ID", "abc"]
    assert format_rows([epochs, epochs, identity]) == [*format_rows([epochs, epochs]), *format_rows([identity])]


def test_no_rows_make_no_table() -> None:
    assert format_rows([]) == []


def test_control_characters_are_escaped() -> None:
    assert "\\x1b" in format_rows([{**ROW, "value": "\x1b[2J"}])[1]


def test_times_are_shown_in_utc() -> None:
    assert [time_text(one) for one in (None, -1, 0, 1 << 62)] == [
        None,
        None,
        "1970-01-01T00:00:00.000Z",
        str(1 << 62),
    ]
