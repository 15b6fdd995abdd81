"""The parts of the matrix that judge its rows: what may differ between two clients, and what the proxy notes."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.harness import wire
from compat_tests.harness.broker import Broker
from compat_tests.harness.proxy import Proxy
from compat_tests.harness.records import Received, Sent, Traits
from compat_tests.harness.waiting import until
from compat_tests.matrix import permissions, protocol, usage
from compat_tests.matrix.carried import assert_carried, assert_carried_at, records_of
from compat_tests.matrix.client import BEFORE_HEADERS, BEFORE_TIMES, MODERN, Abilities
from compat_tests.matrix.rows import ROWS

# Besides the rows: what else runs through the proxy
OTHER_CLIENTS = ("kafka-tools 4.1",)
SILENT = Abilities(nulls=False)
WRITERS = {"modern": MODERN, "no headers": BEFORE_HEADERS, "no times": BEFORE_TIMES, "no nulls": SILENT}


def as_stored(sent: list[Sent]) -> list[Received]:
    """What a perfect reader shows of what a broker stores."""
    counts = {0: 0, 1: 0}
    found = []
    for record in sent:
        assert record.partition is not None
        time_ms = -1 if record.timestamp_ms is None else record.timestamp_ms
        found.append(Received(record.partition, counts[record.partition], time_ms, *record[2:]))
        counts[record.partition] += 1
    return found


@pytest.mark.parametrize("name", WRITERS)
def test_what_a_perfect_reader_shows_is_carried(name: str) -> None:
    sent = records_of(WRITERS[name], 100)
    assert_carried(sent, as_stored(sent), WRITERS[name], MODERN, 0)


def test_a_reader_shows_no_more_than_it_can() -> None:
    sent = records_of(MODERN, 100)
    plain = [one._replace(timestamp_ms=-1, headers=()) for one in as_stored(sent)]
    assert_carried(sent, plain, MODERN, BEFORE_TIMES, 0)
    with pytest.raises(AssertionError):
        assert_carried(sent, as_stored(sent), MODERN, BEFORE_TIMES, 0)


def test_headers_are_compared_as_the_reader_groups_them() -> None:
    sent = next(one for one in records_of(MODERN, 100) if ("nothing", None) in one.headers and one.partition == 0)
    first, trace, again, nothing = sent.headers
    grouped = {True: (again, trace, nothing), False: (first, again, trace, nothing)}
    (received,) = as_stored([sent])
    for is_unique, headers in grouped.items():
        reader = Abilities(traits=Traits(headers_by_name=True, headers_unique=is_unique))
        assert_carried([sent], [received._replace(headers=headers)], MODERN, reader, 0)
        with pytest.raises(AssertionError):
            assert_carried([sent], [received._replace(headers=grouped[not is_unique])], MODERN, reader, 0)


def test_a_reader_without_places_shows_each_record_once() -> None:
    sent, reader = records_of(MODERN, 100), Abilities(shows_places=False)
    shown = [one._replace(offset=7) for one in reversed(as_stored(sent))]
    assert_carried(sent, shown, MODERN, reader, 0)
    with pytest.raises(AssertionError):
        assert_carried(sent, shown, MODERN, MODERN, 0)
    with pytest.raises(AssertionError):
        assert_carried(sent, [*shown[1:], shown[-1]], MODERN, reader, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"offset": 7},
        {"partition": 1},
        {"timestamp_ms": 5},
        {"key": b"other"},
        {"value": None},
        {"headers": (("number", b"another"),)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_part_of_a_record_counts(change: dict[str, object]) -> None:
    sent = records_of(MODERN, 100)
    found = as_stored(sent)
    found[50] = found[50]._replace(**change)  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        assert_carried(sent, found, MODERN, MODERN, 0)


def test_offsets_count_where_others_lie_between() -> None:
    sent = records_of(MODERN, 100)
    wanted = [(2 * number, one) for number, one in enumerate(sent)]
    found = [one._replace(offset=2 * number) for number, one in enumerate(as_stored(sent))]
    assert_carried_at(wanted, found, MODERN, MODERN)
    assert_carried_at(wanted, as_stored(sent), MODERN, Abilities(shows_places=False))
    with pytest.raises(AssertionError):
        assert_carried_at(wanted, as_stored(sent), MODERN, MODERN)
    with pytest.raises(AssertionError):
        assert_carried_at(wanted[1:], found, MODERN, MODERN)


def test_a_missing_and_a_doubled_record_count() -> None:
    sent = records_of(MODERN, 100)
    found = as_stored(sent)
    for wrong in (found[:-1], [*found, found[-1]], found[2:], []):
        with pytest.raises(AssertionError):
            assert_carried(sent, wrong, MODERN, MODERN, 0)


def test_rows_have_names_of_their_own() -> None:
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names))
    assert all(set(row.abilities.writes) <= set(row.abilities.reads) for row in ROWS)


@pytest.fixture
def empty_proxy(broker: Broker) -> Iterator[Proxy]:
    with Proxy() as proxy:
        proxy.target = broker.bootstrap
        yield proxy


def test_the_proxy_notes_what_was_answered_to_whom(empty_proxy: Proxy) -> None:
    """Not what was refused: here a version of ApiVersions that nobody serves, and one of Metadata."""
    with empty_proxy.recording("one"), wire.connect(empty_proxy.bootstrap) as stream:
        assert wire.ask(stream, wire.API_VERSIONS, 99, b"\0")[:2] == struct.pack(">h", 35)
        wire.ask(stream, wire.API_VERSIONS, 0, b"")
    with empty_proxy.recording("other"), wire.connect(empty_proxy.bootstrap) as stream:
        wire.ask(stream, wire.METADATA, 1, struct.pack(">i", 0))
        with pytest.raises(ConnectionError):
            wire.ask(stream, wire.METADATA, 99, b"")
    with wire.connect(empty_proxy.bootstrap) as stream:
        wire.ask(stream, wire.METADATA, 0, struct.pack(">i", 0))
    assert dict(empty_proxy.used) == {"one": {(wire.API_VERSIONS, 0)}, "other": {(wire.METADATA, 1)}}


def test_the_end_of_one_side_is_the_end_of_the_other(empty_proxy: Proxy) -> None:
    with wire.connect(empty_proxy.bootstrap) as stream:
        wire.ask(stream, wire.METADATA, 1, struct.pack(">i", 0))
        stream.shutdown(socket.SHUT_WR)
        assert stream.recv(1) == b""
    connection = empty_proxy.connections[0]
    until(lambda: connection.is_over, "the proxy's threads to end")
    wire.connect(empty_proxy.bootstrap).close()
    until(lambda: connection not in empty_proxy.connections, "the proxy to let go of it")
    assert connection.client.fileno() == connection.broker.fileno() == -1


def test_the_page_says_what_is_served_and_what_the_clients_used() -> None:
    """docs/protocol.md is what `python -m compat_tests.matrix.protocol` makes."""
    assert protocol.PAGE.read_text() == protocol.page(protocol.served(), usage.load(), permissions.load())


def test_the_page_names_every_row_and_nobody_else() -> None:
    """One that is missing has not been through `make protocol`."""
    assert usage.load().keys() == {row.name for row in ROWS} | set(OTHER_CLIENTS)


def test_versions_and_clients_are_told_shortly() -> None:
    assert list(protocol.spans([0, 1, 2, 5, 7, 8])) == ["0-2", "5", "7-8"]
    clients = ["sarama v1.19.0 at 0.11", "java 0.10.2.2", "sarama v1.10.1 at 0.8.2", "java 0.9.0.1"]
    assert protocol.by_family(clients) == "java 0.9.0.1, 0.10.2.2; sarama v1.10.1 at 0.8.2, v1.19.0 at 0.11"


def test_what_clients_used_is_kept_until_they_run_again(tmp_path: Path) -> None:
    file = tmp_path / "used.json"
    assert usage.load(file) == {}
    usage.keep({"java 1": {(3, 9), (0, 2)}, "java 2": {(3, 10)}}, file)
    usage.keep({"java 1": {(3, 8)}, "not here": set()}, file)
    assert usage.load(file) == {"java 1": {(3, 8)}, "java 2": {(3, 10)}}
