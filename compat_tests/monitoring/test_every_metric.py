"""Every metric of a broker moves: clients, tools and faults do in three scenarios what each of them counts.

A family is known from what the brokers of the scenarios show, and from the page on metrics, which a test of the broker
holds to its table. So a metric that is added is missed here until a scenario moves it.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from compat_tests.harness.apache_kafka import ROOT
from compat_tests.harness.broker import TARGET
from compat_tests.monitoring import failing_disks, one_broker, three_brokers
from compat_tests.monitoring.readings import Readings, parse

PAGE: Final = ROOT / "docs" / "metrics.md"
SCENARIOS: Final = (one_broker.scenario, failing_disks.scenario, three_brokers.scenario)
OF_THE_DISK: Final = frozenset(
    (
        "headgate_disk_read_bytes_total",
        "headgate_disk_written_bytes_total",
        "kafka_server_kafkaserver_linux_disk_read_bytes",
        "kafka_server_kafkaserver_linux_disk_write_bytes",
    )
)
"""These stand still where the data of tests lie in memory."""


def on_page() -> set[str]:
    """The families that the page has: the rows of its tables with a type or labels, not those without an answer."""
    answered = PAGE.read_text().partition("These names have no answer")[0]
    return set(re.findall(r"^\| `((?:headgate|kafka|process)_\w+)`", answered, re.MULTILINE))


def is_on_a_disk(directory: Path) -> bool:
    """Whether a file there is read from a disk: it is not in memory alone."""
    with tempfile.TemporaryFile(dir=directory) as file:
        file.write(bytes(1 << 20))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        before = read_bytes()
        os.pread(file.fileno(), 1 << 20, 0)
        return read_bytes() > before


def read_bytes() -> int:
    found = re.search(r"^read_bytes: (\d+)", Path("/proc/self/io").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def still(readings: Readings, directory: Path, known: Iterable[str]) -> list[str]:
    """The families that nothing has moved."""
    excused = frozenset[str]() if is_on_a_disk(directory) else OF_THE_DISK
    return [family for family in readings.still(known) if family not in excused]


@pytest.mark.sockets
@pytest.mark.skipif(TARGET != "headgate", reason="the metrics are Headgate's own")
def test_every_metric_is_moved(tmp_path: Path) -> None:
    """The scenarios wait more than they compute, and run side by side."""
    with ThreadPoolExecutor(len(SCENARIOS)) as pool:
        directories = [tmp_path / str(number) for number in range(len(SCENARIOS))]
        for directory in directories:
            directory.mkdir()
        running = [pool.submit(scenario, directory) for scenario, directory in zip(SCENARIOS, directories, strict=True)]
    readings = Readings()
    for one in running:
        readings.add(one.result())
    assert on_page() - readings.families == set(), "no broker of the scenarios shows these"
    assert still(readings, tmp_path, on_page()) == []


FIRST: Final = """\
# TYPE a gauge
a{topic="t"} 1
# TYPE b_total counter
b_total 5
# TYPE headgate_group_verdict gauge
headgate_group_verdict{group="g",verdict="OK"} 1
"""


@pytest.mark.parametrize(
    "second, moved",
    [
        (FIRST, []),
        (FIRST.replace('"t"} 1', '"t"} 2'), ["a"]),
        (FIRST.replace('"t"} 1', '"u"} 2'), []),  # another topic is no other value
        (FIRST.replace("5", "6"), ["b_total"]),
        (
            FIRST.replace("b_total 5", 'b_total 5\nb_total{new="1"} 7'),
            ["b_total"],
        ),  # a counter was 0 as long as it was not shown
        (FIRST.replace("OK", "WARN"), ["headgate_group_verdict"]),
        ("", ["headgate_group_verdict"]),
    ],
)
def test_a_family_moves_with_the_value_of_a_series(second: str, moved: list[str]) -> None:
    readings = Readings()
    readings.note("one", parse(FIRST))
    readings.note("one", parse(second))
    readings.note("other", parse(FIRST.replace("b_total 5", "b_total 8")))  # another broker
    assert sorted(readings.moved()) == moved


def test_of_a_leader_another_broker_shows_the_next_value() -> None:
    readings = Readings()
    readings.note("one", parse(FIRST))
    readings.note("other", parse(FIRST.replace('"t"} 1', '"t"} 2')))
    assert sorted(readings.moved()) == ["a"]
    assert readings.still(["c"]) == ["b_total", "c", "headgate_group_verdict"]
