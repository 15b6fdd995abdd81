"""The records of the topic `__headgate_census`."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.protocol.census.records import (
    CensusRecords,
    InvalidCensusRecord,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from headgate.protocol.census.rows import CensusClient, VersionUse

CLIENT = CensusClient("User:a", "app", "librdkafka", "2.6.0", "192.0.2.1", "SSL")
USES = [VersionUse(1, 4, 10, 200, 900), VersionUse(0, 3, 5, 100, 300)]
TEXTS = st.text(max_size=20)
CLIENTS = st.builds(CensusClient, TEXTS, st.none() | TEXTS, st.none() | TEXTS, st.none() | TEXTS, TEXTS, TEXTS)


@given(st.integers(0, 1 << 31), CLIENTS)
def test_a_key_is_read_as_it_was_written(node_id: int, client: CensusClient) -> None:
    assert decode_key(encode_key(node_id, client)) == (node_id, client)


def test_a_value_is_read_as_it_was_written() -> None:
    assert decode_value(encode_value(USES)) == USES


def test_a_record_can_be_read_by_a_person() -> None:
    assert json.loads(encode_key(3, CLIENT)) == {"node_id": 3, **CLIENT._asdict()}
    assert json.loads(encode_value(USES[:1])) == {"version": 1, "uses": [[1, 4, 10, 200, 900]]}


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"node_id": 1}',
        json.dumps({**CLIENT._asdict()}).encode(),
        json.dumps({"node_id": "1", **CLIENT._asdict()}).encode(),
        json.dumps({"node_id": 1, **CLIENT._asdict(), "principal": None}).encode(),
        json.dumps({"node_id": 1, **CLIENT._asdict(), "client_id": 5}).encode(),
        json.dumps({"node_id": 1, **CLIENT._asdict(), "more": "x"}).encode(),
        b"[" * 100_000,
    ],
    ids=range(11),
)
def test_another_key_is_none_of_the_census(key: bytes) -> None:
    with pytest.raises(InvalidCensusRecord):
        decode_key(key)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"5",
        b"{}",
        b'{"version": 2, "uses": []}',
        b'{"version": 1}',
        b'{"version": 1, "uses": 5}',
        b'{"version": 1, "uses": [[1, 2, 3, 4]]}',
        b'{"version": 1, "uses": [[1, 2, 3, 4, "5"]]}',
        b'{"version": 1, "uses": [[1, 2, 3, 4, true]]}',
        b'{"version": 1, "uses": ["abcde"]}',
    ],
)
def test_another_value_is_none_of_the_census(value: bytes) -> None:
    with pytest.raises(InvalidCensusRecord):
        decode_value(value)


def test_the_last_record_of_a_key_counts() -> None:
    records = CensusRecords()
    other = CLIENT._replace(client_id="other")
    for key, value in (
        (encode_key(1, CLIENT), encode_value(USES[:1])),
        (encode_key(1, other), encode_value(USES)),
        (encode_key(1, CLIENT), encode_value(USES[1:])),
        (encode_key(1, other), None),
        (b"no key", None),
        (None, b"no value"),
        (encode_key(1, other), b"no value"),
    ):
        records.replay(key, value)
    assert [(row.client, row.uses) for row in records.rows()] == [(CLIENT, USES[1:])]
    assert records.skipped == 3


def test_the_rows_of_all_brokers_are_one_for_each_client() -> None:
    records, own = CensusRecords(), CensusRecords(node_id=2)
    for node_id in (2, 1):
        for reader in (records, own):
            reader.replay(encode_key(node_id, CLIENT), encode_value(USES))
    (row,) = records.rows()
    assert (row.node_ids, row.requests) == ([1, 2], 30)
    (row,) = own.rows()
    assert (row.node_ids, row.requests) == ([2], 15)


def test_the_client_that_was_seen_last_comes_first() -> None:
    records = CensusRecords()
    for client_id, last_ms in (("b", 5), ("a", 5), ("c", 9)):
        uses = [VersionUse(1, 4, 1, 1, last_ms)]
        records.replay(encode_key(1, CLIENT._replace(client_id=client_id)), encode_value(uses))
    assert [row.client.client_id for row in records.rows()] == ["c", "a", "b"]
