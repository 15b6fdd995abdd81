"""The memory of a transactional id that is loaded; `docs/limits.md` has the figure."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from headgate.gateway.coordinator.transactions.tests.transaction_desk import Desk
from headgate.protocol.internal.transactions import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    encode_key,
    encode_value,
)

IDS = 2_000
NOW_MS = 1_700_000_000_000


def record(number: int, partitions: int) -> tuple[bytes, bytes]:
    """An id of twenty characters: complete, or with a transaction of some partitions of one topic."""
    value = TransactionLogValue(
        producer_id=number + 1_000,
        previous_producer_id=number + 1_000,
        producer_epoch=300,
        transaction_timeout_ms=60_000,
        transaction_status=1 if partitions else 4,
        transaction_partitions=[PartitionsSchema("orders", list(range(partitions)))] if partitions else [],
        transaction_last_update_timestamp_ms=NOW_MS + number,
        transaction_start_timestamp_ms=NOW_MS + number,
        client_transaction_version=2,
    )
    return encode_key(TransactionLogKey(f"application-{number:08}")), encode_value(value, 1)


@pytest.mark.parametrize("partitions, most_bytes", [(0, 560), (3, 1_100)], ids=["complete", "ongoing"])
def test_an_id_costs_little_memory(partitions: int, most_bytes: int) -> None:
    records = [record(number, partitions) for number in range(IDS)]
    shard = Desk().shard
    load = shard.record_loader()
    gc.collect()
    tracemalloc.start()
    try:
        for key, value in records:
            assert load(key, value, NOW_MS, None)
        for _ in shard.start_clocks(0.0):
            pass
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used / IDS < most_bytes
