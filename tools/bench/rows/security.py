"""Rows of security: TLS, handshakes and logins beside Kafka; ACLs and quotas beside a Headgate without them.

A connection of `handshake` and `login` is new each time, with a full handshake or a whole login. Their client is this
process: the figure is the broker's CPU time, so the client need not be fast.
"""

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from headgate.tools.bench.measuring.brokers import HEADGATE, HeadgateLauncher
from headgate.tools.bench.measuring.figures import Sample
from headgate.tools.bench.measuring.generator import LoadResult
from headgate.tools.bench.measuring.secure_listeners import client_context
from headgate.tools.bench.measuring.target import Target
from headgate.tools.bench.requests import frames, security_frames
from headgate.tools.bench.requests.client import BenchError, exchange
from headgate.tools.bench.requests.security_frames import DELETE, DESCRIBE, LITERAL, PREFIXED, READ, WRITE, Acl
from headgate.tools.bench.rows.row import Row, Run

WITHOUT: Final = "without"
"""The leg without the authorizer, or without quotas."""
ACL_COUNT: Final = 10_000
_ACLS_AT_ONCE: Final = 1_000
_CLIENTS: Final = 2
_USER, _PASSWORD = "bench", "bench-secret"
_LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class NewConnectionsRow(Row):
    """Clients that connect, do `greet` and disconnect, one connection after the other. `connections`: of clients."""

    def greeting(self, target: Target) -> tuple[int, Callable[[socket.socket], None]]:
        """The port, and what a client does on a new connection before it disconnects."""
        raise NotImplementedError

    @contextmanager
    def opened(self, target: Target) -> Iterator[Run]:
        port, greet = self.greeting(target)

        def count(deadline: float) -> int:
            done = 0
            while time.perf_counter() < deadline:
                with socket.create_connection((_LOOPBACK, port)) as connection:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    greet(connection)
                done += 1
            return done

        def work(seconds: float) -> LoadResult:
            began = time.perf_counter()
            with ThreadPoolExecutor(self.connections) as clients:
                counts = list(clients.map(count, [began + seconds] * self.connections))
            return LoadResult(sum(counts), 0, time.perf_counter() - began)

        def run(seconds: float) -> Sample:
            return target.measure(lambda: work(seconds))

        yield run


@dataclass(frozen=True, slots=True)
class HandshakeRow(NewConnectionsRow):
    """Full handshakes of TLS 1.3 with a certificate of ECDSA P-256, each with one ApiVersions after it."""

    def greeting(self, target: Target) -> tuple[int, Callable[[socket.socket], None]]:
        context = client_context()

        def greet(connection: socket.socket) -> None:
            with context.wrap_socket(connection) as encrypted:
                exchange(encrypted, frames.api_versions())

        return target.secure_ports.tls, greet


@dataclass(frozen=True, slots=True)
class LoginRow(NewConnectionsRow):
    """Logins by SCRAM-SHA-256 with 4,096 iterations, without TLS."""

    def greeting(self, target: Target) -> tuple[int, Callable[[socket.socket], None]]:
        target.broker.client.call(security_frames.add_user(_USER, _PASSWORD))
        login = security_frames.ScramLogin(_USER, _PASSWORD)
        return target.secure_ports.login, login.log_in


@dataclass(frozen=True, slots=True)
class BesideRow(Row):
    """The load of `under` on a Headgate with something, and on one without it.

    Both are started alike for this row, with the same hashes: two brokers without anything set, one of them of the run,
    differed by 1 to 3 percent. `settings`: those of the first one. `prepare(target)` is called when it runs.
    """

    under: Row = field(kw_only=True)
    settings: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[Target], None] = field(kw_only=True)

    def opened(self, target: Target) -> AbstractContextManager[Run]:
        return self.under.opened(target)

    def runs(self, targets: Sequence[Target], stack: ExitStack) -> Mapping[str, Run]:
        for target in targets:
            if target.name == HEADGATE and isinstance(target.launcher, HeadgateLauncher):
                beside = stack.enter_context(self._started(target, target.launcher, HEADGATE, self.settings))
                without = stack.enter_context(self._started(target, target.launcher, WITHOUT, {}))
                self.prepare(beside)
                return {each.name: stack.enter_context(self.opened(each)) for each in (beside, without)}
        return {}

    @contextmanager
    def _started(
        self, target: Target, launcher: HeadgateLauncher, name: str, settings: Mapping[str, str]
    ) -> Iterator[Target]:
        scratch = target.scratch / self.name / name
        alike = launcher.with_settings(settings)
        alike.variables = _SAME_HASHES
        broker = replace(alike.start(scratch / "broker"), name=name)
        try:
            yield replace(target, broker=broker, scratch=scratch, kept={}, many=[])
        finally:
            broker.stop()


_SAME_HASHES: Final = {"PYTHONHASHSEED": "0"}
ACL_SETTINGS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:nobody",
    # ACLs of topics decide about topics; what prepares the run needs no login
    "allow.everyone.if.no.acl.found": "true",
}
NEVER_BITES: Final = 1e12
"""Bytes a second."""


def create_acls(target: Target) -> None:
    """Create ACL_COUNT ACLs: those of the bench's client on its topics, and many of other users on other topics."""
    own = [Acl("bench-", PREFIXED, "User:ANONYMOUS", operation) for operation in (READ, WRITE, DELETE, DESCRIBE)]
    others = [
        Acl(f"topic-{number}", LITERAL, f"User:user-{number % 100}", READ) for number in range(ACL_COUNT - len(own))
    ]
    acls = own + others
    for start in range(0, len(acls), _ACLS_AT_ONCE):
        reader = target.broker.client.call(security_frames.create_acls(acls[start : start + _ACLS_AT_ONCE]))
        reader.number("i")  # throttle time
        for _ in range(reader.count()):
            error, reason = reader.number("h"), reader.string()
            if error:
                raise BenchError(f"CreateAcls: error code {error}: {reason}")


def set_byte_quotas(target: Target) -> None:
    """Set quotas of bytes that no client reaches."""
    _set_quotas(target, {"producer_byte_rate": NEVER_BITES, "consumer_byte_rate": NEVER_BITES})


def set_all_quotas(target: Target) -> None:
    """The same, and a quota of time."""
    bounds = {"producer_byte_rate": NEVER_BITES, "consumer_byte_rate": NEVER_BITES, "request_percentage": 1e7}
    _set_quotas(target, bounds)


def _set_quotas(target: Target, bounds: dict[str, float]) -> None:
    reader = target.broker.client.call(security_frames.set_quotas_of_all_users(bounds))
    reader.number("i")  # throttle time
    reader.count()
    error, reason = reader.number("h"), reader.string()
    if error:
        raise BenchError(f"AlterClientQuotas: error code {error}: {reason}")
