"""Java's .properties text."""

import pytest

from headgate.protocol.properties import MalformedProperties, Property, parse


def pairs(text: str) -> list[tuple[str, str]]:
    return [(entry.name, entry.value) for entry in parse(text)]


@pytest.mark.parametrize(
    "line",
    [
        "key=value",
        "key:value",
        "key value",
        "key\tvalue",
        "  key = value",
        "key : value",
        "key   value",
        "\fkey\f=\fvalue",
        "key= value",
    ],
)
def test_every_separator(line: str) -> None:
    assert pairs(line) == [("key", "value")]


def test_only_the_first_separator_counts() -> None:
    assert pairs("a=b=c\nd:e:f\ng = = h\ni j=k") == [("a", "b=c"), ("d", "e:f"), ("g", "= h"), ("i", "j=k")]


def test_blanks_at_the_end_of_a_value_stay() -> None:
    assert pairs("key=value  \t") == [("key", "value  \t")]


def test_names_without_values() -> None:
    assert pairs("a\nb=\nc:\n=d") == [("a", ""), ("b", ""), ("c", ""), ("", "d")]


def test_comments_and_empty_lines() -> None:
    assert pairs("# one\n  ! two\n\n \t\na=b # no comment") == [("a", "b # no comment")]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_every_line_end(end: str) -> None:
    assert pairs(f"a=1{end}{end}b=2") == [("a", "1"), ("b", "2")]


def test_a_line_goes_on_after_a_backslash() -> None:
    assert pairs("fruits = apple, \\\n         banana, \\\r\n\tpear\nnext=1") == [
        ("fruits", "apple, banana, pear"),
        ("next", "1"),
    ]
    assert pairs("a=b\\\n# part of the value") == [("a", "b# part of the value")]
    assert pairs("a=b\\\\\nc=d") == [("a", "b\\"), ("c", "d")], "an escaped backslash does not continue a line"
    assert pairs("a=b\\") == [("a", "b")]
    assert pairs("a=b\\\n") == [("a", "b")]


def test_escapes() -> None:
    assert pairs(r"a\ b\:c\=d = \t\n\r\f\\ \q \"") == [("a b:c=d", '\t\n\r\f\\ q "')]
    assert pairs(r"path=C\:\\data") == [("path", "C:\\data")]
    assert pairs("leading=\\  x") == [("leading", "  x")]


def test_unicode_escapes() -> None:
    assert pairs(r"\u006bey=\u00fc\u4e2d") == [("key", "ü中")]
    assert pairs(r"a=\ud83d\ude00") == [("a", "😀")], "a pair of surrogates is one character"


@pytest.mark.parametrize("text", [r"a=\u12", r"a=\u12g4", r"a=\u", r"a=\u+123"])
def test_a_broken_unicode_escape_names_its_line(text: str) -> None:
    with pytest.raises(MalformedProperties, match="line 2: "):
        parse(f"# first\n{text}")


def test_lines_are_counted_as_in_an_editor() -> None:
    assert parse("# 1\na=\\\n 3\n\nb=5") == [Property("a", "3", 2), Property("b", "5", 5)]


def test_repeated_names_are_kept_in_order() -> None:
    assert pairs("a=1\nb=2\na=3") == [("a", "1"), ("b", "2"), ("a", "3")]
