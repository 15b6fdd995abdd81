"""Rows of three brokers on running Headgates, each for a moment."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.tools.bench.measuring.cluster import Cluster, HeadgateClusterLauncher
from headgate.tools.bench.measuring.generator import PROGRAMS, compile_program
from headgate.tools.bench.measuring.target import ClusterTarget
from headgate.tools.bench.measuring.zookeeper import ZOOKEEPER_JARS
from headgate.tools.bench.rows.cluster.faults import CatchUp, ControlledStop, Failover, Fault, GroupFailover
from headgate.tools.bench.rows.cluster.replicated import IdlePartitionsRow
from headgate.tools.bench.rows.row import MEBIBYTE
from headgate.tools.bench.rows.table import REPLICATED

pytestmark = [
    pytest.mark.slow,
    pytest.mark.sockets,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on the path"),
    pytest.mark.skipif(
        shutil.which("java") is None or not any(ZOOKEEPER_JARS.glob("*.jar")), reason="no java, or no ZooKeeper"
    ),
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("programs")
    for name in PROGRAMS:
        compile_program(name, directory)
    return directory


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with HeadgateClusterLauncher().running(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def target(cluster: Cluster, programs: Path, tmp_path_factory: pytest.TempPathFactory) -> ClusterTarget:
    return ClusterTarget.of(cluster, programs, tmp_path_factory.mktemp("scratch"))


@pytest.mark.parametrize("name", REPLICATED)
def test_a_replicated_row_has_figures(name: str, target: ClusterTarget) -> None:
    row = REPLICATED[name]
    if isinstance(row, IdlePartitionsRow):
        row = replace(row, partitions=3)
    with ExitStack() as stack:
        (run,) = row.runs([target], stack).values()
        sample = run(0.2)
    assert sample.requests > 0
    assert sample.server_cpu_seconds > 0
    assert all(figure.of(sample) >= 0 for figure in row.figures)


def times_are_figures(fault: Fault, cluster: Cluster, programs: Path) -> None:
    with fault.opened(cluster, programs) as run:
        times = run()
    assert times.cpu_seconds > 0
    assert 0 < times.seconds < 60
    assert times.detail > 0
    assert sorted(cluster.brokers) == [1, 2, 3]


def test_a_stopped_broker_hands_over_all_that_it_led(cluster: Cluster, programs: Path) -> None:
    times_are_figures(replace(ControlledStop(), partitions=6, warm_up_seconds=0.1), cluster, programs)


@pytest.mark.soak
@pytest.mark.parametrize(
    "fault",
    [Failover(6), GroupFailover(), CatchUp(MEBIBYTE, beside_seconds=0.5)],
    ids=lambda fault: type(fault).__name__,
)
def test_a_lost_broker_is_timed(fault: Fault, cluster: Cluster, programs: Path) -> None:
    times_are_figures(fault, cluster, programs)
