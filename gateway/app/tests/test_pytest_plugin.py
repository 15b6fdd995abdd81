"""The fixture `headgate`, as a project that uses it sees it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import headgate

TESTS = """
import socket
import pytest

@pytest.fixture(scope="session")
def headgate_options():
    return {"num.partitions": 3}

names, pids = [], []

def connect(headgate):
    host, port = headgate.bootstrap.split(":")
    socket.create_connection((host, int(port)), 5).close()

def test_first(headgate):
    names.extend([headgate.topic(), headgate.topic(partitions=2)])
    pids.append(headgate.pid)
    connect(headgate)

def test_second(headgate):
    assert headgate.topic() not in names
    assert headgate.pid == pids[0], "one process serves all tests"
    headgate.kill()

def test_third(headgate):
    connect(headgate)
    headgate.restart()
    connect(headgate)

def test_failing(headgate):
    assert False

@pytest.mark.parametrize("headgate", ["theirs"])
def test_another_of_that_name(headgate):
    assert headgate == "ours"
"""


@pytest.mark.sockets
@pytest.mark.slow
def test_a_session_with_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(TESTS)
    root = str(Path(headgate.__file__).parents[1])
    program = "import sys; sys.path.insert(0, sys.argv.pop(1)); import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    options = ["-p", "headgate.gateway.app.pytest_plugin", "-p", "no:cacheprovider", "-W", "error", "-q"]
    ran = subprocess.run(
        [sys.executable, "-c", program, root, *options, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # or an installed Headgate brings its plugin too
    )
    assert "2 failed, 3 passed" in ran.stdout, ran.stdout + ran.stderr
    assert "Headgate's log" in ran.stdout


@pytest.mark.sockets
@pytest.mark.slow
def test_the_plugin_imports_nothing_heavy() -> None:
    program = (
        "import sys, pytest; before = set(sys.modules); sys.path.insert(0, sys.argv[1]);"
        " import headgate.gateway.app.pytest_plugin; print(*set(sys.modules) - before)"
    )
    root = str(Path(headgate.__file__).parents[1])
    ran = subprocess.run([sys.executable, "-I", "-c", program, root], capture_output=True, text=True, check=True)
    assert set(ran.stdout.split()) <= {
        "headgate",
        "headgate.gateway",
        "headgate.gateway.app",
        "headgate.gateway.app.pytest_plugin",
    }
