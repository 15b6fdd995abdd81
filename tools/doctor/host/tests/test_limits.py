from __future__ import annotations

import pytest

from headgate.tools.doctor.check_result import NOTE, OK, WRONG
from headgate.tools.doctor.host.limits import check_backlog, check_descriptors, check_map_count, check_memory
from headgate.tools.doctor.host.processes import ProcessFacts

MIB = 1 << 20
BROKER = ProcessFacts(7, "headgate", 1000, 100)


@pytest.mark.parametrize(
    "limit, process, state, words",
    [
        (100_000, None, OK, "a broker started here may have 100000"),
        (4096, None, NOTE, "4096"),
        (256, None, WRONG, "256"),
        (100_000, BROKER, OK, "process 7 (headgate) may have 100000 files open, has 100"),
        (110, BROKER, WRONG, "has 100"),
    ],
)
def test_descriptors(limit: int, process: ProcessFacts | None, state: str, words: str) -> None:
    row = check_descriptors(limit, 8192, process)
    assert row.state == state
    assert words in row.found


def test_memory_maps_are_for_kafka_alone() -> None:
    java = ProcessFacts(7, "java")
    assert check_map_count(65_530, 10**6, BROKER) is None
    assert check_map_count(65_530, 10**6, None) is None
    assert check_map_count(None, 1, java) is None
    for segments, state in ((1000, OK), (30_000, WRONG)):
        row = check_map_count(65_530, segments, java)
        assert row is not None
        assert row.state == state


@pytest.mark.parametrize(
    "somaxconn, wanted, state", [(4096, 1024, OK), (4096, None, OK), (512, 1024, NOTE), (16, 10, WRONG)]
)
def test_the_backlog(somaxconn: int, wanted: int | None, state: str) -> None:
    row = check_backlog(somaxconn, wanted)
    assert row is not None
    assert row.state == state
    assert check_backlog(None, 1) is None


@pytest.mark.parametrize("available, state", [(4096, OK), (300, NOTE), (20, WRONG)])
def test_memory(available: int, state: str) -> None:
    row = check_memory({"MemAvailable": available * MIB, "MemTotal": 8192 * MIB})
    assert row is not None
    assert row.state == state
    assert check_memory({}) is None
