"""Which protocol a port speaks, by the first bytes of its answers.

The first question is ApiVersions 0, which every Kafka since 0.10 answers before a login. A port that hangs up or stays
silent is asked in other languages: a hello of TLS, ZooKeeper's `srvr`, a request of HTTP. Each on its own connection.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterator
from enum import Enum
from typing import Final

from headgate.tools.doctor.check_result import OK, WRONG, CheckResult

_CLIENT: Final = b"headgate-doctor"
_CORRELATION: Final = 0x6865_6164
_API_VERSIONS: Final = 18
_MAX_ANSWER: Final = 1 << 12
_LARGEST_FRAME: Final = 1 << 24
_SHOWN: Final = 24
_ZOOKEEPER: Final = (b"Zookeeper version", b"srvr is not executed", b"This ZooKeeper instance")


class PortProtocol(Enum):
    """What a port speaks. CLOSED and SILENT: it answers in no language that was tried."""

    KAFKA = "Kafka"
    TLS = "TLS"
    HTTP = "HTTP"
    ZOOKEEPER = "ZooKeeper"
    OTHER = "another protocol"
    CLOSED = "nothing: it hangs up"
    SILENT = "nothing: it stays silent"


def api_versions_request() -> bytes:
    """ApiVersions 0 with its frame."""
    head = struct.pack(">hhih", _API_VERSIONS, 0, _CORRELATION, len(_CLIENT)) + _CLIENT
    return struct.pack(">i", len(head)) + head


def classify(answer: bytes | None) -> PortProtocol:
    """The protocol of the first bytes; None: no answer in time."""
    if answer is None:
        return PortProtocol.SILENT
    if not answer:
        return PortProtocol.CLOSED
    if answer[0] in {0x15, 0x16} and answer[1:2] == b"\x03":
        return PortProtocol.TLS
    if answer.startswith(b"HTTP/"):
        return PortProtocol.HTTP
    if answer.startswith(_ZOOKEEPER):
        return PortProtocol.ZOOKEEPER
    if len(answer) >= 8:
        size, correlation = struct.unpack_from(">ii", answer)
        if 4 <= size <= _LARGEST_FRAME and correlation == _CORRELATION:
            return PortProtocol.KAFKA
    return PortProtocol.OTHER


def probe(host: str, port: int, timeout_s: float) -> tuple[PortProtocol, bytes]:
    """The protocol of a port, and the first bytes of its answer. Raises OSError if it accepts no connection."""
    answer = _exchange(host, port, api_versions_request(), timeout_s)
    found = classify(answer)
    if found not in {PortProtocol.CLOSED, PortProtocol.SILENT}:
        return found, answer or b""
    if speaks_tls(host, port, timeout_s):
        return PortProtocol.TLS, b""
    for question in (b"srvr", b"GET / HTTP/1.0\r\n\r\n"):
        other = _exchange(host, port, question, timeout_s)
        if classify(other) not in {PortProtocol.CLOSED, PortProtocol.SILENT}:
            return classify(other), other or b""
    return found, b""


def speaks_tls(host: str, port: int, timeout_s: float) -> bool:
    """Whether a port answers a hello of TLS, with whatever certificate. Raises OSError as `probe`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, port), timeout_s) as plain:
        try:
            context.wrap_socket(plain, server_hostname=host).close()
        except ssl.SSLError as error:
            return "ALERT" in (error.reason or "")
        except (OSError, ValueError):
            return False
    return True


def _exchange(host: str, port: int, question: bytes, timeout_s: float) -> bytes | None:
    """The first bytes of the answer; none if the peer hangs up; None without an answer in time."""
    with socket.create_connection((host, port), timeout_s) as connection:
        try:
            connection.sendall(question)
            return connection.recv(_MAX_ANSWER)
        except TimeoutError:
            return None
        except OSError:
            return b""


def check_protocol(address: str, spoken: PortProtocol, beginning: bytes, *, wants_tls: bool) -> CheckResult:
    """Whether a port speaks what the client's `security.protocol` wants."""
    cures = dict(_cures(wants_tls=wants_tls))
    if spoken is (PortProtocol.TLS if wants_tls else PortProtocol.KAFKA):
        return CheckResult("protocol", OK, f"{address} speaks {'Kafka over TLS' if wants_tls else 'Kafka'}")
    found = f"{address} speaks {spoken.value}"
    if spoken is PortProtocol.KAFKA:
        found += " without TLS"
    if spoken is PortProtocol.OTHER:
        found += f"; its answer begins with {_shown(beginning)}"
    return CheckResult("protocol", WRONG, found, cures[spoken])


def _cures(*, wants_tls: bool) -> Iterator[tuple[PortProtocol, str]]:
    yield PortProtocol.KAFKA, "set security.protocol=PLAINTEXT or SASL_PLAINTEXT, or use the port of a TLS listener"
    yield PortProtocol.TLS, "set security.protocol=SSL or SASL_SSL in the file of --command-config"
    yield PortProtocol.HTTP, "this is the port of a web server, metrics or a proxy: use the port of a Kafka listener"
    yield PortProtocol.ZOOKEEPER, "this is the port of ZooKeeper (2181): clients use the port of a broker (9092)"
    yield PortProtocol.OTHER, "use the port of a Kafka listener"
    silent = "the log of the broker says why; it may be older than Kafka 0.10, be overloaded, or refuse this address"
    yield PortProtocol.CLOSED, silent
    yield PortProtocol.SILENT, silent if not wants_tls else f"{silent}; or the port is no listener of a broker"


def _shown(beginning: bytes) -> str:
    return repr(beginning[:_SHOWN].decode("latin-1"))
