"""A broker inside a program: it starts, dies and comes back on the same port; it leaves nothing behind."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import headgate
from headgate import Headgate
from headgate.gateway.app import cli
from headgate.gateway.app.headgate import HeadgateError

pytestmark = [pytest.mark.sockets, pytest.mark.slow]


@pytest.fixture(scope="module")
def shared() -> Iterator[Headgate]:
    """One broker for the tests that do not stop it."""
    with Headgate() as broker:
        yield broker


def answers(bootstrap: str) -> bool:
    host, _, port = bootstrap.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 5).close()
    except OSError:
        return False
    return True


def topics_of(broker: Headgate, capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    assert cli.main(["topics", "list", "--json", "--bootstrap-server", broker.bootstrap]) == 0
    rows = map(json.loads, capsys.readouterr().out.splitlines())
    return {row["topic"]: row["partitions"] for row in rows}


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_clients_can_connect(shared: Headgate) -> None:
    assert shared.bootstrap.startswith("127.0.0.1:")
    assert answers(shared.bootstrap)
    assert shared.pid != os.getpid()
    assert shared.start() is shared, "a second start changes nothing"


def test_every_topic_has_a_name_of_its_own(shared: Headgate, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = shared.topic(), shared.topic(partitions=3, retention_ms=1000)
    assert first != second
    found = topics_of(shared, capsys)
    assert (found[first], found[second]) == (1, 3)
    assert cli.main(["topics", "describe", second, "--bootstrap-server", shared.bootstrap]) == 0
    assert json.loads(capsys.readouterr().out)["configs"] == {"retention.ms": "1000"}


def test_the_brokers_reason_is_told(shared: Headgate) -> None:
    with pytest.raises(HeadgateError, match="topic a b was not created: Topic name is invalid: 'a b' contains"):
        shared.create_topic("a b")


def test_topics_from_the_command_line(shared: Headgate, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--bootstrap-server", shared.bootstrap, "--json"]
    assert cli.main(["topics", "create", "by.hand", "--partitions", "2", *where]) == 0
    assert cli.main(["topics", "create", "by.hand", *where]) == 1
    assert "Topic 'by.hand' already exists. (TOPIC_ALREADY_EXISTS); --if-not-exists" in capsys.readouterr().err
    assert cli.main(["topics", "delete", "by.hand", *where]) == 0
    assert cli.main(["topics", "delete", "by.hand", *where]) == 1
    capsys.readouterr()
    assert "by.hand" not in topics_of(shared, capsys)


def test_its_clock_is_its_own(shared: Headgate) -> None:
    with pytest.raises(HeadgateError, match="use Headgate"):
        shared.advance(1)


def test_a_killed_broker_comes_back_with_port_and_data(capsys: pytest.CaptureFixture[str]) -> None:
    with Headgate() as broker:
        name, bootstrap, pid = broker.topic(partitions=2), broker.bootstrap, broker.pid
        broker.kill()
        assert not broker.is_running
        assert not is_alive(pid)
        assert broker.bootstrap == bootstrap
        assert not answers(bootstrap)
        broker.restart()
        assert broker.bootstrap == bootstrap
        assert topics_of(broker, capsys) == {name: 2}
        broker.restart()
        assert topics_of(broker, capsys) == {name: 2}


def test_nothing_is_left_behind() -> None:
    with Headgate() as broker:
        pid, directory = broker.pid, broker.directory
        assert Path(directory).is_dir()
    assert not is_alive(pid)
    assert not Path(directory).exists()
    assert not broker.is_running
    with pytest.raises(HeadgateError, match="was not started"):
        _ = broker.bootstrap


def test_data_in_a_given_directory_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Headgate(directory=tmp_path / "kept", num_partitions=3) as broker:
        broker.create_topic("a", partitions=-1)
    with Headgate({"log.dirs": tmp_path / "kept"}) as broker:
        assert topics_of(broker, capsys) == {"a": 3}
    assert (tmp_path / "kept").is_dir()


def test_why_it_did_not_start_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        HeadgateError, match=r"(?s)ended with code 2 .*unknown setting 'num\.partitons': the nearest name"
    ):
        Headgate(num_partitons=1).start()
    with Headgate(directory=tmp_path) as first, pytest.raises(HeadgateError, match=f"process {first.pid}"):
        Headgate(directory=tmp_path).start()


def test_a_start_that_takes_too_long_says_what_it_waited_for() -> None:
    with pytest.raises(HeadgateError, match="not ready within 0 s: waited for the line 'headgate ready'"):
        Headgate(deadline_s=0).start()


def test_it_ends_with_its_parent_even_if_that_is_killed() -> None:
    program = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); from headgate import Headgate\n"
        "broker = Headgate().start(); print(broker.pid, broker.bootstrap, broker.directory, flush=True); time.sleep(60)"
    )
    root = str(Path(headgate.__file__).parents[1])
    with subprocess.Popen([sys.executable, "-c", program, root], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, bootstrap, directory = parent.stdout.readline().split()
        assert answers(bootstrap)
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while is_alive(int(pid)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(int(pid)), f"process {pid} outlived its parent by 10 s"
    assert not answers(bootstrap)
    shutil.rmtree(directory)  # nobody is left who could have


def test_it_ends_with_a_program_that_forgets_it() -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from headgate import Headgate\n"
        "broker = Headgate().start(); print(broker.bootstrap, broker.directory)"
    )
    root = str(Path(headgate.__file__).parents[1])
    ran = subprocess.run([sys.executable, "-c", program, root], capture_output=True, text=True, check=True, timeout=60)
    bootstrap, directory = ran.stdout.split()
    assert not answers(bootstrap)
    assert not Path(directory).exists()


def test_values_are_written_as_kafka_wants_them() -> None:
    with Headgate(auto_create_topics_enable=False, log_cleanup_policy=["compact", "delete"]) as broker:
        assert broker.is_running
        assert repr(broker) == f"Headgate({broker.bootstrap})"
    assert repr(broker) == "Headgate(not running)"
