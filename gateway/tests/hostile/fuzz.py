"""Coverage-guided fuzzing of what reads the bytes of unknown clients, with atheris (libFuzzer).

    python -m headgate.gateway.tests.hostile.fuzz run  until it is stopped; libFuzzer options follow
    python -m headgate.gateway.tests.hostile.fuzz replay build/fuzz/crash-...  a finding, without atheris

An input is the number of a subject (`subjects.py`), one byte, and then its bytes.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any, Final

from headgate.gateway.http import access, exchange
from headgate.gateway.network import connection, logins
from headgate.gateway.network.admission import proxy_header
from headgate.gateway.security.sasl import bearer_tokens, jwks, oauthbearer, plain, scram, server_exchange
from headgate.gateway.security.tls import distinguished_name
from headgate.gateway.tests.hostile.subjects import MOST_BYTES, SUBJECTS
from headgate.protocol.tests.hostile.fuzzing import Fuzzer, command_line, instrument_functions

INSTRUMENTED: Final = (
    *(connection, logins, access, exchange, proxy_header, distinguished_name),
    *(bearer_tokens, jwks, oauthbearer, plain, scram, server_exchange),
)


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
    instrument_functions(INSTRUMENTED, atheris)


def main(arguments: list[str]) -> None:
    parser, _ = command_line("headgate.gateway.tests.hostile.fuzz", "strangers")
    chosen, options = parser.parse_known_args(arguments)
    logging.disable()
    if chosen.command == "run":
        Fuzzer(try_input, seeds, instrument, MOST_BYTES).run(chosen.inputs, chosen.found, options)
    elif options:
        parser.error(f"unknown: {' '.join(options)}")
    for path in chosen.files:
        try_input(path.read_bytes())
        print(f"{path} is as it should be")


if __name__ == "__main__":
    main(sys.argv[1:])
