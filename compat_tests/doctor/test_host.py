"""The machine and the files of a broker: for each fault the right row is wrong, and nothing beside a sound broker."""

from __future__ import annotations

import fcntl
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from compat_tests.doctor.examination import OF_THE_MACHINE, Examination, examine
from compat_tests.harness.broker import HTTP, TARGET, HeadgateBroker, installed_command
from compat_tests.security.client_security import write_properties
from compat_tests.storage.small_disk import SmallDisk

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="the files are those of Headgate")

MIB: Final = 1 << 20
EVERYWHERE: Final = "PLAINTEXT://0.0.0.0:9092"


def properties(path: Path, **settings: str) -> str:
    """A server.properties; dots of names are written as underscores."""
    lines = {name.replace("_", "."): value for name, value in settings.items()}
    return write_properties(path / "server.properties", {HTTP: "", **lines})


def examine_file(path: str, *more: str) -> Examination:
    found = examine(path, "--timeout", "3", *more)
    # What the machine of the tests lacks is not the fault that is looked for
    rows = [row for row in found.rows if row.check not in OF_THE_MACHINE]
    code = 3 if any(row.state == "wrong" for row in rows) else 0
    return found._replace(rows=rows, code=code)


def of_broker(broker: HeadgateBroker, path: Path, **settings: str) -> str:
    """The file of a broker that runs."""
    return properties(path, listeners=f"PLAINTEXT://{broker.bootstrap}", log_dirs=str(broker.data), **settings)


def test_a_sound_broker_that_runs(plain: HeadgateBroker, tmp_path: Path) -> None:
    found = examine_file(of_broker(plain, tmp_path))
    found.is_sound()
    rows = {row.check: row.found for row in found.rows}
    assert f"process {plain.pid} (headgate) has it" in rows["directory"]
    assert rows["ports"] == f"the broker listens at {plain.port}"


def test_a_new_broker_before_its_first_start(tmp_path: Path) -> None:
    found = examine_file(properties(tmp_path, listeners="PLAINTEXT://127.0.0.1:1", log_dirs=str(tmp_path / "data")))
    found.is_sound()
    assert "the first start makes it" in {row.check: row.found for row in found.rows}["directory"]


# Settings


def test_an_unknown_setting(tmp_path: Path) -> None:
    found = examine_file(properties(tmp_path, log_retention_hour="3", log_dirs=str(tmp_path)))
    found.fails_alone("settings", "line 2: unknown setting 'log.retention.hour'", "log.retention.hours")


def test_an_advertised_address_that_nobody_can_dial(tmp_path: Path) -> None:
    found = examine_file(properties(tmp_path, advertised_listeners=EVERYWHERE, log_dirs=str(tmp_path)))
    found.fails_alone("settings", EVERYWHERE.split(":")[1].strip("/"), "name an address that clients can reach")


def test_an_advertised_address_of_this_machine_alone(tmp_path: Path) -> None:
    settings = {"listeners": "PLAINTEXT://:1", "advertised_listeners": "PLAINTEXT://localhost:1"}
    examine_file(properties(tmp_path, log_dirs=str(tmp_path / "data"), **settings)).fails_alone(
        "settings", "advertises localhost:1", "advertise a name that they reach"
    )


def test_a_listener_between_brokers_that_has_no_name(tmp_path: Path) -> None:
    file = properties(tmp_path, inter_broker_listener_name="INTERNAL", log_dirs=str(tmp_path))
    examine_file(file).fails_alone("settings", "INTERNAL")


# Ports and directories


