"""What the names in a directory and the checkpoints tell of a log that is not open."""

from __future__ import annotations

from headgate.storage.recovery.recovery_input import (
    RecoveryInput,
    bases_of,
    bytes_to_scan,
    first_to_scan,
    of_log,
    sizes_of,
)

NAMES = {
    "00000000000000000050.log": 9,
    "00000000000000000050.timeindex": 12,
    "00000000000000000000.log": 7,
    "00000000000000000000.log.deleted": 5,
    "partition.metadata": 3,
    "notes.log": 4,
}


def test_the_work_of_a_log_is_what_lies_behind_its_recovery_point() -> None:
    names = {f"{base:020d}{suffix}": size for base in (0, 50, 90) for suffix, size in ((".log", 1000), (".index", 8))}
    assert bytes_to_scan(RecoveryInput("t", 0, "d", recovery_point=0), names) == 3000
    assert bytes_to_scan(RecoveryInput("t", 0, "d", recovery_point=60), names) == 2000
    assert bytes_to_scan(RecoveryInput("t", 0, "d", recovery_point=90), names) == 1000
    assert bytes_to_scan(RecoveryInput("t", 0, "d", recovery_point=60, is_clean=True), names) == 0
    assert bytes_to_scan(RecoveryInput("t", 0, "d"), {}) == 0


def test_segments_are_told_by_their_names() -> None:
    assert bases_of(NAMES) == [0, 50]
    assert sizes_of(NAMES, 50) == [9, -1, 12, -1]
    assert of_log(NAMES).keys() == NAMES.keys() - {"notes.log"}


def test_a_scan_begins_with_the_segment_that_holds_the_recovery_point() -> None:
    assert [first_to_scan([10, 20, 30], point) for point in (0, 10, 19, 20, 35)] == [0, 0, 0, 1, 2]


def test_a_log_that_starts_behind_its_recovery_point_is_unsafe() -> None:
    assert RecoveryInput("t", 0, "d", start_offset=9, recovery_point=9).recovery_point == 0
    assert RecoveryInput("t", 0, "d", start_offset=8, recovery_point=9).recovery_point == 9
    assert RecoveryInput("t", 0, "d", start_offset=9, recovery_point=9, is_clean=True).recovery_point == 9
