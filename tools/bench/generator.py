"""Compiles the C programs beside this file and runs them."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tools.bench.client import BenchError

_HERE = Path(__file__).parent
PROGRAMS = {"load": ["load.c", "answers.c", "histogram.c"], "echo": ["echo.c"]}
_FLAGS = ["-O2", "-std=c11", "-Wall", "-Wextra"]


@dataclass(frozen=True, slots=True)
class Load:
    """One run of the load generator; see `struct settings` in load.h. Zero means: no such limit."""

    api: int
    version: int
    templates: Path
    connections: int
    in_flight: int = 1
    seconds: float = 0.0
    requests: int = 0
    byte_limit: int = 0
    wrap: bool = False
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
            "wrap": int(self.wrap),
        }
        if self.expected is not None:
            fields["expected"] = self.expected
        return [f"{name}={value}" for name, value in fields.items()]


class LoadResult(NamedTuple):
    """What the load generator prints. `record_bytes`: of whole record batches, without the cut end of a fetch."""

    requests: int
    record_bytes: int
    bytes_sent: int
    bytes_received: int
    seconds: float
    p50_us: float
    p99_us: float
    max_us: float
    generator_cpu_seconds: float


def compile_program(name: str, directory: Path) -> Path:
    """The program in `directory`, compiled unless it is newer than its sources."""
    sources = [_HERE / source for source in PROGRAMS[name]]
    program = directory / name
    newest = max(path.stat().st_mtime for path in _HERE.glob("*.[ch]"))
    if not program.exists() or program.stat().st_mtime < newest:
        directory.mkdir(parents=True, exist_ok=True)
        command = ["cc", *_FLAGS, "-o", str(program), *map(str, sources)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BenchError(f"{name} does not compile:\n{done.stderr}")
    return program


def run_load(program: Path, load: Load, port: int) -> LoadResult:
    """Runs to its end; BenchError with the generator's own sentence where an answer was wrong."""
    done = subprocess.run([program, *load.arguments(port)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(done.stderr.strip() or f"the load generator ended with {done.returncode}")
    return LoadResult(**json.loads(done.stdout))
