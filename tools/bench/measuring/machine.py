"""The kernel's counters of processes and of the machine. The parsers are pure; `proc(5)` defines the files."""

import os
import resource
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_TOUCHED_AT_ONCE = 1 << 20
_CPU_CLOCK_OF_PROCESS = 2  # CPUCLOCK_SCHED in Linux's posix-timers_types.h; below it the process id, inverted


class MachineTime(NamedTuple):
    """CPU seconds of all cores since boot."""

    busy: float
    total: float

    def since(self, earlier: "MachineTime") -> "MachineTime":
        return MachineTime(self.busy - earlier.busy, self.total - earlier.total)


def parse_machine_stat(text: str, ticks_per_second: int) -> MachineTime:
    """From the line `cpu user nice system idle iowait irq softirq steal`; guest time is in user already."""
    user, nice, system, idle, io_wait, irq, soft_irq, steal = map(int, text.split()[1:9])
    busy = user + nice + system + irq + soft_irq + steal
    return MachineTime(busy / ticks_per_second, (busy + idle + io_wait) / ticks_per_second)


def parse_size(text: str, name: str) -> int:
    """Bytes of a `Name:   123 kB` line of /proc/<pid>/smaps_rollup or /proc/meminfo."""
    for line in text.splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"no line {name}")


def process_cpu_seconds(pid: int) -> float:
    """User and system seconds of all threads of a process, ended threads included.

    The source is the process's CPU clock, in nanoseconds (clock_getcpuclockid(3), which Python has for threads only).
    /proc/<pid>/stat counts ticks of 10 ms, and 500 expired long polls use only one.
    """
    return time.clock_gettime(~pid << 3 | _CPU_CLOCK_OF_PROCESS)


def tree_cpu_seconds(pid: int) -> float:
    """The same with all children of the process, ended children included."""
    return sum(tree_cpu(pid).values())


def tree_cpu(pid: int) -> dict[int, float]:
    """CPU seconds of a process and of each below it by their ids, each with the ended children that it waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ended = (int(fields[13]) + int(fields[14])) / _TICKS_PER_SECOND
    found = {pid: process_cpu_seconds(pid) + ended}
    children = {
        int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()
    }
    for child in children:
        found |= tree_cpu(child)
    return found


def cpu_since(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    """The CPU seconds between two looks at a tree whose processes do not wait for their children: Spark's.

    The time of such a child is gone with it. Spark ends workers that were idle for a minute, so little is missed.
    """
    return sum(seconds - before.get(pid, 0) for pid, seconds in after.items())


def own_cpu_seconds() -> float:
    """The CPU seconds of this process and its ended children: generators, never a running broker."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def machine_time() -> MachineTime:
    return parse_machine_stat(Path("/proc/stat").read_text(), _TICKS_PER_SECOND)


def resident_bytes(pid: int) -> int:
    """The resident set, counted page by page: VmRSS in /proc/<pid>/status lags by some pages for each thread."""
    return parse_size(Path(f"/proc/{pid}/smaps_rollup").read_text(), "Rss")


def available_bytes() -> int:
    return parse_size(Path("/proc/meminfo").read_text(), "MemAvailable")


def touch_pages(path: Path, size: int) -> None:
    """Write a file of `size` bytes and remove it, so that the kernel has backed free pages for the next files.

    A virtual machine may have returned free pages to the host. The first use of such a page is a fault of the host:
    6 us, charged to the writer. That is 1.6 CPU s/GB, while copying into a backed page takes 0.15.
    """
    block = bytes(_TOUCHED_AT_ONCE)
    try:
        with path.open("wb", buffering=0) as file:
            for _ in range(-(-size // len(block))):
                file.write(block)
    finally:
        path.unlink(missing_ok=True)


def others_share(machine: MachineTime, own_seconds: float) -> float:
    """The share of the machine's CPU time, 0 to 1, of processes outside of the measurement."""
    return max(0.0, machine.busy - own_seconds) / machine.total if machine.total > 0 else 0.0
