"""Parsing of /proc, on lines as the kernel prints them."""

import os
import threading
import time
from pathlib import Path

import pytest

from headgate.tools.bench.measuring import machine
from headgate.tools.bench.measuring.machine import MachineTime

MACHINE = "cpu  1000 10 400 8000 90 5 15 3 77 0\ncpu0 500 5 200 4000 45 2 8 1 0 0\nintr 1 2 3\n"


def test_process_time_is_that_of_the_process_to_less_than_a_tick() -> None:
    before = time.process_time()
    assert before <= machine.process_cpu_seconds(os.getpid()) <= time.process_time()


def test_threads_count_also_when_they_are_dead() -> None:
    before = machine.process_cpu_seconds(os.getpid())
    thread = threading.Thread(target=_use_cpu, args=(0.02,))
    thread.start()
    thread.join()
    assert machine.process_cpu_seconds(os.getpid()) - before >= 0.02


def _use_cpu(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_a_process_that_is_gone_is_an_error_and_not_a_zero() -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        machine.process_cpu_seconds(2**22 + 1)  # above the largest process id of Linux


def test_stolen_time_is_busy_and_waiting_time_is_idle() -> None:
    assert machine.parse_machine_stat(MACHINE, 100) == pytest.approx((14.33, 95.23))


def test_others_are_what_is_left() -> None:
    before, after = MachineTime(busy=100.0, total=1000.0), MachineTime(busy=106.0, total=1010.0)
    assert machine.others_share(after.since(before), own_seconds=4.0) == pytest.approx(0.2)


def test_ticks_may_lose_a_little_but_never_make_a_negative_share() -> None:
    assert machine.others_share(MachineTime(1.0, 4.0), own_seconds=1.01) == 0.0
    assert machine.others_share(MachineTime(0.0, 0.0), own_seconds=0.0) == 0.0


def test_sizes_are_in_bytes() -> None:
    text = "Name:\tpython\nVmPeak:\t 100 kB\nVmRSS:\t   30720 kB\n"
    assert machine.parse_size(text, "VmRSS") == 30720 * 1024
    with pytest.raises(ValueError, match="VmSwap"):
        machine.parse_size(text, "VmSwap")


def test_this_machine_has_all_of_it() -> None:
    pid = os.getpid()
    assert machine.own_cpu_seconds() > 0
    assert machine.resident_bytes(pid) > 1_000_000
    assert machine.available_bytes() > machine.resident_bytes(pid)
    assert machine.machine_time().total > machine.machine_time().busy > 0


@pytest.mark.parametrize("size", [0, 1, (1 << 20) + 1])
def test_touched_pages_leave_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    sizes = []
    unlink = Path.unlink

    def remove(path: Path, missing_ok: bool = False) -> None:
        sizes.append(path.stat().st_size)
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", remove)
    machine.touch_pages(tmp_path / "touched", size)
    assert size <= sizes[0] < size + (1 << 20)
    assert not list(tmp_path.iterdir())


def test_time_before_the_first_look_and_of_ended_children_does_not_count() -> None:
    assert machine.cpu_since({1: 5.0, 2: 30.0, 3: 1.0}, {1: 7.0, 3: 1.5, 4: 0.25}) == 2.75
