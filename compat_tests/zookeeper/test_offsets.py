"""OffsetCommit 0 and OffsetFetch 0 are answered, and written, as Kafka does it: its recording is the measure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest

from compat_tests.harness import wire
from compat_tests.harness.broker import TARGET
from compat_tests.zookeeper.old_world import World, old_world
from compat_tests.zookeeper.recorded_offsets import (
    CASES,
    JAR_SETS,
    OFFSET_COMMIT,
    TOPIC,
    Case,
    Outcome,
    outcomes,
    recorded,
)

RECORDED: Final = {version: recorded(version) for version in JAR_SETS}
# Where Headgate is not Kafka, on purpose: the error of each row, and what the node has
OURS: Final = {
    # Kafka writes such a group where others look for other things
    "commit: a group with a slash": ([24], "absent"),
    # Kafka says no more than UNKNOWN_SERVER_ERROR
    "commit: the group .": ([24], "absent"),
    "commit: no name of a group": ([24], "absent"),
    "commit: a group beyond the Basic Multilingual Plane": ([24], "absent"),
    "fetch: a group with a slash": ([-1], "absent"),
    # Kafka reads them as Java does
    "fetch: data: digits of other scripts": ([-1], "b'\\xd9\\xa4\\xd9\\xa1'"),
    # All offsets of the group: `headgate groups migrate` asks so
    "fetch: no topics": ([0], "b'41'"),
}


class Rows(NamedTuple):
    """An answer without the order of its rows."""

    rows: frozenset[tuple[str, int, int, str, int]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with old_world(tmp_path_factory.mktemp("offsets")) as world:
        yield world


@pytest.fixture(scope="module")
def found(world: World) -> dict[str, Outcome]:
    world.create(TOPIC, 2)
    return {case.name: outcome for case, outcome in outcomes(world.broker.bootstrap, world.connect)}


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_case_is_answered_as_kafka_does(case: Case, found: dict[str, Outcome]) -> None:
    """As one of its versions does, in the answer and in what ZooKeeper has then."""
    if case.name in OURS and TARGET == "headgate":
        rows = rows_of(case, found[case.name]).rows
        assert ([row[-1] for row in rows], found[case.name].data) == OURS[case.name]
        return
    wanted = {version: (rows_of(case, of[case.name]), of[case.name].data) for version, of in RECORDED.items()}
    assert (rows_of(case, found[case.name]), found[case.name].data) in wanted.values(), wanted


def rows_of(case: Case, outcome: Outcome) -> Rows:
    """Topic, partition, offset, metadata, error of each row; of a commit no offset and no metadata."""
    assert outcome.answer is not None, "the connection was closed"
    reader = wire.Reader(outcome.answer)
    rows = []
    for _ in range(reader.number("i")):
        topic = reader.string()
        for _ in range(reader.number("i")):
            partition = reader.number("i")
            value = (0, "") if case.key == OFFSET_COMMIT else (reader.number("q"), reader.string())
            rows.append((topic, partition, *value, reader.number("h")))
    return Rows(frozenset(rows))
