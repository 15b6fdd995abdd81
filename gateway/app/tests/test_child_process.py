"""A broker as a child process: its start fails with the reason, and the broker ends with its parent."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import headgate
from headgate import Headgate
from headgate.gateway.app.child_process import HeadgateError

pytestmark = [pytest.mark.sockets, pytest.mark.slow]


def answers(bootstrap: str) -> bool:
    host, _, port = bootstrap.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 5).close()
    except OSError:
        return False
    return True


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


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
