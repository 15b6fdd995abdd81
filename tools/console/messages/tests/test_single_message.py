"""One message with all its fields, and the bytes of its parts."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.protocol.records import compression
from headgate.protocol.records.batch import Record
from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.messages.single_message import read_details, read_part
from headgate.tools.console.messages.tests.partitions import BOOTSTRAP, append, decoder_of, query_of, text
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.tests.model_cluster import Log, ModelCluster


@pytest.fixture
def log(model: ModelCluster) -> Log:
    log = Log()
    model.topics["t"].append(log)
    append(log, [text(1, "zero"), text(2, "one")])
    records = [
        Record(-1, 3, b"key", b'{"a":[1,2]}', [("trace", b"abc"), ("none", None), ("bin", b"\xff\x00")]),
        text(4, None, "gone"),
    ]
    append(log, records, compression=compression.LZ4, producer_id=9, producer_epoch=2, base_sequence=0x7FFF_FFFF)
    return log


def details(offset: int, **options: Any) -> dict[str, Any]:
    query = query_of(start="offset", offset=offset, partitions=(0,), **options)
    with Cluster(BOOTSTRAP) as cluster:
        return read_details(cluster, query, decoder_of(query))


def part(offset: int, **parameters: str) -> bytes:
    with Cluster(BOOTSTRAP) as cluster:
        query = query_of(start="offset", offset=offset, partitions=(0,))
        return read_part(cluster, query, Parameters(list(parameters.items())))


def test_a_message_has_all_fields_and_its_batch(log: Log) -> None:
    found = details(2)
    assert (found["offset"], found["producer_id"], found["producer_epoch"]) == (2, 9, 2)
    assert found["sequence"] == 0x7FFF_FFFF
    assert found["value"]["text"] == '{\n  "a": [\n    1,\n    2\n  ]\n}'
    assert found["value"]["hex"].startswith("7b 22 61")
    assert found["headers"] == [
        {"name": "trace", "text": "abc", "bytes": 3},
        {"name": "none", "text": None, "bytes": None},
        {"name": "bin", "text": "ff 00", "bytes": 2},
    ]
    assert {"base_offset": 2, "last_offset": 3, "records": 2, "codec": "lz4", "magic": 2, "is_sound": True}.items() <= (
        found["batch"].items()
    )


def test_sequences_wrap_around(log: Log) -> None:
    assert details(3)["sequence"] == 0


def test_a_message_may_be_shown_in_another_format(log: Log) -> None:
    assert details(1, value_format="hex")["value"]["text"] == "6f 6e 65"


def test_a_damaged_checksum_is_named(log: Log) -> None:
    damaged = bytearray(log.batches[0])
    damaged[-2] ^= 1
    log.batches[0] = bytes(damaged)
    assert details(0)["batch"]["is_sound"] is False


def test_parts_are_bytes(log: Log) -> None:
    assert part(2) == b'{"a":[1,2]}'
    assert part(2, part="key") == b"key"
    assert part(2, part="header", index="2") == b"\xff\x00"
    assert part(3) == b""
    assert part(2, part="batch") == log.batches[1]
    with pytest.raises(BadParameter, match="has 3 headers"):
        part(2, part="header", index="3")


def test_an_offset_without_a_message_is_a_sentence(log: Log) -> None:
    with pytest.raises(ClientError, match="its offsets are from 0 to before 4"):
        details(4)
    log.end = 10
    append(log, [text(5, "ten")])
    with pytest.raises(ClientError, match="the next one is at 10"):
        details(7)
    log.end = 20
    with pytest.raises(ClientError, match="compaction has removed it"):
        details(15)
