"""Which offsets consumers do not see, and why: from headers alone, as they come."""

from __future__ import annotations

from headgate.protocol.records.batch import CONTROL, TRANSACTIONAL, BatchHeader
from headgate.protocol.records.control import Marker
from headgate.tools.log.offset_gaps import BatchOffsets, Gap, find_aborted_transactions, find_gaps


def data(first: int, last: int, producer_id: int = -1, offsets: list[int] | None = None) -> BatchOffsets:
    held = list(range(first, last + 1)) if offsets is None else offsets
    attributes = TRANSACTIONAL if producer_id >= 0 else 0
    header = BatchHeader(first, 49, 0, 2, 0, attributes, last - first, 0, 0, producer_id, 0, 0, len(held))
    return BatchOffsets(header, lambda: None, lambda: held)


def marker(offset: int, producer_id: int, *, is_abort: bool) -> BatchOffsets:
    header = BatchHeader(offset, 49, 0, 2, 0, TRANSACTIONAL | CONTROL, 0, 0, 0, producer_id, 0, -1, 1)
    return BatchOffsets(header, lambda: Marker(not is_abort, 0), lambda: [offset])


def found(batches: list[BatchOffsets], log_start: int = 0, compacted_to: int = 0) -> list[Gap]:
    return list(find_gaps(batches, log_start, compacted_to, find_aborted_transactions(batches)))


def test_no_gaps() -> None:
    assert found([data(0, 4), data(5, 5)]) == []
    assert found([]) == []


def test_markers_and_aborted_records_are_gaps() -> None:
    """Two producers side by side; the one aborts, then commits another transaction, the other the other way round."""
    batches = [
        data(0, 1, 7),
        data(2, 3, 8),
        data(4, 4),
        marker(5, 7, is_abort=True),
        data(6, 7, 7),
        marker(8, 8, is_abort=False),
        marker(9, 7, is_abort=False),
        data(10, 10, 8),
        marker(11, 8, is_abort=True),
    ]
    assert find_aborted_transactions(batches) == {7: [(0, 5)], 8: [(10, 11)]}
    assert found(batches) == [
        Gap(0, 1, "aborted"),
        Gap(5, 5, "marker"),
        Gap(8, 9, "marker"),
        Gap(10, 10, "aborted"),
        Gap(11, 11, "marker"),
    ]


def test_a_transaction_that_is_open_is_no_gap() -> None:
    assert found([data(0, 1, 7)]) == []


def test_an_empty_batch_begins_no_transaction() -> None:
    """Compaction leaves it of one that was decided, and its marker may be gone."""
    assert find_aborted_transactions([data(0, 0, 7, offsets=[]), data(5, 5, 7), marker(6, 7, is_abort=True)]) == {
        7: [(5, 6)]
    }


def test_deleted_compacted_and_missing_offsets_are_gaps() -> None:
    batches = [data(10, 14, offsets=[11, 13]), data(17, 18), data(25, 25)]
    assert found(batches, log_start=10, compacted_to=22) == [
        Gap(0, 9, "deleted"),
        Gap(10, 10, "compacted"),
        Gap(12, 12, "compacted"),
        Gap(14, 16, "compacted"),
        Gap(19, 21, "compacted"),
        Gap(22, 24, "missing"),
    ]


def test_a_start_within_a_batch() -> None:
    assert found([data(0, 4, 7), marker(5, 7, is_abort=True)], log_start=2) == [
        Gap(0, 1, "deleted"),
        Gap(2, 4, "aborted"),
        Gap(5, 5, "marker"),
    ]


def test_an_emptied_batch() -> None:
    assert found([data(0, 3, offsets=[]), data(4, 4)], compacted_to=5) == [Gap(0, 3, "compacted")]
