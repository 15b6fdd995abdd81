"""Messages after an int16: both forms of the prefix, and all bytes that are refused."""

import pytest

from headgate.protocol.errors import MalformedRequest
from headgate.protocol.internal import version_prefix
from headgate.protocol.schema import Message, int16, string, v


class Note(Message, key=-1, versions="0-1", flexible="none", record=True):
    """A message of two versions."""

    text: string = v("0+")
    number: int16 = v("1+")


def test_a_prefix_precedes_the_message() -> None:
    assert version_prefix.encode(1, Note("a", 2), 1) == b"\0\1" + b"\0\1a" + b"\0\2"
    assert version_prefix.encode(9, Note("a", 2), 0) == b"\0\x09" + b"\0\1a"


def test_the_prefix_is_the_version_or_is_left_to_the_caller() -> None:
    data = b"\0\1\0\1a\0\2"
    assert version_prefix.read_prefix(data, "a note") == 1
    assert version_prefix.decode_versioned(Note, data, "a note") == Note("a", 2)
    assert version_prefix.decode(Note, 1, data) == Note("a", 2)
    assert version_prefix.decode_start(Note, 0, data) == (Note("a"), 5)


@pytest.mark.parametrize(
    "data, message",
    [
        (b"\0", "a note has 1 bytes; it begins with an int16"),
        (b"\0\2", "a Note has version 2; 0-1 are known here"),
        (b"\xff\xff", "a Note has version -1"),
        (b"\0\0\0\1ab", "1 bytes follow a Note"),
        (b"\0\0\0\2a", "Note v0, at byte 4"),
    ],
)
def test_other_bytes_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(MalformedRequest, match=message):
        version_prefix.decode_versioned(Note, data, "a note")
