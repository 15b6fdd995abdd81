"""`headgate metrics`: read the metrics of a broker once, and print them as they are.

The broker serves them where `headgate.metrics.listener` says. Exit codes: 0 done, 1 it failed, 2 called wrongly.
"""

from __future__ import annotations

import argparse
import http.client
import sys
from collections.abc import Sequence

from headgate.tools.client.client import ClientError, parse_addresses
from headgate.tools.output import printable, seconds

FAILED, MISUSED = 1, 2
DEFAULT_LISTENER = "127.0.0.1:9404"
MAX_BYTES = 64 << 20
"""A larger answer is none of a broker."""


class ReadError(Exception):
    """The metrics could not be read; the text says why, and what to do."""


def main(arguments: Sequence[str]) -> int:
    """Run `headgate metrics <arguments>`; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        host, port = parse_addresses(options.listener)[0]
    except ClientError as error:
        print(f"headgate metrics: --listener: {printable(str(error))}", file=sys.stderr)
        return MISUSED
    try:
        text = read(host, port, options.timeout)
    except ReadError as error:
        print(f"headgate metrics: {printable(str(error))}", file=sys.stderr)
        return FAILED
    for line in text.splitlines():
        print(printable(line))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headgate metrics",
        description="Read the metrics of a broker once, in the text format of Prometheus."
        " The broker serves them where its setting headgate.metrics.listener says.",
    )
    parser.add_argument(
        "--listener", default=DEFAULT_LISTENER, metavar="host:port", help=f"default: {DEFAULT_LISTENER}"
    )
    parser.add_argument("--timeout", type=seconds, default=10.0, metavar="seconds", help="default: 10")
    return parser


def read(host: str, port: int, timeout_s: float) -> str:
    """The metrics that are served there. Raises ReadError."""
    address = f"{host}:{port}"
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", "/metrics")
        response = connection.getresponse()
        body = response.read(MAX_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ReadError(
            f"no metrics at {address} ({reason}); start the broker with --override"
            f" headgate.metrics.listener={address}, or name another place: --listener host:port"
        ) from error
    finally:
        connection.close()
    if response.status != http.HTTPStatus.OK:
        raise ReadError(f"{address} answers {response.status} {response.reason}; is it the listener of metrics?")
    if len(body) > MAX_BYTES:
        raise ReadError(f"{address} answers more than {MAX_BYTES >> 20} MiB; is it the listener of metrics?")
    return body.decode("utf-8", "replace")
