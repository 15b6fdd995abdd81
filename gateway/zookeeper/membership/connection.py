"""The session of a start: the broker waits for it before it takes the log directories, without an event loop.

The deadline of all waits together is `zookeeper.connection.timeout.ms`, or else the session timeout. The wait for
the end of an earlier session of this broker comes on top.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.tasks import Task, run
from headgate.gateway.zookeeper.layout.cluster import CLUSTER_ID_PATH, ClusterId
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.membership import refusals
from headgate.gateway.zookeeper.membership.joining import EarlierSession, Overtaken
from headgate.gateway.zookeeper.membership.pump import Pump
from headgate.gateway.zookeeper.requests import Failed, Lost, ensure, exists, get
from headgate.gateway.zookeeper.session import Session
from headgate.gateway.zookeeper.shared_session import OpenSession, SharedSession
from headgate.storage.directory.kafka_directory import CLUSTER_METADATA, OWN_METADATA
from headgate.storage.disk import layout
from headgate.storage.files import Files

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig

logger = logging.getLogger("headgate.zookeeper")

T = TypeVar("T")

LINE_MS: Final = 5_000.0
CLOSE_MS: Final = 6_000.0
_PAUSE_MS: Final = 200.0
_LONGER_MS: Final = 5_000.0
"""ZooKeeper ends a session up to two of its ticks after the timeout."""


class ZooKeeperConnection:
    """A connected session, with blocking waits for the start."""

    def __init__(self, config: BrokerConfig, clock: Clock, open_session: OpenSession, pump: Pump | None = None) -> None:
        """Connect. Raises ZooKeeperRefusal."""
        assert config.zookeeper_connect is not None
        self.connect = config.zookeeper_connect
        self.pump = Pump(clock) if pump is None else pump
        self._clock = clock
        self._session_timeout_ms = config.zookeeper_session_timeout_ms
        self._open_session = open_session
        self.wait_ms = float(config.zookeeper_connection_timeout_ms or config.zookeeper_session_timeout_ms)
        """The longest wait of a start for ZooKeeper."""
        self._deadline_ms = clock.monotonic_ms() + self.wait_ms
        self._earlier_id, self._end_ms, self._line_ms = 0, 0.0, 0.0
        self._is_closing = False
        self._closed: list[bool] = []
        self.shared = SharedSession(self.connect, config.zookeeper_session_timeout_ms, self.pump, open_session)
        self.shared.session.start()
        try:
            self._connect()
            self.has_chroot, self.cluster_id = self.complete(partial(_identity, self.session), "the cluster's id")
        except BaseException:
            self.close()
            raise

    @property
    def session(self) -> Session:
        return self.shared.session

    def check_directories(self, files: Files, paths: Sequence[str]) -> None:
        """Refuse log directories of another cluster, or with other metadata. Raises ZooKeeperRefusal, StorageError."""
        for path in paths:
            if files.exists(f"{path}/{OWN_METADATA}"):
                raise refusals.embedded_log(self.connect, path)
            if files.exists(f"{path}/{CLUSTER_METADATA}-0"):
                raise refusals.kraft_directory(self.connect, path)
            meta = layout.read_meta(files, path)
            if meta is None:
                continue
            if self.cluster_id is not None and meta.cluster_id != self.cluster_id:
                raise refusals.other_cluster(self.connect, self.cluster_id, path, meta.cluster_id)
            partitions = [name for name in files.list(path) if layout.parse_partition(name)]
            if self.cluster_id is None and partitions:
                raise refusals.no_cluster(self.connect, path, meta.cluster_id, len(partitions))

    def create_chroot(self) -> None:
        """Create a missing chroot, as Kafka does. Raises ZooKeeperRefusal."""
        if self.has_chroot:
            return
        servers, _, chroot = self.connect.partition("/")
        shared = SharedSession(servers, self._session_timeout_ms, self.pump, self._open_session)
        shared.session.start()
        results: list[object] = []
        closed: list[bool] = []
        try:
            if self._wait(lambda: shared.session.is_connected, self._deadline_ms, "a connection"):
                run(ensure(shared.session, f"/{chroot}"), results.append)
                self._wait(lambda: bool(results), self._deadline_ms, f"the creation of /{chroot}")
        finally:
            shared.session.close(closed.append)
            self.pump.run_until(lambda: bool(closed), self._clock.monotonic_ms() + CLOSE_MS)
        if results != [None]:
            raise refusals.unwritable(self.connect, f"the path /{chroot}", str(*results) or "no answer")
        logger.info("created /%s in ZooKeeper at %s, which did not exist", chroot, servers)

    def complete(self, make: Callable[[], Task[T]], what: str) -> T:
        """Run steps to their end, again after each interruption. Raises ZooKeeperRefusal, or what the steps raise."""
        while True:
            self._connect()
            result = self._run(make(), what)
            if isinstance(result, EarlierSession):
                self._await_end(result)
            elif isinstance(result, Overtaken) and self._clock.monotonic_ms() >= self._deadline_ms:
                raise refusals.overtaken(self.connect, self.wait_ms, what, result)
            elif isinstance(result, Lost | Overtaken):
                logger.info("ZooKeeper at %s: %s; trying again", self.connect, result)
                self._pause()
            elif isinstance(result, Failed):
                raise refusals.unwritable(self.connect, result.path, result.error.name)
            elif isinstance(result, InvalidNode):
                raise refusals.unreadable(self.connect, result)
            elif isinstance(result, Exception):
                raise result
            else:
                return result

    def _run(self, steps: Task[T], what: str) -> T | Exception:
        results: list[T | Exception] = []
        run(steps, results.append)
        if not self._wait(lambda: bool(results), self._deadline_ms, what):
            raise refusals.no_end(self.connect, self.wait_ms, what)
        return results[0]

    def close(self) -> None:
        """End the session, and wait for that: ZooKeeper then deletes its nodes at once. No loop may be running."""
        self.begin_to_close()
        if not self.pump.run_until(lambda: bool(self._closed), self._clock.monotonic_ms() + CLOSE_MS):
            logger.warning("ZooKeeper at %s did not end the session; it ends by itself", self.connect)

    def begin_to_close(self) -> None:
        """Ask ZooKeeper to end the session; `close` waits for it."""
        if not self._is_closing:
            self._is_closing = True
            self.pump.take_back()
            self.session.close(self._closed.append)

    def _connect(self) -> None:
        if not self._wait(lambda: self.session.is_connected, self._deadline_ms, "a connection"):
            names = self.session.unresolved_hosts()
            if names:
                raise refusals.unresolved(self.connect, self.wait_ms, names)
            if self.session.problem is not None:
                raise refusals.unreachable(self.connect, self.session.problem)
            raise refusals.no_answer(self.connect, self.wait_ms)

    def _pause(self) -> None:
        self.pump.run_until(lambda: False, self._clock.monotonic_ms() + _PAUSE_MS)

    def _wait(self, is_done: Callable[[], bool], deadline_ms: float, what: str) -> bool:
        """Wait until a deadline, with a log line every five seconds."""
        while True:
            now_ms = self._clock.monotonic_ms()
            if self.pump.run_until(is_done, min(deadline_ms, now_ms + LINE_MS)):
                return True
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                return False
            logger.warning("waiting for ZooKeeper at %s: %s, for at most %.0f s", self.connect, what, left_ms / 1000)

    def _await_end(self, earlier: EarlierSession) -> None:
        """Wait a moment for the end of an earlier session of this broker. Raises ZooKeeperRefusal."""
        now_ms = self._clock.monotonic_ms()
        if earlier.session_id != self._earlier_id:
            self._earlier_id, self._line_ms = earlier.session_id, now_ms
            self._end_ms = now_ms + earlier.owner.session_timeout_ms + _LONGER_MS
        if now_ms >= self._end_ms:
            raise refusals.lives_on(self.connect, earlier.node_id, earlier.owner)
        if now_ms >= self._line_ms:
            what, left_s = refusals.earlier_session(earlier.node_id, earlier.owner), (self._end_ms - now_ms) / 1000
            logger.warning("waiting for ZooKeeper at %s: %s, for at most %.0f s", self.connect, what, left_s)
            self._line_ms += LINE_MS
        self._pause()
        self._deadline_ms += self._clock.monotonic_ms() - now_ms


def _identity(session: Session) -> Task[tuple[bool, str | None]]:
    """Whether the chroot exists, and the cluster's id. Raises Failed, ZooKeeperRefusal."""
    has_chroot = (yield from exists(session, "/")) is not None
    if has_chroot:
        yield partial(session.sync, "/")
    found = yield from get(session, CLUSTER_ID_PATH)
    return has_chroot, None if found is None else ClusterId.decode(found.data).cluster_id
