"""`headgate console`: serve the console's page, for a cluster of Headgate or of any Kafka since 0.11.

Exit codes: 0 stopped by SIGTERM or SIGINT, 1 it cannot listen, 2 called wrongly.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headgate.protocol.security.client_security import InvalidClientSecurity
from headgate.tools.client.security_option import read_properties
from headgate.tools.console import listening, listening_tls
from headgate.tools.console.broker_http import BadHttpAddress, BrokerHttp, parse_http_addresses
from headgate.tools.console.cluster_access import ClusterAccess
from headgate.tools.console.listening import BadAddress
from headgate.tools.output import printable

if TYPE_CHECKING:
    from headgate.tools.console.server import ListeningSockets

FAILED, MISUSED = 1, 2
EXTRA: Final = "headgate[console]"
CHANGES_LOGGER: Final = "headgate.console.changes"
"""Logs who has changed what."""


def main(arguments: Sequence[str]) -> int:
    """Run `headgate console <arguments>`; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        from headgate.tools.console import server
        from headgate.tools.console.messages import schema_options
    except ImportError as error:
        return _fail(f"{error.name} is not installed; pip install '{EXTRA}'", FAILED)
    try:
        properties = {} if options.command_config is None else read_properties(options.command_config)
    except InvalidClientSecurity as error:
        return _fail(str(error), MISUSED)
    try:
        schema_options.use(options.schemas, options.descriptor_set)
    except ValueError as error:
        return _fail(str(error), MISUSED)
    try:
        sockets, name, is_loopback = _sockets(options)
    except BadAddress as error:
        return _fail(str(error), FAILED)
    try:
        http = BrokerHttp(options.http)
        access = ClusterAccess(options.bootstrap_server, properties, is_loopback=is_loopback, http=http)
    except InvalidClientSecurity as error:
        sockets.close()
        return _fail(str(error), MISUSED)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    if options.exit_with_parent:
        _exit_with_parent()
    logging.getLogger(CHANGES_LOGGER).setLevel(logging.INFO)
    ready = f"headgate console ready {name}"
    server.run(access, sockets, lambda: print(ready, flush=True), may_write=options.write)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="headgate console", description="Serve a page about a cluster of Kafka.")
    parser.add_argument(
        "--bootstrap-server", default="127.0.0.1:9092", metavar="host:port", help="default: 127.0.0.1:9092"
    )
    parser.add_argument(
        "--command-config",
        metavar="file",
        help="Kafka's client properties with TLS and login of the connection; SASL without sasl.jaas.config: the page"
        " asks each visitor for a login",
    )
    parser.add_argument(
        "--schemas",
        metavar="folder|http://registry",
        help="schemas of Avro: a folder with <id>.avsc and <subject>.avsc, or a registry with Confluent's API",
    )
    parser.add_argument(
        "--descriptor-set",
        metavar="file",
        help="message types of Protobuf: protoc --include_imports --descriptor_set_out=file",
    )
    parser.add_argument(
        "--listen",
        type=_address,
        default=listening.parse(listening.DEFAULT_ADDRESS),
        metavar="address",
        help=f"where to serve the page; default: {listening.DEFAULT_ADDRESS}",
    )
    parser.add_argument(
        "--http",
        type=_http_addresses,
        default=(),
        metavar="address,...",
        help="the HTTP listeners of Headgate's brokers, as in http://127.0.0.1:9644: for live plots, progress, clients",
    )
    parser.add_argument(
        "--listen-config",
        metavar="file",
        help="ssl.* of an https:// address, as of a broker's listener: ssl.keystore.type, ssl.keystore.location, ...",
    )
    parser.add_argument("--write", action="store_true", help="visitors may change the cluster; default: they only read")
    # Sockets that `headgate serve` holds
    parser.add_argument("--descriptor", type=int, action="append", help=argparse.SUPPRESS)
    parser.add_argument("--exit-with-parent", action="store_true", help=argparse.SUPPRESS)
    return parser


def _address(text: str) -> listening.ConsoleAddress:
    try:
        return listening.parse(text)
    except BadAddress as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _http_addresses(text: str) -> tuple[str, ...]:
    try:
        return parse_http_addresses(text)
    except BadHttpAddress as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _sockets(options: argparse.Namespace) -> tuple[ListeningSockets, str, bool]:
    """The listening sockets, their address, and whether only this machine reaches them. Raises BadAddress."""
    from headgate.tools.console.server import ListeningSockets

    tls = None
    if options.descriptor is not None:
        listeners = [listening.inherited(descriptor) for descriptor in options.descriptor]
    else:
        tls = listening_tls.server_context(options.listen_config) if options.listen.has_tls else None
        listeners = [listening.listen(options.listen)]
    addresses = [listener.getsockname()[:2] for listener in listeners]
    others = [host for host, _ in addresses if not listening.is_loopback(host)]
    if tls is None and others:
        for listener in listeners:
            listener.close()
        raise BadAddress(f"{others[0]} is reached from other machines, so the console needs TLS there")
    sockets = ListeningSockets(listeners) if tls is None else ListeningSockets((), listeners, tls)
    names = [str(listening.ConsoleAddress(host, port, has_tls=tls is not None)) for host, port in addresses]
    return sockets, ",".join(names), not others


def _exit_with_parent() -> None:
    """End this process when the parent closes its standard input, or dies."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


def _fail(sentence: str, code: int) -> int:
    print(f"headgate console: {printable(sentence)}", file=sys.stderr)
    return code
