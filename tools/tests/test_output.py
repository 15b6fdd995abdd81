"""Tables and sentences of the commands."""

import argparse

import pytest

from headgate.tools.output import CommandResult, common_options, format_partitions, format_table, printable


def test_a_table_has_aligned_columns_below_their_names() -> None:
    rows = [
        {"a_name": "x", "count": 7, "ids": [1, 2], "is": True},
        {"a_name": "yyy", "count": 12, "ids": [], "is": False},
    ]
    assert format_table(rows) == [
        "A NAME  COUNT  IDS  IS",
        "x           7  1,2  yes",
        "yyy        12       no",
    ]


def test_a_missing_number_is_a_dash_in_a_right_aligned_column() -> None:
    assert format_table([{"n": None}, {"n": 100}, {"n": 1.5}]) == ["  N", "  -", "100", "1.5"]
    assert format_table([{"n": None, "x": 1}]) == ["N  X", "-  1"]


def test_no_rows_make_no_table() -> None:
    assert format_table([]) == []


def test_control_characters_of_clients_are_escaped() -> None:
    assert printable("K\u00f6ln \U0001f600 a-b") == "K\u00f6ln \U0001f600 a-b"
    assert printable("\x1b[2Ja\nb\u202e") == "\\x1b[2Ja\\nb\\u202e"
    assert format_table([{"client": "\x1b[31m"}]) == ["CLIENT", "\\x1b[31m"]


@pytest.mark.parametrize("seconds", ["0", "-1", "x", "nan", "inf"])
def test_a_timeout_is_above_zero_and_at_most_a_day(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        argparse.ArgumentParser(parents=[common_options()]).parse_args([f"--timeout={seconds}"])
    assert f"'{seconds}' is no number of seconds from above 0 to 86400" in capsys.readouterr().err


@pytest.mark.parametrize(
    "said, code",
    [
        (CommandResult(), 0),
        (CommandResult(failures=["x"]), 1),
        (CommandResult(failures=["x"], is_alarm=True), 3),
        (CommandResult(notes=["x"]), 0),
    ],
)
def test_the_exit_code_follows_failures_and_limits(said: CommandResult, code: int) -> None:
    assert said.code == code


def test_partitions_are_written_as_options_take_them() -> None:
    assert format_partitions({"a": [0, 1, 2, 5], "b": [3]}) == "a:0-2,5 b:3"
    assert format_partitions({}) == ""
