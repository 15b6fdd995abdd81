"""The metrics of the process: those of this one, and of a system that has none."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Final

from headgate.gateway.metrics.process_metrics import ProcessMetrics
from headgate.gateway.runtime.metrics import Metrics
from headgate.storage.files import Files

BOOTED: Final = b"cpu  1 2 3\nbtime 1700000000\nprocesses 7\n"
STAT: Final = b"42 (a (b) c) S " + b" ".join(str(number).encode() for number in range(1, 45))


class FakeProc(Files):
    """Files below /proc, as a test has them. `count`: the size of the directory of open files."""

    def __init__(self, files: dict[str, bytes], count: int = 0) -> None:
        self.files = files
        self.count = count

    def read(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def size(self, path: str) -> int:
        return self.count

    def list(self, path: str) -> dict[str, int]:
        return {"0": 0, "1": 0, "2": 0}


def measured(files: Files) -> dict[str, float]:
    metrics = Metrics()
    ProcessMetrics(files).register(metrics)
    return metrics.snapshot()


def test_fields_are_those_of_the_manual() -> None:
    files = {
        "/proc/stat": BOOTED,
        "/proc/self/stat": STAT,
        "/proc/self/io": b"rchar: 9\nread_bytes: 5\nwrite_bytes: 6\n",
    }
    found = measured(FakeProc(files, count=11))
    assert found["process.cpu.seconds"] == (11 + 12) / 100
    assert found["process.start.time.seconds"] == 1_700_000_000.19
    assert found["process.virtual.memory.bytes"] == 20
    assert found["process.resident.memory.bytes"] == 21 * resource.getpagesize()
    assert (found["disk.read.bytes"], found["disk.written.bytes"], found["process.open.fds"]) == (5, 6, 11)


def test_an_older_kernel_lists_the_open_files() -> None:
    found = measured(FakeProc({"/proc/stat": BOOTED, "/proc/self/stat": STAT}))
    assert (found["process.open.fds"], found["disk.read.bytes"]) == (3, 0)


def test_a_system_without_proc_has_no_such_metrics() -> None:
    assert measured(FakeProc({})) == {}


def test_this_process_has_numbers(tmp_path: Path) -> None:
    if not Path("/proc/self/stat").exists():
        return
    found = measured(Files())
    assert found["process.resident.memory.bytes"] > 1_000_000
    assert found["process.open.fds"] >= 3
    with (tmp_path / "file").open("wb"):
        assert measured(Files())["process.open.fds"] == found["process.open.fds"] + 1
