"""The rows of a broker's census: their bounds, and what the topic lacks."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.gateway.census.census_table import MAX_NAME, CensusTable, UnwrittenRow
from headgate.protocol.census.rows import OTHERS, CensusClient, CensusRow, VersionUse
from headgate.protocol.tests.examples import share

CLIENT = CensusClient("User:a", "app", "librdkafka", "2.6.0", "192.0.2.1", "SSL")
PRODUCE, FETCH = 0, 1


def named(client_id: str | None, address: str = "192.0.2.1", software: str = "librdkafka") -> CensusClient:
    return CLIENT._replace(client_id=client_id, address=address, software_name=software)


def client_ids(table: CensusTable) -> list[str | None]:
    return [row.client.client_id for row in table.rows(1)]


def written(rows: Iterable[UnwrittenRow]) -> dict[str | None, bool]:
    """The client ids of rows to write, and whether each row exists."""
    return {row.client.client_id: row.uses is not None for row in rows}


def test_counts_of_a_client_add_up() -> None:
    table = CensusTable()
    table.count(CLIENT, [(FETCH, 4, 10), (PRODUCE, 3, 1)], 100)
    table.count(CLIENT, [(FETCH, 4, 5), (FETCH, 11, 2)], 300)
    (row,) = table.rows(7)
    assert row == CensusRow(
        (7,),
        CLIENT,
        [VersionUse(PRODUCE, 3, 1, 100, 100), VersionUse(FETCH, 4, 15, 100, 300), VersionUse(FETCH, 11, 2, 300, 300)],
    )


def test_the_client_that_was_seen_longest_ago_makes_room() -> None:
    table = CensusTable(max_rows=3)
    for number, client_id in enumerate(["a", "b", "c", "a", "d"]):
        table.count(named(client_id, f"192.0.2.{number}" if client_id == "d" else "192.0.2.1"), [(FETCH, 4, 1)], number)
    assert client_ids(table) == ["d", "a", "c"]
    assert (len(table), table.dropped) == (3, 1)


def test_only_new_clients_and_versions_are_news() -> None:
    table = CensusTable()
    table.count(named("a"), [(FETCH, 4, 1)], 1)
    table.count(named("b"), [(FETCH, 4, 1)], 1)
    assert written(table.take_unwritten(10, news_alone=True)) == {"a": True, "b": True}
    table.count(named("a"), [(FETCH, 4, 1)], 2)
    table.count(named("b"), [(FETCH, 11, 1)], 2)
    assert written(table.take_unwritten(10, news_alone=True)) == {"b": True}
    assert written(table.take_unwritten(10, news_alone=False)) == {"a": True}
    assert table.take_unwritten(10, news_alone=False) == []


def test_rows_are_written_in_parts_the_news_first() -> None:
    table = CensusTable()
    for client_id in "abc":
        table.count(named(client_id), [(FETCH, 4, 1)], 1)
    table.take_unwritten(10, news_alone=True)
    for client_id in "abcd":
        table.count(named(client_id), [(FETCH, 4, 1)], 2)
    assert [list(written(table.take_unwritten(2, news_alone=False))) for _ in range(3)] == [["d", "a"], ["b", "c"], []]


def test_rows_that_the_topic_refused_are_written_later() -> None:
    table = CensusTable(max_rows=2)
    table.count(named("a"), [(FETCH, 4, 1)], 1)
    rows = table.take_unwritten(10, news_alone=True)
    table.give_back(rows)
    assert table.take_unwritten(10, news_alone=True) == rows


def test_a_row_that_made_room_is_taken_from_the_topic() -> None:
    table = CensusTable(max_rows=2)
    for client_id in "ab":
        table.count(named(client_id), [(FETCH, 4, 1)], 1)
    table.take_unwritten(10, news_alone=True)
    table.count(named("c"), [(FETCH, 4, 1)], 2)
    rows = table.take_unwritten(10, news_alone=True)
    assert written(rows) == {"a": False, "c": True}
    table.count(named("a"), [(FETCH, 4, 1)], 3)  # comes back before the refusal of the topic
    table.give_back(rows)
    assert written(table.take_unwritten(10, news_alone=True)) == {"a": True, "b": False, "c": True}


def test_an_address_with_many_client_ids_has_few_rows() -> None:
    table = CensusTable(max_rows_of_address=4)
    for number in range(1_000):
        table.count(named(f"consumer-{number}"), [(FETCH, 4, 1)], number)
    table.count(named("elsewhere", "192.0.2.2"), [(FETCH, 4, 1)], 1_000)
    assert client_ids(table) == ["elsewhere", OTHERS, *(f"consumer-{number}" for number in range(3, -1, -1))]
    others = next(row for row in table.rows(1) if row.client.client_id == OTHERS)
    assert (others.requests, others.client.software_name) == (996, "librdkafka")
    table.count(named("consumer-2"), [(FETCH, 4, 1)], 1_001)
    assert client_ids(table)[0] == "consumer-2", "a client that has a row keeps it"


def test_an_address_with_many_names_of_software_has_few_rows() -> None:
    table = CensusTable(max_rows_of_address=4)
    for number in range(1_000):
        table.count(named(f"consumer-{number}", software=f"software-{number}"), [(FETCH, 4, 1)], number)
    assert len(table) == 9
    last = next(iter(table.rows(1)))
    assert (last.client.client_id, last.client.software_name, last.client.software_version) == (OTHERS, OTHERS, None)
    assert last.requests == 992


def test_long_names_are_cut() -> None:
    table = CensusTable()
    table.count(named("x" * 30_000), [(FETCH, 4, 1)], 1)
    assert client_ids(table) == ["x" * MAX_NAME]


def test_rows_of_the_topic_are_continued() -> None:
    table = CensusTable()
    table.count(named("a"), [(FETCH, 4, 1), (FETCH, 11, 1)], 1_000)
    table.load(CensusRow((1,), named("a"), [VersionUse(FETCH, 4, 10, 100, 200)]))
    table.load(CensusRow((1,), named("b"), [VersionUse(FETCH, 4, 10, 100, 200)]))
    table.end_load()
    rows = {row.client.client_id: list(row.uses) for row in table.rows(1)}
    assert rows == {
        "a": [VersionUse(FETCH, 4, 11, 100, 1_000), VersionUse(FETCH, 11, 1, 1_000, 1_000)],
        "b": [VersionUse(FETCH, 4, 10, 100, 200)],
    }
    assert client_ids(table) == ["a", "b"]
    assert written(table.take_unwritten(10, news_alone=False)) == {"a": True}, "the topic has the row of b"


def test_the_bound_holds_for_rows_of_the_topic() -> None:
    table = CensusTable(max_rows=2)
    for number in range(4):
        table.load(CensusRow((1,), named(f"{number}"), [VersionUse(FETCH, 4, 1, number, number)]))
    table.end_load()
    assert client_ids(table) == ["3", "2"]
    assert written(table.take_unwritten(10, news_alone=True)) == {"0": False, "1": False}


@settings(max_examples=share(60))
@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 3), st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=60
    )
)
@pytest.mark.parametrize("max_rows", [1, 5, 100])
def test_bounds_hold_and_no_request_is_lost_without_a_drop(
    max_rows: int, history: list[tuple[int, int, int, int]]
) -> None:
    table = CensusTable(max_rows, max_rows_of_address=2)
    for now_ms, (client, address, software, version) in enumerate(history):
        named_client = named(f"c-{client}", f"192.0.2.{address}", f"s-{software}")
        table.count(named_client, [(FETCH, version, 1)], now_ms)
        assert len(table) <= max_rows
    rows = list(table.rows(1))
    assert len(rows) == len(table)
    assert all(sum(row.client.address == one.client.address for one in rows) <= 5 for row in rows)
    if not table.dropped:
        assert sum(row.requests for row in rows) == len(history)
