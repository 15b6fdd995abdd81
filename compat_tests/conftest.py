"""Fixtures: one broker for the session, new topics, one driver a family."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from compat_tests.families import FAMILIES, AsksOffsets, Family
from compat_tests.groups.group import PARTITIONS, SETTINGS, Group
from compat_tests.harness.broker import TARGET, Broker, new_broker, running
from compat_tests.harness.proxy import Proxy
from compat_tests.harness.topics import new_topic
from compat_tests.matrix import usage
from compat_tests.spark import spark_format
from compat_tests.zookeeper.old_world import old_world

RECORDED_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
# Tests that share what takes seconds to make, by the beginnings of their ids: one process runs them all
TOGETHER: tuple[str | tuple[str, ...], ...] = (
    "compat_tests/spark/test_kafka_",
    (
        "compat_tests/spark/test_headgate",
        "compat_tests/spark/test_files",
        "compat_tests/spark/test_handover",
        "compat_tests/spark/test_positions",
        "compat_tests/security/test_spark",
    ),
    "compat_tests/console/test_",
    "compat_tests/families/test_kgo_suite",
    "compat_tests/storage/test_adoption",
    "compat_tests/tools/test_kafka_tools",
    "compat_tests/tools/test_log_command",
    "compat_tests/matrix/test_matrix.py::test_the_oldest",
    "compat_tests/matrix/test_isolation",
    "compat_tests/matrix/test_oldest",
    "compat_tests/zookeeper/test_old_tools",
    "compat_tests/storage/test_power_cut",
    "compat_tests/zookeeper/test_offsets",
    "compat_tests/cluster/test_followers",
    "compat_tests/cluster/test_faults.py::test_nothing_acknowledged_is_lost_to[",
    "compat_tests/histories/test_rounds.py::test_histories_of_one_broker",
    "compat_tests/histories/test_rounds.py::test_histories_of_three_brokers",
)
# Files with a test of more than twenty seconds
LONG = {
    "storage/test_sigkill",
    "groups/test_sigkill",
    "transactions/test_sigkill",
    "tools/test_readme",
    "transactions/test_streams",
    "zookeeper/test_old_consumers",
    "zookeeper/test_migration_faults",
    "spark/test_load",
    "spark/test_pipelines",
    "spark/test_sink",
    "spark/test_table",
    "spark/test_sink_kills",
    "cluster/test_faults",
    "cluster/test_followers",
    "histories/test_rounds",
    "cluster/test_guest",
    "cluster/test_restarts",
    "cluster/test_sessions",
    "cluster/test_transactions",
}

FIGURES: list[str] = []

# kafka-python: how it reads its message definitions; a connection that could not be made is not closed. PySpark's too.
NOT_OURS = (
    "ignore:read_text is deprecated:DeprecationWarning",
    "ignore:unclosed <socket:ResourceWarning",
    "ignore:unclosed <ssl.SSLSocket:ResourceWarning",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Warnings are errors, except for those that clients raise.

    Tests that measure come first: no JVM is kept for later tests yet. Units of several tests come before long tests,
    and those before short ones, so that all processes end at nearly the same time. The tests of a unit follow one
    another in a single process too.
    """
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            for line in NOT_OURS:
                item.add_marker(pytest.mark.filterwarnings(line))
    firsts: dict[str, int] = {}
    for number, item in enumerate(items):
        firsts.setdefault(unit_of_work(item.nodeid), number)
    items.sort(key=lambda item: (turn(item), firsts[unit_of_work(item.nodeid)]))


def unit_of_work(test: str) -> str:
    """The tests of a unit run in one process, one after another."""
    found = next((beginnings for beginnings in TOGETHER if test.startswith(beginnings)), test)
    return found if isinstance(found, str) else found[0]


