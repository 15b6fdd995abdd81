"""Compiles the C programs beside this file and runs them."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from headgate.tools.bench.requests.client import BenchError

_PROGRAMS = Path(__file__).parents[1] / "programs"
_SHARED = ["common.c", "answers.c", "histogram.c"]
PROGRAMS = {
    "load": ["load.c", *_SHARED],
    "latency": ["latency.c", *_SHARED],
    "bystander": ["bystander.c", *_SHARED],
    "echo": ["echo.c"],
    "gauge": ["gauge.c"],
}
_FLAGS = ["-O2", "-std=c11", "-Wall", "-Wextra", "-pthread"]


@dataclass(frozen=True, slots=True)
class Load:
    """One run of the load generator; see `struct settings` in load.h. Zero means: no such limit."""

    program: ClassVar[str] = "load"
    api: int
    version: int
    templates: Path
    connections: int
    in_flight: int = 1
    seconds: float = 0.0
    requests: int = 0
    byte_limit: int = 0
    record_bytes: int = 0
    wrap: bool = False
    opening: bool = False
    rotate: bool = False
    expected: Path | None = None

    def arguments(self, port: int) -> list[str]:
        fields = {
            "api": self.api,
            "version": self.version,
            "port": port,
            "templates": self.templates,
            "connections": self.connections,
            "in_flight": self.in_flight,
            "seconds": self.seconds,
            "requests": self.requests,
            "byte_limit": self.byte_limit,
            "record_bytes": self.record_bytes,
            "wrap": int(self.wrap),
            "opening": int(self.opening),
            "rotate": int(self.rotate),
        }
        if self.expected is not None:
            fields["expected"] = self.expected
        return [f"{name}={value}" for name, value in fields.items()]


@dataclass(frozen=True, slots=True)
class Latency:
    """One run of the end-to-end generator: records at a steady rate, one a request; see latency.c."""

    program: ClassVar[str] = "latency"
    produce_version: int
    fetch_version: int
    templates: Path
    rate: int
    messages: int

    def arguments(self, port: int) -> list[str]:
        return [f"port={port}", *(f"{name}={value}" for name, value in asdict(self).items())]


@dataclass(frozen=True, slots=True)
class Bystander:
    """One run of the bystander: a Produce every `interval_us` for so many seconds; see bystander.c."""

    program: ClassVar[str] = "bystander"
    version: int
    templates: Path
    interval_us: int
    seconds: float

    def arguments(self, port: int) -> list[str]:
        return [f"port={port}", *(f"{name}={value}" for name, value in asdict(self).items())]


Generated = Load | Latency | Bystander


class LoadResult(NamedTuple):
    """What a generator or a client says of its run. `record_bytes`: without a batch that a fetch has cut."""

    requests: int
    record_bytes: int
    seconds: float
    p50_us: float = 0.0
    p99_us: float = 0.0
    max_us: float = 0.0
    mean_us: float = 0.0
    bytes_sent: int = 0
    bytes_received: int = 0


def compile_program(name: str, directory: Path) -> Path:
    """The program in `directory`, compiled unless it is newer than its sources."""
    sources = [_PROGRAMS / source for source in PROGRAMS[name]]
    program = directory / name
    newest = max(path.stat().st_mtime for path in _PROGRAMS.glob("*.[ch]"))
    if not program.exists() or program.stat().st_mtime < newest:
        directory.mkdir(parents=True, exist_ok=True)
        command = ["cc", *_FLAGS, "-o", str(program), *map(str, sources)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BenchError(f"{name} does not compile:\n{done.stderr}")
    return program


Around = Callable[[int], object]
"""Called with a generator's process id."""


def run_load(
    directory: Path, load: Generated, port: int, begin: Around = lambda _: None, end: Around = lambda _: None
) -> LoadResult:
    """Runs to its end; BenchError with the generator's own sentence where an answer was wrong.

    `begin` is called when every connection is open and has been answered once, `end` before the first one is closed.
    """
    program = directory / load.program
    command = [str(program), *load.arguments(port), "wait=1"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout and process.stderr  # noqa: PT018
        if process.stdout.readline() == "ready\n":
            begin(process.pid)
            process.stdin.write("\n")
            process.stdin.flush()
        result = process.stdout.readline()
        if result:
            end(process.pid)
        process.stdin.close()
        complaint = process.stderr.read().strip()
    if process.returncode != 0 or not result:
        raise BenchError(complaint or f"the generator {program.name} ended with {process.returncode}")
    return LoadResult(**json.loads(result))
