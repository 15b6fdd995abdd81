from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from headgate.tools.doctor.host import processes
from headgate.tools.doctor.host.processes import listening_inodes, memory_bytes, owners_of, read_process

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2384 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1 0 100 0 0 10 0
   1: 0100007F:2385 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 78 1 0 100 0 0 10 0
"""


def make_process(proc: Path, pid: int, command: str, limit: str = "1024") -> Path:
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "cmdline").write_bytes(command.replace(" ", "\0").encode())
    (folder / "limits").write_text(f"Limit  Soft Limit  Hard Limit  Units\nMax open files  {limit}  4096  files\n")
    return folder


@pytest.mark.parametrize(
    "command, name",
    [
        ("/usr/bin/java -Xmx1g kafka.Kafka", "java"),
        ("/venv/bin/python /venv/bin/headgate serve", "headgate"),
        ("python -m headgate serve", "headgate"),
        ("python other.py", "python"),
    ],
)
def test_names_of_processes(tmp_path: Path, command: str, name: str) -> None:
    make_process(tmp_path, 5, command)
    assert read_process(5, tmp_path) == (5, name, 1024, 0)


def test_a_process_that_is_gone_or_without_a_limit(tmp_path: Path) -> None:
    assert read_process(6, tmp_path) == (6, "?", None, None)
    make_process(tmp_path, 5, "x", "unlimited")
    assert read_process(5, tmp_path).descriptor_limit is None


def test_ports_and_their_processes(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text(TCP)
    (make_process(tmp_path, 5, "x") / "fd" / "3").symlink_to("socket:[77]")
    (make_process(tmp_path, 6, "y") / "fd" / "3").symlink_to("socket:[78]")
    found = listening_inodes(tmp_path)
    assert found == {9092: {"77"}}
    assert owners_of(found[9092], tmp_path) == {5}


@pytest.mark.sockets
@pytest.mark.skipif(not processes.PROC.is_dir(), reason="this system has no /proc")
def test_a_port_of_this_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert owners_of(listening_inodes()[listener.getsockname()[1]]) == {os.getpid()}


def test_memory_is_told_in_bytes(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:  8 kB\nMemAvailable:    4 kB\nHugePages_Total:  \n")
    assert memory_bytes(tmp_path) == {"MemTotal": 8192, "MemAvailable": 4096}
