"""The metrics of the process: those of Prometheus' client libraries, and the bytes of the disks.

The files of `/proc` are read once before each reading of the metrics; on a system without them there are no such
metrics. The library's own collector lists the open files, which takes milliseconds where there are ten thousand.

Source: proc(5); Prometheus' "Writing client libraries", process metrics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from headgate.gateway.runtime.metrics import Metrics
from headgate.protocol.steps import Steps
from headgate.storage.files import Files

try:
    import resource
except ImportError:  # not a POSIX system, so there is no /proc either
    resource = None  # type: ignore[assignment]

STAT, IO, OPEN_FILES, OF_THE_SYSTEM = "/proc/self/stat", "/proc/self/io", "/proc/self/fd", "/proc/stat"
TICKS_PER_S: Final = 100
"""The unit of times in `/proc` (USER_HZ), the same on every Linux."""
_READ, _WRITTEN = b"read_bytes", b"write_bytes"
# The fields of /proc/self/stat behind the name of the program
_USER, _SYSTEM, _START, _VIRTUAL, _RESIDENT = 11, 12, 19, 20, 21


class ProcessNumbers(NamedTuple):
    """The numbers of one reading."""

    cpu_s: float = 0.0
    start_s: float = 0.0
    virtual_bytes: int = 0
    resident_bytes: int = 0
    open_files: int = 0
    most_files: int = 0
    read_bytes: int = 0
    written_bytes: int = 0


class ProcessMetrics:
    """Reads the numbers before each reading of the metrics."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._booted_s = 0.0
        self._last = ProcessNumbers()

    def register(self, metrics: Metrics) -> None:
        """Register the metrics, if the system has the files."""
        try:
            self._booted_s = float(_numbers(self._files.read(OF_THE_SYSTEM), b" ")[b"btime"])
            self._last = self._read()
        except (OSError, KeyError):
            return
        metrics.surveys.append(self._survey)
        metrics.gauge("process.cpu.seconds", self._reader(lambda last: last.cpu_s))
        metrics.gauge("process.start.time.seconds", self._reader(lambda last: last.start_s))
        metrics.gauge("process.virtual.memory.bytes", self._reader(lambda last: last.virtual_bytes))
        metrics.gauge("process.resident.memory.bytes", self._reader(lambda last: last.resident_bytes))
        metrics.gauge("process.open.fds", self._reader(lambda last: last.open_files))
        metrics.gauge("process.max.fds", self._reader(lambda last: last.most_files))
        metrics.gauge("disk.read.bytes", self._reader(lambda last: last.read_bytes))
        metrics.gauge("disk.written.bytes", self._reader(lambda last: last.written_bytes))

    def _reader(self, number: Callable[[ProcessNumbers], float]) -> Callable[[], float]:
        return lambda: number(self._last)

    def _survey(self) -> Steps[None]:
        self._last = self._read()
        yield

    def _read(self) -> ProcessNumbers:
        """Raises OSError on a system without `/proc`."""
        files = self._files
        fields = files.read(STAT).rpartition(b")")[2].split()
        try:
            io = _numbers(files.read(IO), b": ")
        except OSError:  # a kernel without it, or a container that hides it
            io = {}
        return ProcessNumbers(
            (int(fields[_USER]) + int(fields[_SYSTEM])) / TICKS_PER_S,
            self._booted_s + int(fields[_START]) / TICKS_PER_S,
            int(fields[_VIRTUAL]),
            int(fields[_RESIDENT]) * resource.getpagesize(),
            # The size is the number of files since Linux 6.2, and 0 before
            files.size(OPEN_FILES) or len(files.list(OPEN_FILES)),
            resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            int(io.get(_READ, 0)),
            int(io.get(_WRITTEN, 0)),
        )


def _numbers(text: bytes, separator: bytes) -> dict[bytes, bytes]:
    """The lines of a file by their first words."""
    lines = (line.partition(separator) for line in text.splitlines())
    return {name: value for name, _, value in lines}
