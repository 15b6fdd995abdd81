"""Parsing of /proc, on lines as the kernel prints them."""

import os

import pytest

from tools.bench import machine
from tools.bench.machine import MachineTime

PROCESS = (
    "4242 (a (bad) name) S 1 4242 4242 0 -1 4194560 5000 0 12 0 1500 250 7 9 20 0 45 0 123456 4000000000 98000 "
    "18446744073709551615 1 1 0 0 0 0 0 4096 17642 0 0 0 17 1 0 0 0 0 0\n"
)
MACHINE = "cpu  1000 10 400 8000 90 5 15 3 77 0\ncpu0 500 5 200 4000 45 2 8 1 0 0\nintr 1 2 3\n"


def test_process_time_is_user_and_system_of_all_its_threads() -> None:
    assert machine.parse_process_stat(PROCESS, 100) == 17.5


def test_machine_time_counts_stolen_time_as_busy_and_waiting_as_idle() -> None:
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
    assert machine.process_cpu_seconds(pid) > 0
    assert machine.resident_bytes(pid) > 1_000_000
    assert machine.available_bytes() > machine.resident_bytes(pid)
    assert machine.machine_time().total > machine.machine_time().busy > 0
