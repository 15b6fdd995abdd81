"""The order of a search: by time over partitions, by offset within, complete over pages."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from headgate.protocol.tests.examples import share
from headgate.tools.console.messages.scan import (
    BackwardScan,
    ForwardScan,
    FoundRow,
    OffsetSpan,
    PartitionReading,
    Scan,
)

Log = list[tuple[int, int]]
"""(offset, time) of each message that matches or not; gaps are those of compaction."""


def piece(log: Log, offset: int, bounds: OffsetSpan, size: int, matches: Callable[[int], bool]) -> PartitionReading:
    """What a fetch at an offset finds: batches of `size` offsets, of which the first has the offset."""
    base = offset - offset % size
    batch = [(at, time) for at, time in log if base <= at < base + size]
    inside = [(at, time) for at, time in batch if bounds.start <= at < bounds.end]
    rows = [FoundRow(time, at, at + 1, at) for at, time in inside if matches(at)]
    times = [time for _, time in inside]
    return PartitionReading(
        rows, base, min(base + size, bounds.end), min(times, default=None), max(times, default=None)
    )


def page(scan: Scan[Any], logs: dict[int, Log], size: int, matches: Callable[[int], bool]) -> list[FoundRow]:
    found: list[FoundRow] = []
    rounds = 0
    while scan.is_open:
        for number, offset in scan.wanted().items():
            scan.add(number, piece(logs[number], offset, scan.bounds(number), size, matches))
        found += scan.take()
        rounds += 1
        assert rounds < 10_000, "the scan does not end"
    return found


def pages(
    kind: Any, logs: dict[int, Log], limit: int, size: int, matches: Callable[[int], bool]
) -> list[list[FoundRow]]:
    ranges = {number: OffsetSpan(log[0][0], log[-1][0] + 1) for number, log in logs.items()}
    found = []
    while ranges:
        scan = kind(ranges, limit)
        found.append(page(scan, logs, size, matches))
        assert len(found[-1]) <= limit
        ranges = scan.rest()
    return found


def logs_of(random: Random, *, is_ordered: bool) -> dict[int, Log]:
    logs = {}
    for number in range(random.randint(1, 5)):
        offset, time, log = random.randint(0, 50), random.randint(0, 100), []
        for _ in range(random.randint(1, 80)):
            log.append((offset, time))
            offset += random.choice((1, 1, 1, 7))
            time += random.randint(0, 9) if is_ordered else random.randint(-9, 9)
        logs[number] = [(at, max(0, when) * 10 + number) for at, when in log]
    return logs


@pytest.mark.parametrize("kind", [ForwardScan, BackwardScan])
@pytest.mark.parametrize("seed", range(share(60)))
def test_pages_have_each_match_once_in_order(kind: Any, seed: int) -> None:
    random = Random(seed)
    logs = logs_of(random, is_ordered=True)
    parity = random.choice((1, 2, 13))
    found = pages(kind, logs, random.choice((1, 3, 10, 500)), random.choice((1, 4, 32)), lambda at: at % parity == 0)
    times = [each.timestamp_ms for rows in found for each in rows]
    wanted = [time for log in logs.values() for at, time in log if at % parity == 0]
    assert times == sorted(wanted, reverse=kind is BackwardScan)


@pytest.mark.parametrize("kind", [ForwardScan, BackwardScan])
@pytest.mark.parametrize("seed", range(share(60)))
def test_times_that_go_back_lose_nothing(kind: Any, seed: int) -> None:
    random = Random(seed)
    logs = logs_of(random, is_ordered=False)
    found = pages(kind, logs, random.choice((1, 3, 10)), random.choice((1, 4, 32)), lambda at: True)
    shown = [(each.timestamp_ms % 10, each.offset) for rows in found for each in rows]
    assert sorted(shown) == sorted((number, at) for number, log in logs.items() for at, _ in log)
    for number in logs:  # and each partition is shown in the order of its offsets
        offsets = [offset for owner, offset in shown if owner == number]
        assert offsets == sorted(offsets, reverse=kind is BackwardScan)


@pytest.mark.parametrize("kind", [ForwardScan, BackwardScan])
def test_a_bound_shows_what_was_found_and_the_rest_follows(kind: Any) -> None:
    logs = {0: [(at, at * 10) for at in range(100)], 1: [(at, at * 10 + 1) for at in range(100)]}
    scan = kind({number: OffsetSpan(0, 100) for number in logs}, 20)
    [(number, offset), *_] = scan.wanted().items()
    scan.add(number, piece(logs[number], offset, scan.bounds(number), 4, lambda at: True))
    assert scan.take() == []  # the other partition may have earlier ones
    drained = scan.drain()
    rest = scan.rest()
    assert sum(range_.offsets for range_ in rest.values()) + len(drained) == 200


def test_a_failed_partition_stays_in_the_rest() -> None:
    scan = ForwardScan({0: OffsetSpan(0, 3), 1: OffsetSpan(0, 2)}, 10)
    scan.fail(1)
    assert scan.wanted() == {0: 0}
    scan.add(0, piece([(0, 5), (1, 6), (2, 7)], 0, scan.bounds(0), 4, lambda at: True))
    assert [each.offset for each in scan.take()] == [0, 1, 2]
    assert not scan.is_open
    assert scan.rest() == {1: OffsetSpan(0, 2)}


def test_an_unreadable_batch_is_shown_once() -> None:
    scan = ForwardScan({0: OffsetSpan(0, 100)}, 1)
    scan.add(0, PartitionReading([FoundRow(-1, 5, 50, "fault")], 0, 50))
    assert len(scan.take()) == 1
    assert scan.rest() == {0: OffsetSpan(50, 100)}


def test_rows_in_memory_are_bounded() -> None:
    ranges = {number: OffsetSpan(0, 10_000) for number in range(100)}
    scan = ForwardScan(ranges, 100)
    log = [(at, at) for at in range(64)]
    for _ in range(20):
        for number, offset in scan.wanted().items():
            scan.add(number, piece(log, offset, scan.bounds(number), 64, lambda at: True))
    assert scan.rows_held <= 4 * 100


def test_messages_without_a_time_do_not_hold_up_others() -> None:
    scan = BackwardScan({0: OffsetSpan(0, 2), 1: OffsetSpan(0, 2)}, 10)
    for number in scan.wanted():
        rows = [FoundRow(-1 if number else at, at, at + 1, at) for at in (0, 1)]
        scan.add(number, PartitionReading(rows, 0, 2))
    assert len(scan.take()) == 4
