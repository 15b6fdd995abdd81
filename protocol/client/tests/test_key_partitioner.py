"""The hash against values that Kafka's own tests state, and partitions that the Java client has chosen."""

from __future__ import annotations

import pytest

from headgate.protocol.client.key_partitioner import murmur2, partition_of_key

# From Kafka's UtilsTest
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", KNOWN)
def test_known_hashes(key: bytes) -> None:
    assert murmur2(key) == KNOWN[key] & 0xFFFFFFFF


# Chosen by BuiltInPartitioner.partitionForKey of kafka-clients 4.4.0, for 1, 3, 7 and 100 partitions
CHOSEN = {
    b"": (0, 0, 2, 81),
    b"a": (0, 1, 5, 24),
    b"ab": (0, 2, 0, 34),
    b"abc": (0, 0, 4, 7),
    b"foobar": (0, 0, 0, 66),
    b"order-4711": (0, 1, 1, 11),
    b"a-little-bit-longer-string": (0, 2, 0, 19),
}


@pytest.mark.parametrize("key", CHOSEN)
def test_partitions_of_the_java_client(key: bytes) -> None:
    assert tuple(partition_of_key(key, count) for count in (1, 3, 7, 100)) == CHOSEN[key]


def test_bytes_above_127_are_unsigned() -> None:
    assert partition_of_key(b"\x80\xff\x00", 100) == 85
    assert partition_of_key(b"\xff\xfe\xfd\xfc\xfb", 100) == 35
