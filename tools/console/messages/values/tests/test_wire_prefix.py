"""The bytes that name a schema."""

from __future__ import annotations

import pytest

from headgate.tools.console.messages.values import wire_prefix
from headgate.tools.console.messages.values.wire_prefix import APICURIO, CONFLUENT, WirePrefix


@pytest.mark.parametrize(
    "content, prefix",
    [
        (b"\x00\x00\x00\x00\x07abc", WirePrefix(7, CONFLUENT, 5)),
        (b"\x00" + (12).to_bytes(8, "big") + b"abc", WirePrefix(12, APICURIO, 9)),
        (b"\x00\x00\x00\x00\x07", WirePrefix(7, CONFLUENT, 5)),
        (b"\x01\x00\x00\x00\x07", None),
        (b"\x00\x00\x00", None),
        (b"\x00\xff\xff\xff\xff1234", None),
        (bytes(20), None),
        (b"", None),
    ],
)
def test_prefixes_of_both_registries_are_read(content: bytes, prefix: WirePrefix | None) -> None:
    assert wire_prefix.read(content) == prefix


def test_the_indexes_of_a_protobuf_message_are_passed() -> None:
    assert wire_prefix.after_indexes(b"\x00rest", 0) == 1
    assert wire_prefix.after_indexes(b"\x04\x02\x00rest", 0) == 3
    for content in (b"", b"\x04", b"\xff\xff\xff\x7f", b"\x01"):
        with pytest.raises(ValueError, match="indexes"):
            wire_prefix.after_indexes(content, 0)
