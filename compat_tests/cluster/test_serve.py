"""`make cluster` starts ZooKeeper and three brokers, stops what it started on Ctrl-C, and continues with the data."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.families.confluent import Confluent
from compat_tests.families.family import FromStart
from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import ROOT
from compat_tests.harness.broker import TARGET
from compat_tests.harness.ports import HOST
from compat_tests.harness.topics import create_topics
from compat_tests.harness.writing import send

END_LIMIT_S = 30
PORTS = itertools.count(20_000 + os.getpid() % 1000 * 10, 10)


@contextlib.contextmanager
def cluster(data: Path, port: int) -> Iterator[tuple[str, set[int]]]:
    """The bootstrap line of a started cluster, and its processes; Ctrl-C at the end of the block."""
    command = [sys.executable, "-m", "compat_tests.cluster.serve", f"--data={data}", f"--port={port}"]
    command += [f"--zookeeper-port={port + 3}", f"--http-port={port + 4}", f"--console-port={port + 7}"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = ""
            for line in iter(process.stdout.readline, ""):
                said += line
                if line.startswith("bootstrap.servers="):
                    break
            yield said.rpartition("=")[2].strip(), {int(found) for found in re.findall(r"process (\d+)", said)}
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=END_LIMIT_S)
    assert process.returncode == 0


def plotted(port: int) -> list[str]:
    """The HTTP listeners of the brokers whose plots the console shows."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    opener.open(f"http://{HOST}:{port}/api/session", timeout=60).close()  # the first visit starts the console
    with opener.open(f"http://{HOST}:{port}/api/live", timeout=60) as events:
        found: list[str] = json.loads(events.readline().removeprefix(b"data: "))["brokers"]
    return found


def free_ports() -> int:
    """The first of eight ports in a row that are free."""
    return next(first for first in PORTS if all(map(is_free, range(first, first + 8))))


def is_free(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


@pytest.mark.skipif(TARGET != "headgate", reason="it starts Headgate")
def test_a_cluster_by_one_command_keeps_its_data(tmp_path: Path) -> None:
    toolchain.jars("zookeeper")
    port = free_ports()
    with cluster(tmp_path, port) as (bootstrap, first):
        assert bootstrap == ",".join(f"127.0.0.1:{port + number}" for number in range(3))
        create_topics(bootstrap, {"kept": {}}, 1, 3)
        send(bootstrap, "kept", ["1", "2", "3"])
        assert plotted(port + 7) == [f"127.0.0.1:{port + 4 + number}" for number in range(3)]
    with cluster(tmp_path, port) as (bootstrap, second):
        found = Confluent().consume(bootstrap, "kept", FromStart(), {0: 3})
        assert [record.value for record in found] == [b"1", b"2", b"3"]
    assert len(first) == len(second) == 4
    assert not [process for process in first | second if Path(f"/proc/{process}").exists()]