def test_a_port_of_another_process(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listeners = f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"
        found = examine_file(properties(tmp_path, listeners=listeners, log_dirs=str(tmp_path / "data")))
    found.fails_alone("ports", "is taken by process", "set another port in listeners")


def test_the_node_id_of_another_directory(plain: HeadgateBroker, tmp_path: Path) -> None:
    found = examine_file(of_broker(plain, tmp_path, node_id="5"))
    found.fails_alone("directory", "belongs to node.id=0, the settings have 5")


def test_directories_of_two_clusters(tmp_path: Path) -> None:
    for name, cluster in (("a", "4JmnpzYsThhtm8N2e63GXA"), ("b", "hlBugjexpdjw4Gap53wA1A")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.properties").write_text(f"cluster.id={cluster}\nnode.id=0\nversion=1\n")
    file = properties(tmp_path, listeners="PLAINTEXT://127.0.0.1:1", log_dirs=f"{tmp_path / 'a'},{tmp_path / 'b'}")
    examine_file(file).fails_alone("directory", "of different brokers", "remove the directory of the other cluster")


def test_partitions_without_an_identity(tmp_path: Path) -> None:
    (tmp_path / "data" / "orders-0").mkdir(parents=True)
    file = properties(tmp_path, listeners="PLAINTEXT://127.0.0.1:1", log_dirs=str(tmp_path / "data"))
    examine_file(file).fails_alone("directory", "1 partitions and no meta.properties")


HOLDER: Final = """
import fcntl, pathlib, sys
file = pathlib.Path(sys.argv[1]).open("w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(lock: Path) -> Iterator[int]:
    """A process that holds a lock, and listens nowhere."""
    command = [sys.executable, "-c", HOLDER, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid
        process.communicate()


def test_a_lock_of_a_process_that_does_not_listen(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "meta.properties").write_text("cluster.id=4JmnpzYsThhtm8N2e63GXA\nnode.id=0\nversion=1\n")
    file = properties(tmp_path, listeners="PLAINTEXT://127.0.0.1:1", log_dirs=str(data))
    with held(data / ".lock") as pid:
        examine_file(file).fails_alone("directory", f"process {pid}", "nothing listens", f"kill {pid}")
    with (data / ".lock").open("w") as free:
        fcntl.lockf(free, fcntl.LOCK_EX | fcntl.LOCK_NB)
    examine_file(file).is_sound()


# Disks


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallDisk]:
    (tmp_path / "disk").mkdir()
    try:
        disk = SmallDisk(tmp_path / "disk", 200 * MIB)
    except OSError as error:
        pytest.skip(str(error))
    with disk:
        yield disk


def test_a_full_disk(small: SmallDisk, tmp_path: Path) -> None:
    file = properties(tmp_path, listeners="PLAINTEXT://127.0.0.1:1", log_dirs=str(small.directory / "data"))
    small.fill(leave=10 * MIB)
    examine(file, within=small.enter([])).fails("disk", "10 MiB free of 200", "it is full", "retention")


def test_a_full_disk_as_a_client_sees_it(small: SmallDisk, tmp_path: Path) -> None:
    broker = HeadgateBroker(tmp_path / "broker", data=small.directory / "data")
    plain_command = broker.command
    broker.command = lambda: small.enter(plain_command())  # type: ignore[method-assign]
    small.fill(leave=10 * MIB)
    broker.start()
    try:
        examine("--bootstrap-server", broker.bootstrap).fails("disk", "broker 0", "it is full")
    finally:
        broker.stop()


def test_a_disk_that_is_mounted_read_only(small: SmallDisk, tmp_path: Path) -> None:
    file = properties(tmp_path, listeners="PLAINTEXT://127.0.0.1:1", log_dirs=str(small.directory / "data"))
    subprocess.run(small.enter(["mount", "-o", "remount,ro", str(small.directory)]), check=True)
    examine(file, within=small.enter([])).fails("disk", "mounted read-only", "dmesg")


# Limits


def test_few_descriptors() -> None:
    found = examine("--local", within=("bash", "-c", 'ulimit -n 256; exec "$@"', "bash"))
    found.fails("descriptors", "256 files", "LimitNOFILE")


def test_a_small_backlog() -> None:
    network = ("unshare", "--user", "--map-root-user", "--net")
    if subprocess.run([*network, "true"], check=False, capture_output=True).returncode:
        pytest.skip("a user cannot have a network namespace here")
    small = ("sh", "-c", 'echo 16 > /proc/sys/net/core/somaxconn && exec "$@"', "sh")
    examine("--local", within=(*network, *small)).fails("backlog", "somaxconn is 16", "sysctl -w")


# Usage


def test_options_that_do_not_fit_together() -> None:
    for options in (["--create-canary"], ["--local", "--canary", "t"], ["--timeout", "0"]):
        done = subprocess.run([*installed_command(), "doctor", *options], capture_output=True, check=False)
        assert done.returncode == 2, options


def test_rows_are_json_lines(tmp_path: Path) -> None:
    command = [*installed_command(), "doctor", "--json", str(tmp_path / "missing.properties")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    [row] = map(json.loads, done.stdout.splitlines())
    assert (done.returncode, row["check"], row["state"]) == (3, "settings", "wrong")
    assert set(row) == {"check", "state", "found", "cure"}