def turn(item: pytest.Item) -> int:
    if item.get_closest_marker("alone"):
        return 0
    if unit_of_work(item.nodeid) != item.nodeid:
        return 1
    return 2 if f"{item.path.parent.name}/{item.path.stem}" in LONG else 3


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out units of work in the order of the tests."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return unit_of_work(nodeid)

    config.option.loadscopereorder = False
    return Scheduling(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that measures has no other test beside it."""
    if item.get_closest_marker("alone") and hasattr(item.config, "workerinput"):
        pytest.fail("the test measures: run it without -n, as `make compat` does", pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    """Collect what clients left open, before pytest does and takes it for an error of these tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the figures of a worker to the process that prints them."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["figures"] = FIGURES


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the figures of a worker; a worker that crashed has none."""
    FIGURES.extend(getattr(node, "workeroutput", {}).get("figures", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was measured on the way."""
    if FIGURES:
        terminalreporter.section(f"measured against {TARGET}")
        for line in sorted(FIGURES):
            terminalreporter.line(line)


@pytest.fixture
def figure() -> Callable[[str], None]:
    """Say something measured: it is printed at the end of the run."""
    return FIGURES.append


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker that tests share; one that ends it starts it again."""
    broker = new_broker(tmp_path_factory.mktemp("broker"))
    ready_s = broker.start()
    FIGURES.append(f"ready after {ready_s:.2f} s, {broker.resident_bytes() >> 20} MB resident")
    yield broker
    FIGURES.append(f"{broker.resident_bytes() >> 20} MB resident at the end")
    broker.stop()


@pytest.fixture(scope="session")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """In front of a broker of its own: for clients of which is noted what they use."""
    with Proxy() as proxy:
        settings = {**RECORDED_SETTINGS, "advertised.listeners": f"PLAINTEXT://{proxy.bootstrap}"}
        with running(tmp_path_factory.mktemp("recorded"), settings) as broker:
            proxy.target = broker.bootstrap
            yield proxy
        if usage.RECORDS and TARGET == "headgate":
            usage.keep(proxy.used)


class OldProxy(NamedTuple):
    """A proxy in front of a broker with a ZooKeeper, and its address."""

    proxy: Proxy
    zookeeper: str


@pytest.fixture(scope="session")
def old_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldProxy]:
    """For clients that need ZooKeeper; noted is the same as with `proxy`."""
    with Proxy() as proxy:
        settings = {**RECORDED_SETTINGS, "advertised.listeners": f"PLAINTEXT://{proxy.bootstrap}"}
        with old_world(tmp_path_factory.mktemp("recorded_old"), settings) as world:
            proxy.target = world.broker.bootstrap
            yield OldProxy(proxy, world.connect)
        if usage.RECORDS and TARGET == "headgate":
            usage.keep(proxy.used)


@pytest.fixture
def topic(broker: Broker) -> Callable[..., str]:
    """A new topic with each call: `topic(partitions=3, **{"segment.bytes": "1048576"})`."""

    def create(partitions: int = 1, **configs: str) -> str:
        return new_topic(broker.bootstrap, partitions, configs)

    return create


@pytest.fixture(scope="session")
def broker_of_groups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker that the tests of groups share: in its groups, what takes time by default takes less."""
    with running(tmp_path_factory.mktemp("groups"), SETTINGS) as broker:
        yield broker


@pytest.fixture
def group(broker_of_groups: Broker) -> Iterator[Group]:
    """A group without members yet, with a topic of its own."""
    group = Group(broker_of_groups, new_topic(broker_of_groups.bootstrap, PARTITIONS))
    yield group
    group.end_all()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One session for all of Spark's tests: a start takes it longer than most of them."""
    with spark_format.session() as started:
        yield started


@pytest.fixture(scope="session")
def drivers() -> Iterator[dict[str, Family]]:
    made = {kind.name: kind() for kind in FAMILIES}
    yield made
    for driver in made.values():
        driver.close()


@pytest.fixture(params=[kind.name for kind in FAMILIES])
def family(request: pytest.FixtureRequest, drivers: dict[str, Family]) -> Family:
    """Each family in turn; one that is not on this machine ends its tests by name."""
    return checked(drivers[request.param])


@pytest.fixture(params=[kind.name for kind in FAMILIES if kind.reads_by_assignment])
def reader(request: pytest.FixtureRequest, drivers: dict[str, Family]) -> Family:
    """Each family that reads without a group."""
    return checked(drivers[request.param])


@pytest.fixture(params=[kind.name for kind in FAMILIES if issubclass(kind, AsksOffsets)])
def asking(request: pytest.FixtureRequest, drivers: dict[str, Family]) -> AsksOffsets:
    """Each family whose offsets can be asked for by themselves."""
    driver = checked(drivers[request.param])
    assert isinstance(driver, AsksOffsets)
    return driver


def checked(driver: Family) -> Family:
    driver.check()
    return driver
