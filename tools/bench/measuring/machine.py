"""What the kernel says of processes and of the machine. The parsers are pure; `proc(5)` defines the files."""

import os
import resource
import time
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
    """User and system seconds of all threads, dead ones included.

    From the process's CPU clock (clock_getcpuclockid(3), which Python has for threads only), which counts nanoseconds:
    /proc/<pid>/stat counts ticks of 10 ms, and 500 expired long polls use no more than that.
    """
    return time.clock_gettime(~pid << 3 | _CPU_CLOCK_OF_PROCESS)


def tree_cpu_seconds(pid: int) -> float:
    """The same with its children, those that have ended too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ended = (int(fields[13]) + int(fields[14])) / _TICKS_PER_SECOND
    children = {
        int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()
    }
    return process_cpu_seconds(pid) + ended + sum(map(tree_cpu_seconds, children))


def own_cpu_seconds() -> float:
    """This process and its ended children: generators, never a broker that still runs."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def machine_time() -> MachineTime:
    return parse_machine_stat(Path("/proc/stat").read_text(), _TICKS_PER_SECOND)


def resident_bytes(pid: int) -> int:
    """Counted page by page; VmRSS in status lags behind by some pages a thread."""
    return parse_size(Path(f"/proc/{pid}/smaps_rollup").read_text(), "Rss")


def available_bytes() -> int:
    return parse_size(Path("/proc/meminfo").read_text(), "MemAvailable")


def touch_pages(path: Path, size: int) -> None:
    """Write a file of `size` bytes and remove it: the pages that the kernel gives to the next files are then there.

    A virtual machine may have given free pages to its host. The first use of each is then a fault of the host, 6 us
    charged to whoever writes: 1.6 CPU s/GB, where to copy into a page that is there takes 0.15.
    """
    block = bytes(_TOUCHED_AT_ONCE)
    try:
        with path.open("wb", buffering=0) as file:
            for _ in range(-(-size // len(block))):
                file.write(block)
    finally:
        path.unlink(missing_ok=True)


def others_share(machine: MachineTime, own_seconds: float) -> float:
    """The part of the machine's CPU time that was used by none of the processes that a figure is about, 0 to 1."""
    return max(0.0, machine.busy - own_seconds) / machine.total if machine.total > 0 else 0.0
