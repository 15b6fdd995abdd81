"""Compiles and runs the C programs of `programs/`."""

import json
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from headgate.tools.bench.requests.client import BenchError
from headgate.tools.bench.requests.templates import Template, write_templates

_PROGRAMS = Path(__file__).parents[1] / "programs"
_SHARED = ["common.c", "stream.c", "answers.c", "histogram.c"]
PROGRAMS = {
    "load": ["load.c", *_SHARED],
    "latency": ["latency.c", *_SHARED],
    "bystander": ["bystander.c", *_SHARED],
    "transactions": ["transactions.c", *_SHARED],
    "echo": ["echo.c"],
    "gauge": ["gauge.c"],
}
TLS_LOAD = "load-tls"
_TLS_FLAGS = ["-DBENCH_TLS", "-lssl", "-lcrypto"]
"""`load` with OpenSSL: only rows over TLS need the program, so that the others need no library."""
_FLAGS = ["-O2", "-std=c11", "-Wall", "-Wextra", "-pthread"]


@dataclass(frozen=True, slots=True)
class GeneratorRun:
    """One run of a generator; the fields are the settings of the program."""

    program: ClassVar[str]

    def arguments(self, port: int) -> list[str]:
        """The command line: `name=value` for each setting, with 0 and 1 for false and true; None is left out."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return [
            f"port={port}",
            *(f"{name}={int(value) if isinstance(value, bool) else value}" for name, value in given.items()),
        ]


@dataclass(frozen=True, slots=True)
class Load(GeneratorRun):
    """One run of the load generator; see `struct settings` in load.h. A limit of zero is no limit."""

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
    committed: bool = False
    expected: Path | None = None


@dataclass(frozen=True, slots=True)
class TlsLoad(Load):
    """The same over TLS."""

    program: ClassVar[str] = TLS_LOAD
    tls: bool = True


@dataclass(frozen=True, slots=True)
class Latency(GeneratorRun):
    """One run of the end-to-end generator: records at a steady rate, one in each request; see latency.c."""

    program: ClassVar[str] = "latency"
    produce_version: int
    fetch_version: int
    templates: Path
    rate: int
    messages: int


@dataclass(frozen=True, slots=True)
class Bystander(GeneratorRun):
    """One run of the bystander: a Produce every `interval_us` for `seconds`; see bystander.c."""

    program: ClassVar[str] = "bystander"
    version: int
    templates: Path
    interval_us: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Transactions(GeneratorRun):
    """One run of transactions: `steps` requests for each, of the producers in the file; see transactions.c.

    Without steps the producers only get their ids.
    """

    program: ClassVar[str] = "transactions"
    templates: Path
    producers: int
    steps: int = 0
    seconds: float = 0.0
    transactions: int = 0
    """The number of transactions of each producer; 0: no limit."""
    interval_us: int = 0
    """The time between the begins of two transactions of a producer; 0: one follows the other."""


class LoadResult(NamedTuple):
    """The result of a generator or a client. `record_bytes`: without batches that a fetch has cut."""

    requests: int
    record_bytes: int
    seconds: float
    p50_us: float = 0.0
    p99_us: float = 0.0
    max_us: float = 0.0
    mean_us: float = 0.0
    bytes_sent: int = 0
    bytes_received: int = 0
    transaction_p50_us: float = 0.0
    transaction_p99_us: float = 0.0


def compile_program(name: str, directory: Path) -> Path:
    """The path of the program in `directory`; compiles the program if a source is newer."""
    sources = [_PROGRAMS / source for source in PROGRAMS["load" if name == TLS_LOAD else name]]
    program = directory / name
    newest = max(path.stat().st_mtime for path in _PROGRAMS.glob("*.[ch]"))
    if not program.exists() or program.stat().st_mtime < newest:
        directory.mkdir(parents=True, exist_ok=True)
        libraries = _TLS_FLAGS if name == TLS_LOAD else []
        command = ["cc", *_FLAGS, "-o", str(program), *map(str, sources), *libraries]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 and libraries and ("openssl/" in done.stderr or "-lssl" in done.stderr):
            raise BenchError("the rows over TLS need OpenSSL's headers: `apt-get install libssl-dev`")
        if done.returncode != 0:
            raise BenchError(f"{name} does not compile:\n{done.stderr}")
    return program


OnProcess = Callable[[int], object]
"""Called with a generator's process id."""


def run_load(
    directory: Path, load: GeneratorRun, port: int, begin: OnProcess = lambda _: None, end: OnProcess = lambda _: None
) -> LoadResult:
    """Run a generator to its end. Raises BenchError with the generator's own sentence about a wrong answer.

    `begin` is called when every connection is open and has one answer, `end` before the first connection is closed.
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
        error = process.stderr.read().strip()
    if process.returncode != 0 or not result:
        raise BenchError(error or f"the generator {program.name} ended with {process.returncode}")
    return LoadResult(**json.loads(result))


def run_templates(directory: Path, load: Load | Latency, templates: Iterable[Template], port: int) -> LoadResult:
    """`run_load` with templates that are on the disk only meanwhile."""
    write_templates(load.templates, templates)
    try:
        return run_load(directory, load, port)
    finally:
        load.templates.unlink()
