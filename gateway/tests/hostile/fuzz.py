"""Coverage-guided fuzzing of what reads the bytes of unknown clients, with atheris (libFuzzer).

    python -m headgate.gateway.tests.hostile.fuzz run  until it is stopped; libFuzzer options follow
    python -m headgate.gateway.tests.hostile.fuzz replay build/fuzz/crash-...  a finding, without atheris

An input is the number of a subject (`subjects.py`), one byte, and then its bytes.
"""

from __future__ import annotations

import argparse
import inspect
import logging
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from headgate.gateway.network import connection, logins, metrics_access
from headgate.gateway.network.admission import proxy_header
from headgate.gateway.security.sasl import bearer_tokens, jwks, oauthbearer, plain, scram, server_exchange
from headgate.gateway.security.tls import distinguished_name
from headgate.gateway.tests.hostile.subjects import MOST_BYTES, SUBJECTS

FOUND: Final = Path(__file__).resolve().parents[3] / "build" / "fuzz"
INSTRUMENTED: Final = (
    *(connection, logins, metrics_access, proxy_header, distinguished_name),
    *(bearer_tokens, jwks, oauthbearer, plain, scram, server_exchange),
)
OPTIONS: Final = (f"-max_len={MOST_BYTES}", "-timeout=20", "-rss_limit_mb=1000")


def try_input(data: bytes) -> None:
    """What is done with every input; any exception is a finding."""
    names = list(SUBJECTS)
    name = names[data[0] % len(names)] if data else names[0]
    try:
        SUBJECTS[name].read(data[1:])
    except BaseException:
        print(f"found: {name} {data[1:].hex()}", file=sys.stderr)
        raise


def seeds() -> Iterator[bytes]:
    for number, subject in enumerate(SUBJECTS.values()):
        for good in subject.good:
            yield bytes((number,)) + good


def instrument(atheris: Any) -> None:
    """Have all functions of the modules tell their coverage."""
    for module in INSTRUMENTED:
        for value in vars(module).values():
            for function in vars(value).values() if inspect.isclass(value) else [value]:
                if isinstance(function, types.FunctionType) and function.__module__ == module.__name__:
                    atheris.instrument_func(function)


def run(inputs: Path, found: Path, options: Sequence[str]) -> None:
    """Run libFuzzer, which ends the process. `inputs` is filled by it, `found` gets what should not be."""
    import atheris

    instrument(atheris)
    for directory in (inputs, found):
        directory.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()):
        (inputs / f"seed-{number:05}").write_bytes(seed)
    atheris.Setup([sys.argv[0], *OPTIONS, f"-artifact_prefix={found}/", *options, str(inputs)], try_input)
    atheris.Fuzz()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m headgate.gateway.tests.hostile.fuzz")
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="look for bytes that should not be; options of libFuzzer may follow")
    running.add_argument("--inputs", type=Path, default=FOUND / "strangers")
    running.add_argument("--found", type=Path, default=FOUND)
    commands.add_parser("replay", help="try files again").add_argument("files", type=Path, nargs="+")
    chosen, options = parser.parse_known_args(arguments)
    logging.disable()
    if chosen.command == "run":
        run(chosen.inputs, chosen.found, options)
    for path in chosen.files:
        try_input(path.read_bytes())
        print(f"{path} is as it should be")


if __name__ == "__main__":
    main(sys.argv[1:])
