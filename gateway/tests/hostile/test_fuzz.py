"""Seeds and a bounded run of the fuzzer of unknown clients, and that it would find something; see `fuzz.py`."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.gateway.tests.hostile import fuzz
from headgate.gateway.tests.hostile.subjects import SUBJECTS
from headgate.protocol.tests.hostile.fuzzing import FOUND

SOAK = os.environ.get("HEADGATE_SOAK", "") not in {"", "0"}
needs_atheris = pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="atheris has wheels for Linux on x86-64 alone"
)
# Any text is a port
PLANTED = """
import re
import sys
from headgate.gateway.network.admission import proxy_header
from headgate.gateway.tests.hostile import fuzz

proxy_header.PORT = re.compile(b".*")
fuzz.main(sys.argv[1:])
"""


def python(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=2_000, check=False)


@pytest.mark.parametrize("name", SUBJECTS)
def test_good_and_cut_bytes_are_no_finding(name: str) -> None:
    number = list(SUBJECTS).index(name)
    for good in SUBJECTS[name].good:
        for length in {0, 1, 2, len(good) // 2, len(good) - 1, len(good)}:
            fuzz.try_input(bytes((number,)) + good[:length])


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.sockets
@needs_atheris
def test_a_run_finds_no_fault(tmp_path: Path) -> None:
    directories = ("--inputs", tmp_path / "inputs", "--found", FOUND)
    ended = python("-m", "headgate.gateway.tests.hostile.fuzz", "run", *directories, "-max_total_time=300")
    lines = ended.stderr.splitlines()
    assert ended.returncode == 0, "\n".join(line for line in lines if "\tNEW " not in line and "\tREDUCE " not in line)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.sockets
@needs_atheris
def test_a_planted_mistake_is_found(tmp_path: Path) -> None:
    ended = python("-c", PLANTED, "run", "--inputs", tmp_path / "in", "--found", tmp_path, "-max_total_time=60")
    assert "found: PROXY header" in ended.stderr
    assert ended.returncode != 0
