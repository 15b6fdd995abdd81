"""Contradictions between producer snapshots and the batches of a log."""

from __future__ import annotations

import pytest

from headgate.protocol.records.batch import BatchHeader
from headgate.storage.log.producers import DEFAULT_EXPIRATION_MS, Producers
from headgate.tools.log.verification.producer_check import find_contradictions

NOW_MS = 10 * DEFAULT_EXPIRATION_MS


def state(producer_id: int = 7, *, offset: int = 10, sequence: int = 3, epoch: int = 0) -> Producers:
    producers = Producers()
    producers.record(BatchHeader(offset, 49, 0, 2, 0, 0, 0, NOW_MS, NOW_MS, producer_id, epoch, sequence, 1), offset)
    return producers


@pytest.mark.parametrize(
    "snapshot, sentence",
    [
        (state(), None),
        (state(offset=12, sequence=5), None),  # what it wrote then is gone since
        (state(sequence=2), "wrote sequence 3 at offset 10, and the snapshot says sequence 2 at offset 10"),
        (state(offset=9, sequence=2), "wrote sequence 3 at offset 10, and the snapshot says sequence 2 at offset 9"),
        (state(8), "the snapshot lacks producer 7, which wrote up to offset 10"),
    ],
)
def test_a_snapshot_that_contradicts_the_batches_is_found(snapshot: Producers, sentence: str | None) -> None:
    found = list(find_contradictions(snapshot, state(), NOW_MS))
    assert len(found) == (sentence is not None)
    assert sentence is None or sentence in found[0]


def test_an_expired_producer_may_be_missing() -> None:
    assert list(find_contradictions(Producers(), state(), NOW_MS + DEFAULT_EXPIRATION_MS)) == []


def test_a_too_old_epoch_is_a_contradiction() -> None:
    assert "is in epoch 1, and the snapshot says 0" in next(iter(find_contradictions(state(), state(epoch=1), NOW_MS)))
