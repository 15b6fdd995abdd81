"""Internal topics: the partition of a key, and the batch of a decision."""

from __future__ import annotations

import pytest

from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch
from headgate.gateway.coordinator.internal_topic import MAX_KEY_BYTES, SPLIT_BYTES, java_hash, partition_of
from headgate.gateway.coordinator.tests.coordinator_bench import GROUPS_LOG
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.offsets import OffsetCommitKey, OffsetCommitValue
from headgate.protocol.records import batch

# The partition of a key


@pytest.mark.parametrize(
    "text, value",
    # What java.lang.String.hashCode says in a JVM
    [
        ("", 0),
        ("a", 97),
        ("my-group", -1_906_497_762),
        ("polygenelubricants", -(1 << 31)),
        ("\u00e9t\u00e9", 227_742),
        ("\U0001f600", 1_772_899),
    ],
)
def test_hashes_are_those_of_java(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_the_one_hash_that_has_no_absolute_value() -> None:
    assert partition_of("polygenelubricants", 50) == 0
    assert partition_of("a", 50) == 97 % 50
    assert partition_of("a" * 1_000, 50) == abs(java_hash("a" * 1_000)) % 50


@pytest.mark.parametrize("key", ["\u20ac" * 10_923, "g" * 32_768])
def test_a_key_must_fit_into_a_record(key: str) -> None:
    GROUPS_LOG.check_key("g" * MAX_KEY_BYTES)
    with pytest.raises(KafkaError) as raised:
        GROUPS_LOG.check_key(key)
    assert raised.value.code is ErrorCode.INVALID_GROUP_ID


# The batch of a decision


def many() -> Decision:
    value = OffsetCommitValue(1, -1, "x" * 4_000, 1)
    return Decision([(OffsetCommitKey("g", "t", number), value) for number in range(2 * SPLIT_BYTES // 4_000)])


@pytest.mark.parametrize("is_atomic", [True, False])
def test_many_records_stay_together_where_they_have_to(is_atomic: bool) -> None:
    decision = many()
    decision.is_atomic = is_atomic
    batches = batch.split(memoryview(GROUPS_LOG.encode(decision, 1)))
    assert (len(batches) == 1) == is_atomic
    assert sum(header.records_count for header, _ in batches) == len(decision.records)


def test_records_of_a_transaction_are_one_batch() -> None:
    decision = many()
    decision.is_atomic, decision.producer = False, ProducerIdAndEpoch(5, 2)
    ((header, _),) = batch.split(memoryview(GROUPS_LOG.encode(decision, 1)))
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional) == (
        5,
        2,
        -1,
        True,
    )


def test_a_tombstone_has_no_value() -> None:
    for producer in (None, ProducerIdAndEpoch(5, 2)):
        decision = Decision([(OffsetCommitKey("g", "t", 0), None)], producer=producer)
        (record,) = batch.iterate(GROUPS_LOG.encode(decision, 7))
        assert (record.timestamp, record.value) == (7, None)
