"""`headgate health`: whether a broker is alive, started or ready, as probes of containers and load balancers ask.

Exit codes: 0 it is, 1 it is not, or does not answer, 2 called wrongly.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from headgate.tools.client.client import ClientError, parse_addresses
from headgate.tools.client.security_option import add_security_option
from headgate.tools.metrics import DEFAULT_LISTENER, FAILED, MISUSED, ReadError, read
from headgate.tools.output import printable, seconds

PROBES: Final = {"ready": "/readyz", "started": "/startupz", "live": "/livez"}
_ANSWERS: Final = (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE)


def main(arguments: Sequence[str]) -> int:
    """Run `headgate health <arguments>`; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        host, port = parse_addresses(options.listener.rpartition("://")[2].partition("/")[0])[0]
    except ClientError as error:
        return _fail(f"--listener: {error}", MISUSED)
    try:
        path = PROBES[options.probe]
        text = read(host, port, options.timeout, options.security, path=path, accepted=_ANSWERS)
        answer = json.loads(text)
        unmet = [condition for condition in answer["conditions"] if not condition["is_met"]]
    except ReadError as error:
        return _fail(str(error), FAILED)
    except (ValueError, KeyError, TypeError):
        return _fail(f"{host}:{port} answers with no health; is it an HTTP listener of Headgate?", FAILED)
    if not unmet:
        print(options.probe)
        return 0
    for condition in unmet:
        print(f"not {options.probe}: waits for {printable(_waits_for(condition))}")
    return FAILED


def _waits_for(condition: dict[str, Any]) -> str:
    seconds_left = condition.get("seconds_left")
    return f"{condition['waits_for']}{f', {seconds_left} s left' if seconds_left else ''}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headgate health",
        description="Ask a broker for its health once, where its setting headgate.http.listeners says.",
    )
    parser.add_argument("--probe", choices=tuple(PROBES), default="ready", help="what to ask for; default: ready")
    parser.add_argument(
        "--listener", default=DEFAULT_LISTENER, metavar="host:port", help=f"default: {DEFAULT_LISTENER}"
    )
    add_security_option(parser, of="a listener beyond the loopback interface")
    parser.add_argument("--timeout", type=seconds, default=5.0, metavar="seconds", help="default: 5")
    return parser


def _fail(sentence: str, code: int) -> int:
    print(f"headgate health: {printable(sentence)}", file=sys.stderr)
    return code
