"""`headgate metrics`: read the metrics of a broker once, and print them as they are.

The broker serves them where `headgate.http.listeners` says. Exit codes: 0 done, 1 it failed, 2 called wrongly.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import sys
from collections.abc import Collection, Sequence
from typing import Final

from headgate.protocol.security.client_security import ClientSecurity, InvalidClientSecurity
from headgate.tools.client.client import PLAINTEXT, ClientError, parse_addresses
from headgate.tools.client.security_option import add_security_option
from headgate.tools.output import printable, seconds

FAILED, MISUSED = 1, 2
DEFAULT_LISTENER = "127.0.0.1:9644"
METRICS: Final = "/metrics"
MAX_BYTES = 64 << 20
"""A larger answer is none of a broker."""
_REFUSALS: Final = {
    401: "it does not know this user: see user and password, or the certificate, of --command-config",
    403: "the user needs Describe: headgate acls add --principal User:NAME --operation describe --cluster",
}


class ReadError(Exception):
    """The listener could not be read; the text says why, and what to do."""


def main(arguments: Sequence[str]) -> int:
    """Run `headgate metrics <arguments>`; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        host, port = parse_addresses(_address(options.listener))[0]
    except ClientError as error:
        print(f"headgate metrics: --listener: {printable(str(error))}", file=sys.stderr)
        return MISUSED
    try:
        text = read(host, port, options.timeout, options.security)
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
        " The broker serves them where its setting headgate.http.listeners says.",
    )
    parser.add_argument(
        "--listener",
        default=DEFAULT_LISTENER,
        metavar="host:port",
        help=f"the address, as in the setting or without http://; default: {DEFAULT_LISTENER}",
    )
    add_security_option(parser, of="a listener beyond the loopback interface")
    parser.add_argument("--timeout", type=seconds, default=10.0, metavar="seconds", help="default: 10")
    return parser


def _address(listener: str) -> str:
    """`host:port` of an address as in the setting, or of one without a scheme. TLS is what `--command-config` says."""
    return listener.partition("://")[2].partition("/")[0] if "://" in listener else listener


def read(
    host: str,
    port: int,
    timeout_s: float,
    security: ClientSecurity = PLAINTEXT,
    *,
    path: str = METRICS,
    accepted: Collection[int] = (http.HTTPStatus.OK,),
) -> str:
    """The metrics that are served there, or the text at another path of the listener, with one of these statuses.

    Raises ReadError.
    """
    address = f"{host}:{port}"
    connection = _connection(host, port, timeout_s, security)
    try:
        connection.request("GET", path, headers=_headers(security))
        response = connection.getresponse()
        body = response.read(MAX_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        raise ReadError(_explain(error, address, security)) from error
    finally:
        connection.close()
    if response.status not in accepted:
        reason = _REFUSALS.get(response.status, "is it an HTTP listener of Headgate?")
        raise ReadError(f"{address} answers {response.status} {response.reason}; {reason}")
    if len(body) > MAX_BYTES:
        raise ReadError(f"{address} answers more than {MAX_BYTES >> 20} MiB; is it an HTTP listener of Headgate?")
    return body.decode("utf-8", "replace")


def _connection(host: str, port: int, timeout_s: float, security: ClientSecurity) -> http.client.HTTPConnection:
    if not security.has_tls:
        return http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=security.ssl_context())
    except InvalidClientSecurity as error:
        raise ReadError(str(error)) from None


def _headers(security: ClientSecurity) -> dict[str, str]:
    """The user by HTTP's Basic authentication (RFC 7617), over TLS alone."""
    if not security.has_login:
        return {}
    if security.password is None or not security.has_tls:
        raise ReadError("the HTTP listener takes a user and a password, of PLAIN or SCRAM, over SASL_SSL alone")
    user, password = security.password
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password.text}'.encode()).decode()}"}


def _explain(error: Exception, address: str, security: ClientSecurity) -> str:
    if security.has_tls and isinstance(error, OSError):
        from headgate.tools.client import tls_errors

        sentence = tls_errors.explain(error, address, shows_certificate=security.shows_certificate)
        if sentence is not None:
            return sentence
    if isinstance(error, http.client.RemoteDisconnected) and not security.has_tls:
        return f"{address} hung up; a listener beyond the loopback interface speaks TLS: give --command-config"
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return (
        f"no metrics at {address} ({reason}); start the broker with --override"
        f" headgate.http.listeners=http://{address}, or name the address that it has"
    )
