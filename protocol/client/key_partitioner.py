"""The partition of a key, as the default partitioner of Kafka's Java producer chooses it.

The hash is Austin Appleby's MurmurHash2 with Kafka's seed (`Utils.murmur2`); `BuiltInPartitioner.partitionForKey` takes
its lower 31 bits modulo the number of all partitions, with or without leaders. Clients of librdkafka choose another
partition by default; their `partitioner=murmur2_random` chooses this one.
"""

from __future__ import annotations

from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFF_FFFF
_POSITIVE: Final = 0x7FFF_FFFF
_WORD_BYTES: Final = 4


def murmur2(key: bytes) -> int:
    """The hash of a key, from 0 to 2^32 - 1; Java shows the same bits as a signed number."""
    found = _SEED ^ len(key)
    whole = len(key) - len(key) % _WORD_BYTES
    for start in range(0, whole, _WORD_BYTES):
        word = int.from_bytes(key[start : start + _WORD_BYTES], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        found = found * _MULTIPLIER & _MASK ^ word
    if rest := key[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * _MULTIPLIER & _MASK
    found = (found ^ found >> 13) * _MULTIPLIER & _MASK
    return found ^ found >> 15


def partition_of_key(key: bytes, partitions: int) -> int:
    """The number of the partition; `partitions`: how many the topic has. An empty key has a partition too."""
    return (murmur2(key) & _POSITIVE) % partitions
