"""Message sets as real clients before Kafka 0.11 sent them, each with its own ways.

The wrong header checksum of lz4 in format 0; snappy raw and framed; inner offsets that are all 0, and that count; a
wrapper without a time, or with a key. The clients themselves run in compat_tests/matrix/test_matrix.py.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from headgate.protocol.records.batch import Record, iterate, split
from headgate.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY
from headgate.protocol.records.message_set import MAGIC_POSITION
from headgate.protocol.records.tests.sets import down_convert, expected, theirs, up_convert

CODECS: Final = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4}
SENT: Final = [
    Record(timestamp=1_500_000_000_000 + 7 * number, key=key, value=value)
    for number, (key, value) in enumerate(
        [
            (b"k", b"value " * 9),
            (None, b"no key"),
            (b"", b"empty key"),
            (b"tombstone", None),
            (b"empty value", b""),
        ]
    )
]


class ClientSet(NamedTuple):
    """A line of client_sets.txt."""

    clients: str
    codec: int
    data: bytes


def read_sets() -> list[ClientSet]:
    lines = (Path(__file__).parent / "client_sets.txt").read_text().splitlines()
    fields = [line.split("\t") for line in lines if not line.startswith("#")]
    return [ClientSet(clients, CODECS[codec], base64.b64decode(text)) for clients, codec, text in fields]


SETS: Final = read_sets()


@pytest.mark.parametrize("one", SETS, ids=[f"{one.clients}, codec {one.codec}" for one in SETS])
def test_a_clients_set_is_converted_up_and_down(one: ClientSet) -> None:
    magic = one.data[MAGIC_POSITION]
    stored = up_convert(one.data)
    assert [header.attributes for header, _ in split(stored)] == [one.codec]
    assert [record for _, view in split(stored) for record in iterate(view)] == expected(SENT, magic)
    for older in range(magic + 1):
        assert theirs(down_convert(stored, older, 0, 1 << 20).data) == expected(SENT, older)


def test_the_sets_have_every_format_and_codec() -> None:
    found = {(one.data[MAGIC_POSITION], one.codec) for one in SETS}
    assert found == {(magic, codec) for magic in (0, 1) for codec in CODECS.values()}
