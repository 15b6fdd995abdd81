"""The first batch of a transaction in a partition, and the word of the coordinator that comes before (KIP-890)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import BatchHeader, read_header
from headgate.storage.log import appending
from headgate.storage.log.log import Log
from headgate.storage.log.validation import CLIENT, CONVERTED, HEADER, RECORDS, BatchOrigin, Depth
from headgate.storage.log.verification import UnverifiedTransaction, Verification
from headgate.storage.tests.builders import (
    NOW_MS,
    SMALL,
    append,
    append_own,
    marker,
    new_log,
    numbered,
    transactional,
)

COMPACTED = replace(SMALL, cleanup_policy=("compact",))
APPEND_TIME = replace(SMALL, message_timestamp_type="LogAppendTime")


def header(sequence: int = 0, epoch: int = 0, producer_id: int = 7) -> BatchHeader:
    return read_header(transactional(sequence, producer_id=producer_id, epoch=epoch))


def begin(log: Log, sequence: int = 0, epoch: int = 0, *, begins_at_zero: bool = False) -> Verification:
    return log.producers.begin_verification(7, epoch, sequence, NOW_MS, begins_at_zero=begins_at_zero)


def verified(log: Log, sequence: int = 0, epoch: int = 0, *, begins_at_zero: bool = False) -> None:
    begin(log, sequence, epoch, begins_at_zero=begins_at_zero).is_verified = True


def refused(log: Log, data: memoryview) -> ErrorCode:
    end_offset, stable_offset = log.end_offset, log.stable_offset
    with pytest.raises(KafkaError) as caught:
        append(log, data)
    assert (log.end_offset, log.stable_offset) == (end_offset, stable_offset)
    return caught.value.code


def is_unverified(log: Log, data: memoryview, depth: Depth = HEADER, origin: BatchOrigin = CLIENT) -> bool:
    with pytest.raises(UnverifiedTransaction) as caught:
        append(log, data, depth=depth, origin=origin)
    assert caught.value.header[1:] == read_header(data)[1:]
    return True


@pytest.mark.parametrize("depth,origin", [(HEADER, CLIENT), (RECORDS, CLIENT), (HEADER, CONVERTED)])
@pytest.mark.parametrize("config", [SMALL, COMPACTED, APPEND_TIME])
def test_the_first_batch_needs_the_coordinators_word(config: object, depth: Depth, origin: BatchOrigin) -> None:
    log = new_log(config=config)  # type: ignore[arg-type]
    assert is_unverified(log, transactional(0), depth, origin)
    assert not log.has_transactions
    begin(log)
    assert is_unverified(log, transactional(0), depth, origin), "asked, but not answered"
    verified(log)
    assert append(log, transactional(0), depth=depth, origin=origin) == 1
    assert (log.has_transactions, log.stable_offset) == (True, 0)
    assert append(log, transactional(1), transactional(2), depth=depth, origin=origin) == 3, "the transaction is open"


def test_a_marker_ends_the_verification_of_the_next_batch() -> None:
    log = new_log()
    verified(log)
    append(log, transactional(0))
    append_own(log, marker(True))
    assert is_unverified(log, transactional(1))


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_late_answer_opens_nothing_behind_the_marker(is_commit: bool) -> None:
    log = new_log()
    late = begin(log)
    append_own(log, marker(is_commit))
    late.is_verified = True
    assert is_unverified(log, transactional(0))
    assert log.stable_offset == 1
    verified(log)
    late.is_verified = False
    append(log, transactional(0))


def test_a_verified_batch_behind_the_marker_opens_nothing() -> None:
    """The race of KIP-890: the answer has come, and the marker is appended before the batch."""
    log = new_log()
    verified(log)
    append_own(log, marker(False))
    assert is_unverified(log, transactional(0))
    assert log.stable_offset == log.end_offset == 1


def test_in_the_new_protocol_a_batch_behind_the_marker_has_an_old_epoch() -> None:
    log = new_log()
    verified(log)
    append_own(log, marker(False, epoch=1))
    assert refused(log, transactional(0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(KafkaError) as caught:
        begin(log)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_word_for_one_epoch_counts_for_no_other() -> None:
    log = new_log()
    old = begin(log, 5, epoch=1)
    new = begin(log, 0, epoch=2)
    old.is_verified = True
    assert is_unverified(log, transactional(5, epoch=1))
    assert is_unverified(log, transactional(0, epoch=2))
    zombie = begin(log, 5, epoch=1)
    zombie.is_verified = True
    assert is_unverified(log, transactional(5, epoch=1))
    new.is_verified = True
    assert append(log, transactional(0, epoch=2)) == 1
    verified(log, 0, epoch=3)
    assert append(log, transactional(0, epoch=3)) == 2, "another epoch is another transaction"


def test_a_higher_sequence_waits_for_a_lower_that_was_seen() -> None:
    log = new_log()
    begin(log, 3)
    verified(log, 8)
    assert refused(log, transactional(8)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    verified(log, 1)
    assert refused(log, transactional(3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, transactional(1), transactional(2), transactional(3)) == 3


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_sequence_used_again_holds_up_its_transaction(is_commit: bool) -> None:
    """As in Kafka: its client has sent records that the log takes for a copy. The transaction must not lack them."""
    log = new_log()
    verified(log, 0)
    append(log, transactional(0), transactional(1))
    append_own(log, marker(is_commit))
    verified(log, 1)
    info = appending.append(log, transactional(1), leader_epoch=0, now_ms=NOW_MS)
    assert (info.is_duplicate, info.first_offset) == (True, 1)
    verified(log, 2)
    assert refused(log, transactional(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append_own(log, marker(False))
    verified(log, 2)
    assert append(log, transactional(2)) == 5, "the next transaction begins anew"


def test_a_refused_copy_holds_up_the_transaction_too() -> None:
    """The coordinator has refused the copy. Kafka answers so: nobody knows whether it is a copy."""
    log = new_log()
    verified(log, 0)
    append(log, transactional(0), transactional(1))
    append_own(log, marker(False))
    begin(log, 1)
    verified(log, 2)
    assert refused(log, transactional(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("config", [SMALL, COMPACTED])
def test_copies_behind_a_lower_sequence_are_copies(config: object) -> None:
    log = new_log(config=config)  # type: ignore[arg-type]
    verified(log, 0)
    append(log, transactional(0), transactional(1), transactional(2))
    append_own(log, marker(False))
    verified(log, 0)
    for sequence in (0, 2, 1):
        info = appending.append(log, transactional(sequence), leader_epoch=0, now_ms=NOW_MS)
        assert (info.is_duplicate, info.first_offset) == (True, sequence)
    verified(log, 0, epoch=1)
    assert refused(log, transactional(1, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "of an epoch of before"


@pytest.mark.parametrize("begins_at_zero", [True, False])
def test_an_unknown_producer_begins_at_zero_in_the_new_protocol(begins_at_zero: bool) -> None:
    log = new_log()
    verified(log, 4, begins_at_zero=begins_at_zero)
    if begins_at_zero:
        assert refused(log, transactional(4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        verified(log, 0, begins_at_zero=True)
        append(log, transactional(0))
    else:
        append(log, transactional(4))
    assert log.end_offset == 1


def test_a_known_producer_goes_on_with_its_sequence() -> None:
    log = new_log()
    append(log, numbered(0, 3))
    verified(log, 3, begins_at_zero=True)
    assert append(log, transactional(3)) == 4


def test_a_repeated_first_batch_is_a_duplicate() -> None:
    log = new_log()
    verified(log)
    append(log, transactional(0, 2))
    info = appending.append(log, transactional(0, 2), leader_epoch=0, now_ms=NOW_MS)
    assert (info.is_duplicate, info.first_offset) == (True, 0)


def test_a_write_that_failed_has_the_coordinator_asked_again() -> None:
    log = new_log()
    verified(log)
    appending.stage(log, transactional(0), 0, NOW_MS)
    staged = appending.begin_write(log)
    assert staged is not None
    with pytest.raises(KafkaError):
        appending.end_write(log, staged, OSError("no room"))
    assert is_unverified(log, transactional(0))


def test_whether_a_batch_is_verified() -> None:
    log = new_log()
    producers = log.producers
    assert not producers.is_verified(7, 0)
    begin(log)
    assert not producers.is_verified(7, 0)
    verified(log)
    assert producers.is_verified(7, 0)
    assert not producers.is_verified(7, 1)
    append(log, transactional(0))
    assert producers.is_verified(7, 0)
    append_own(log, marker(True))
    assert not producers.is_verified(7, 0)


def test_a_verification_without_a_batch_is_forgotten() -> None:
    log = new_log()
    verified(log)
    log.producers.expire(NOW_MS + 999, 1_000)
    assert log.producers.is_verified(7, 0)
    log.producers.expire(NOW_MS + 1_000, 1_000)
    assert not log.producers.is_verified(7, 0)


def test_a_coordinators_batch_needs_no_word() -> None:
    log = new_log()
    append_own(log, transactional(-1), transactional(0, producer_id=8))
    assert (log.end_offset, log.has_transactions) == (2, True)
