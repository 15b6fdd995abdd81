"""`headgate spark load`: from a broker and from its files, again and again, two at once, and across kills.

Three kills in `make test`, 20 of each kind in `make soak`, at random places: the folder has the committed records
exactly, and a plain reader beside the loads sees nothing twice or half.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.harness import toolchain
from compat_tests.harness.broker import TARGET, Broker, running
from compat_tests.harness.soak import SOAK
from compat_tests.harness.topics import create_topics, delete_before, delete_topic
from compat_tests.harness.waiting import until
from compat_tests.spark import loads
from compat_tests.spark.loads import PlainReader, Written, assert_exact

KILLS = 20 if SOAK else 1
SEED = int(os.environ.get("HEADGATE_SEED", str(random.randrange(1 << 30) if SOAK else 1)))
SMALL_FILES = ("--file-size", "64k", "--offsets-per-task", "4000")


def test_loads_by_wire_and_by_files_are_equal(broker: Broker, topic: Callable[..., str], tmp_path: Path) -> None:
    """Twice, with records between: the second load goes on behind the first; one more finds nothing."""
    name, other = topic(3, **{"segment.bytes": "1048576"}), topic(1)
    written = Written(broker.bootstrap, SEED)
    wire = (name, other, str(tmp_path / "wire"), "--bootstrap-server", broker.bootstrap, "--processes", "2")
    files = (name, other, str(tmp_path / "files"), "--log-dir", str(broker.data), "--processes", "1", *SMALL_FILES)
    for number in range(2):
        written.plain(name, 6_000, ("zstd", "none")[number])
        written.plain(other, 5)
        written.transactions(name, 4)
        rows = loads.run("load", *wire)
        assert {row["topic"] for row in rows} == {name, other}
        assert sum(row["gaps"].get("aborted", 0) for row in rows) > 0
        assert_exact(tmp_path / "wire", written)
    loads.run("load", *files, "--bootstrap-server", broker.bootstrap)
    assert_exact(tmp_path / "files", written)
    assert loads.run("load", *wire) == []


def test_spark_runs_the_tasks_and_reads_the_folder(broker: Broker, topic: Callable[..., str], tmp_path: Path) -> None:
    """Values of JSON; a Python worker of Spark is killed meanwhile: its task starts again."""
    toolchain.module("pyspark", "pip install pyspark==4.1.1")
    name = topic(2)
    written = Written(broker.bootstrap, SEED)
    written.plain(name, 20_000)
    written.transactions(name, 2)
    out, errors = tmp_path / "out", tmp_path / "errors"
    words = ("load", name, str(out), "--bootstrap-server", broker.bootstrap, "--master", "local[2]", *SMALL_FILES)
    with loads.started(*words, errors=errors) as process, PlainReader(out):
        assert kill_worker(process.pid) or process.poll() is not None
        code = process.wait(loads.LIMIT_S)
    assert code == 0, errors.read_text()
    assert_exact(out, written)


def kill_worker(driver: int) -> bool:
    """Kill the first Python worker of a driver that has a task; False if the driver ended before."""
    found: list[int] = []

    def look() -> bool:
        workers = {pid: line for pid, line in loads.descendants(driver).items() if "pyspark.daemon" in line}
        found[:] = sorted(workers)[1:]  # the first is the daemon that forks the others
        return bool(found) or not Path(f"/proc/{driver}").exists()

    until(look, "a Python worker", 120, 0.005)
    if found:
        time.sleep(0.3)
        os.kill(found[0], signal.SIGKILL)
    return bool(found)


def test_a_killed_driver_publishes_all_or_nothing(broker: Broker, topic: Callable[..., str], tmp_path: Path) -> None:
    name = topic(3)
    written = Written(broker.bootstrap, SEED)
    out, errors, chance = tmp_path / "out", tmp_path / "errors", random.Random(SEED)
    words = ("load", name, str(out), "--bootstrap-server", broker.bootstrap, "--processes", "2", *SMALL_FILES)
    written.plain(name, 12_000)
    began = time.monotonic()
    loads.run(*words)
    usual_s = time.monotonic() - began
    with PlainReader(out):
        for _ in range(KILLS):
            written.plain(name, 12_000)
            with loads.started(*words, errors=errors) as process:
                time.sleep(chance.uniform(0.3, 1) * usual_s)
                process.kill()
        loads.run(*words)
    assert_exact(out, written)


def test_a_killed_broker_loses_no_record_of_a_load(tmp_path: Path) -> None:
    out, errors, chance = tmp_path / "out", tmp_path / "errors", random.Random(SEED)
    with running(tmp_path / "broker") as broker, PlainReader(out):
        create_topics(broker.bootstrap, {"orders": {}}, 2)
        written = Written(broker.bootstrap, SEED)
        words = ("load", "orders", str(out), "--bootstrap-server", broker.bootstrap, "--processes", "2", *SMALL_FILES)
        for _ in range(KILLS):
            written.plain("orders", 12_000)
            with loads.started(*words, errors=errors) as process:
                time.sleep(chance.uniform(1, 3))
                broker.kill()
                broker.start()
                process.wait(loads.LIMIT_S)
        loads.run(*words)
    assert_exact(out, written)


@pytest.mark.soak
def test_killed_executors_lose_nothing(broker: Broker, topic: Callable[..., str], tmp_path: Path) -> None:
    """A cluster of two executors; one is killed at a random moment, or the driver with all of them."""
    toolchain.module("pyspark", "pip install pyspark==4.1.1")
    name = topic(2)
    written = Written(broker.bootstrap, SEED)
    out, errors, chance = tmp_path / "out", tmp_path / "errors", random.Random(SEED)
    words = ("load", name, str(out), "--bootstrap-server", broker.bootstrap, *SMALL_FILES)
    cluster = ("--master", "local-cluster[2,1,1024]")
    with PlainReader(out):
        for number in range(KILLS):
            written.plain(name, 100_000)
            with loads.started(*words, *cluster, errors=errors) as process:
                victim = wait_for_executor(process.pid)
                time.sleep(chance.uniform(0, 4))
                os.kill(process.pid if number % 4 == 3 else victim, signal.SIGKILL)
                process.wait(loads.LIMIT_S)
        loads.run(*words, "--processes", "2")
    assert_exact(out, written)


def wait_for_executor(driver: int) -> int:
    found: list[int] = []

    def look() -> bool:
        lines = loads.descendants(driver)
        found[:] = [pid for pid, line in lines.items() if "CoarseGrainedExecutorBackend" in line]
        return bool(found)

    until(look, "an executor", 120, 0.05)
    return found[0]


def test_of_two_loads_at_once_one_is_refused(broker: Broker, topic: Callable[..., str], tmp_path: Path) -> None:
    name = topic(2)
    written = Written(broker.bootstrap, SEED)
    written.plain(name, 12_000)
    out, errors = tmp_path / "out", tmp_path / "errors"
    words = ("load", name, str(out), "--bootstrap-server", broker.bootstrap, "--processes", "1", *SMALL_FILES)
    with loads.started(*words, errors=errors) as process:
        lock = out / "_headgate/lock"
        until(lambda: lock.exists() and lock.stat().st_size > 0, "the lock of the first load", 60, 0.001)
        process.send_signal(signal.SIGSTOP)
        assert "another load is at work on" in loads.fail(*words)
        process.send_signal(signal.SIGCONT)
        assert process.wait(loads.LIMIT_S) == 0
    assert_exact(out, written)


def test_what_is_gone_is_named(broker: Broker, topic: Callable[..., str], tmp_path: Path) -> None:
    """DeleteRecords between two loads, inside a batch; then a topic made anew; then a lost file."""
    name = topic(1)
    written = Written(broker.bootstrap, SEED)
    out = tmp_path / "out"
    words = ("load", name, str(out), "--bootstrap-server", broker.bootstrap, "--processes", "1")
    written.plain(name, 100)
    loads.run(*words)
    written.plain(name, 100)
    delete_before(broker.bootstrap, name, {0: 130})
    assert "took offsets that were not loaded" in loads.fail(*words)
    (row,) = loads.run(*words, "--fail-on-data-loss", "false")
    assert (row["rows"], row["gaps"]) == (70, {"deleted": 30})
    for offset in range(100, 130):
        del written.committed[name, 0, offset]
    assert_exact(out, written)
    delete_topic(broker.bootstrap, name)
    create_topics(broker.bootstrap, {name: {}})
    Written(broker.bootstrap, SEED).plain(name, 300)
    if TARGET == "headgate":
        assert "deleted and made anew" in loads.fail(*words)
    next(out.glob("*.parquet")).unlink()
    assert f"{name}-0 from " in loads.fail("verify", str(out))
