"""Rows of the census, and what several brokers have counted of one client."""

from __future__ import annotations

from headgate.protocol.census.rows import CensusClient, CensusRow, VersionUse, merged

CLIENT = CensusClient("User:a", "app", "librdkafka", "2.6.0", "192.0.2.1", "SSL")


def test_a_row_has_sums_and_times() -> None:
    row = CensusRow((1,), CLIENT, [VersionUse(1, 4, 10, 200, 900), VersionUse(0, 3, 5, 100, 300)])
    assert (row.requests, row.first_ms, row.last_ms) == (15, 100, 900)


def test_a_row_without_uses_has_no_times() -> None:
    row = CensusRow((1,), CLIENT, [])
    assert (row.requests, row.first_ms, row.last_ms) == (0, 0, 0)


def test_counts_of_several_brokers_are_added() -> None:
    first, second = [VersionUse(1, 4, 10, 200, 900)], [VersionUse(1, 4, 1, 100, 300), VersionUse(0, 3, 5, 100, 300)]
    assert merged({1: first, 2: second}) == [VersionUse(0, 3, 5, 100, 300), VersionUse(1, 4, 11, 100, 900)]
    assert merged({2: second, 1: first}) == merged({1: first, 2: second})
