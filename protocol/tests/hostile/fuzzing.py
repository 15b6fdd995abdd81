"""What the fuzzers (`fuzz.py`) share: a run of atheris (libFuzzer), its directories, and its command line."""

from __future__ import annotations

import argparse
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

FOUND: Final = Path(__file__).resolve().parents[3] / "build" / "fuzz"


class Fuzzer(NamedTuple):
    """What a run needs. `try_input` raises for a finding; `instrument(atheris)` has code tell its coverage."""

    try_input: Callable[[bytes], None]
    seeds: Callable[[], Iterator[bytes]]
    instrument: Callable[[Any], None]
    most_bytes: int

    def run(self, inputs: Path, found: Path, options: Sequence[str]) -> None:
        """Run libFuzzer, which ends the process. `inputs` is filled by it, `found` gets what should not be."""
        import atheris

        self.instrument(atheris)
        for directory in (inputs, found):
            directory.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(self.seeds()):
            (inputs / f"seed-{number:05}").write_bytes(seed)
        # A run that hangs, or takes a gigabyte, is a finding
        limits = (f"-max_len={self.most_bytes}", "-timeout=20", "-rss_limit_mb=1000")
        atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={found}/", *options, str(inputs)], self.try_input)
        atheris.Fuzz()


def instrument_functions(modules: Iterable[types.ModuleType], atheris: Any) -> None:
    """Have all functions of the modules tell their coverage."""
    for module in modules:
        for value in vars(module).values():
            for function in vars(value).values() if inspect.isclass(value) else [value]:
                if isinstance(function, types.FunctionType) and function.__module__ == module.__name__:
                    atheris.instrument_func(function)


def command_line(
    module: str, inputs: str
) -> tuple[argparse.ArgumentParser, argparse._SubParsersAction[argparse.ArgumentParser]]:
    """The parser with the commands `run` and `replay`, and its commands. `inputs`: a directory in `FOUND`."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="look for bytes that should not be; options of libFuzzer may follow")
    running.add_argument("--inputs", type=Path, default=FOUND / inputs)
    running.add_argument("--found", type=Path, default=FOUND)
    commands.add_parser("replay", help="try files again").add_argument("files", type=Path, nargs="+")
    return parser, commands
