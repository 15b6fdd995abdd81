"""Limits and isolation levels, as they are typed."""

import argparse

import pytest

from headgate.tools.groups.lag_options import add_isolation_option, add_limit_options, isolation_level, not_negative
from headgate.tools.groups.offsets import READ_COMMITTED, READ_UNCOMMITTED


def test_options_and_their_defaults() -> None:
    parser = argparse.ArgumentParser()
    add_limit_options(parser)
    add_isolation_option(parser)
    options = parser.parse_args([])
    assert (options.fail_above, options.fail_above_seconds, options.isolation_level) == (None, None, READ_UNCOMMITTED)
    typed = ["--fail-above", "10", "--fail-above-seconds", "1.5", "--isolation-level", "read_committed"]
    options = parser.parse_args(typed)
    assert (options.fail_above, options.fail_above_seconds, options.isolation_level) == (10, 1.5, READ_COMMITTED)


@pytest.mark.parametrize("text", ["-1", "inf", "nan", "x", ""])
def test_a_number_below_0_or_without_end(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no number from 0 on"):
        not_negative(text)


def test_an_unknown_level() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="read_uncommitted or read_committed"):
        isolation_level("all")
