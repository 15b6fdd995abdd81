"""JAAS lines: their errors, and what no text of them shows."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.protocol.security.sasl.jaas import (
    MAX_LINE_LENGTH,
    OAUTHBEARER_MODULE,
    PLAIN_MODULE,
    SCRAM_MODULE,
    InvalidJaasConfig,
    parse,
    parse_for,
)

SECRET = "hunter2"


def test_users_are_the_options_with_the_prefix() -> None:
    entry = parse(f'{PLAIN_MODULE} required username="admin" password="x" user_admin="x" user_ann="y";')
    assert entry.users == {"admin": "x", "ann": "y"}


def test_a_quoted_option_may_have_any_user() -> None:
    assert parse(f'{PLAIN_MODULE} required "user_a@b.org"="x";').users == {"a@b.org": "x"}


def test_no_text_of_an_entry_has_a_secret() -> None:
    entry = parse(f'{PLAIN_MODULE} required password="{SECRET}";')
    assert SECRET not in f"{entry!r}{entry}"


@pytest.mark.parametrize(
    "line",
    [
        f'{PLAIN_MODULE} required password="x" {SECRET};',
        f"{PLAIN_MODULE} required password=x {SECRET};",
        f"{PLAIN_MODULE} required password=x={SECRET};",
        f'{PLAIN_MODULE} "{SECRET}";',
        f'{PLAIN_MODULE} password="{SECRET}";',
        f'{PLAIN_MODULE} required password="{SECRET}"',
        f'{PLAIN_MODULE} required password="{SECRET}" 5;',
        f"{PLAIN_MODULE} required {SECRET};",
    ],
)
def test_no_error_has_a_secret(line: str) -> None:
    with pytest.raises(InvalidJaasConfig) as error:
        parse(line)
    assert SECRET not in str(error.value)


def test_an_error_names_the_option_without_a_value() -> None:
    with pytest.raises(InvalidJaasConfig, match="Value not specified for key 'user_bob'"):
        parse(f'{PLAIN_MODULE} required user_bob "x";')


def test_another_class_is_refused_by_name() -> None:
    with pytest.raises(InvalidJaasConfig, match=r"com\.example\.Own is not supported.*ScramLoginModule"):
        parse_for("PLAIN", "com.example.Own required;")


def test_the_class_of_another_mechanism_is_refused() -> None:
    with pytest.raises(InvalidJaasConfig, match=f"is not for OAUTHBEARER; use {OAUTHBEARER_MODULE}"):
        parse_for("OAUTHBEARER", f"{SCRAM_MODULE} required;")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_has_one_class_for_both(mechanism: str) -> None:
    assert parse_for(mechanism, f"{SCRAM_MODULE} required;").options == {}


def test_a_line_is_bounded() -> None:
    with pytest.raises(InvalidJaasConfig, match="the limit is"):
        parse(" " * (MAX_LINE_LENGTH + 1))


@given(st.text())
@example('a required b="\\')
def test_any_text_is_read_or_refused(line: str) -> None:
    for text in (line, f"{PLAIN_MODULE} required {line}", f'{PLAIN_MODULE} required a="{line}'):
        with suppress(InvalidJaasConfig):
            parse(text)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\n")))
def test_a_quoted_value_is_the_value(value: str) -> None:
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    assert parse(f'{PLAIN_MODULE} required password="{quoted}";').options == {"password": value}
