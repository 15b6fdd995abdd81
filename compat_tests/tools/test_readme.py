"""What the README tells a new user to type, typed: only the address is another."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from compat_tests.harness import apache_kafka, toolchain
from compat_tests.harness.broker import TARGET, running

ADDRESS = "127.0.0.1:9092"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LIMIT_S = 120


class Block(NamedTuple):
    """A fenced block of the README: its language, which may be empty, and its text."""

    language: str
    text: str


def blocks(title: str) -> list[Block]:
    """The blocks of one section, in order."""
    readme = (apache_kafka.ROOT / "README.md").read_text()
    section = readme.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return [Block(*found) for found in BLOCK.findall(section)]


def typed(block: Block, bootstrap: str) -> Iterator[list[str]]:
    """The commands that a block comes to: a program for Python, otherwise a line for the shell each."""
    text = block.text.replace(ADDRESS, bootstrap)
    if block.language == "python":
        yield [sys.executable, "-c", text]
        return
    for line in text.splitlines():
        if line and not line.startswith(("make ", ".venv/")):
            yield ["bash", "-c", line]


def run(command: list[str]) -> str:
    quick = {**os.environ, "SPARK_SUBMIT_OPTS": " ".join(apache_kafka.QUICK_START)}
    done = subprocess.run(
        command, cwd=apache_kafka.ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=quick
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr[-3000:]}"
    return done.stdout


def test_use_it_line_by_line(tmp_path: Path) -> None:
    """Kcat, a Python producer, a group and a Spark read, in the README's order on a new broker."""
    toolchain.program("kcat", "apt-get install kcat")
    toolchain.module("pyspark", "pip install pyspark==4.1.1")
    toolchain.jars("spark")
    with running(tmp_path) as broker:
        said = [run(command) for block in blocks("Use it") for command in typed(block, broker.bootstrap)]
    shown = "\n".join(said)
    assert "hello\n" in shown, "kcat did not show what kcat sent"
    assert "b'hello'" in shown, "the group did not read what kcat sent"
    table = next((output for output in said if "+---" in output), "")
    assert "hello from Python" in table, f"Spark's table does not show what the Python producer sent: {shown}"


@pytest.mark.skipif(TARGET != "headgate", reason="the embedded broker is ours")
def test_in_your_tests() -> None:
    """The program that starts a broker for itself prints its address."""
    (first, *_) = blocks("In your tests")
    assert re.search(r"^[\w.]+:\d+$", run([sys.executable, "-c", first.text]), re.MULTILINE)
