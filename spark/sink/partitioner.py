"""Target partitions of rows, as Kafka's own producers choose them: murmur2 of the key, for a whole column at once.

The hash is Austin Appleby's MurmurHash2 with the seed of Kafka's Java client (`Utils.murmur2`), and equal keys land in
the same partition for every writer. Rows without a key fill the partitions in runs, so that batches stay large.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_SEED = np.uint32(0x9747B28C)
_MULTIPLIER = np.uint32(0x5BD1E995)
_POSITIVE = np.uint32(0x7FFFFFFF)
_WORD_BYTES = 4


def murmur2(data: Any, starts: Any, lengths: Any) -> Any:
    """The hashes (uint32) of byte strings in one buffer. `data`: uint8; `starts`, `lengths`: of each string, int64."""
    hashes = _SEED ^ lengths.astype(np.uint32)
    if not len(lengths):
        return hashes
    # The longest first: the strings with one more word are then always a prefix
    order = np.argsort(-lengths, kind="stable")
    words_of = lengths[order] // _WORD_BYTES
    places, sorted_hashes = starts[order], hashes[order]
    words = _unaligned_words(data)
    for number in range(int(words_of[0])):
        count = int(np.searchsorted(-words_of, -number, side="left"))
        word = words[places[:count] + number * _WORD_BYTES] * _MULTIPLIER
        word ^= word >> np.uint32(24)
        word *= _MULTIPLIER
        part = sorted_hashes[:count]
        part *= _MULTIPLIER
        part ^= word
    hashes[order] = sorted_hashes
    _mix_tails(hashes, data, starts, lengths)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _MULTIPLIER
    hashes ^= hashes >> np.uint32(15)
    return hashes


def _unaligned_words(data: Any) -> Any:
    """A view of `data` with the little-endian uint32 that begins at each byte."""
    count = max(0, len(data) - _WORD_BYTES + 1)
    return np.ndarray((count,), dtype="<u4", buffer=data, strides=(1,)) if count else np.zeros(0, np.uint32)


def _mix_tails(hashes: Any, data: Any, starts: Any, lengths: Any) -> None:
    """Mix the one to three bytes after the last whole word into the hashes, in place."""
    rests = lengths % _WORD_BYTES
    ends = starts + lengths
    for rest in (3, 2, 1):
        rows = np.flatnonzero(rests >= rest)
        # The byte at distance `rest` from the last whole word is the highest
        hashes[rows] ^= data[ends[rows] - rests[rows] + rest - 1].astype(np.uint32) << np.uint32(8 * (rest - 1))
    hashes[rests > 0] *= _MULTIPLIER


def choose(hashes: Any, has_key: Any, partitions: int, first: int = 0) -> Any:
    """The partition (int32) of each row. Rows without a key go in runs to all partitions, from `first` on."""
    chosen = ((hashes & _POSITIVE) % np.uint32(partitions)).astype(np.int32)
    without = np.flatnonzero(~has_key)
    count = len(without)
    if count:
        chosen[without] = (first + np.arange(count, dtype=np.int64) * partitions // count) % partitions
    return chosen
