"""The session with a real ZooKeeper: kazoo, behind `session.Session`.

kazoo has threads. This module allows it one, the thread of its connection: `InlineHandler` runs kazoo's callbacks
there. These callbacks only append to one queue (`_inbox`) and wake the loop, which takes the answers and events from
the queue, in order. Kazoo's default, two more threads for callbacks, costs 60% more CPU time for each request and loses
the order.

That thread competes with the loop for Python's lock, so kazoo gets at most `MAX_OUTSTANDING` requests at a time;
further ones wait here. `docs/performance.md` has the measurement. The bound also keeps the loop from blocking: each
request wakes kazoo by a byte in a pipe, and some hundred requests fill the pipe if the server hangs.

kazoo's thread also sends the heartbeats of the session. A loop that stands still must lose its session all the same, as
others wait for this broker: so after `follow_loop` each heartbeat needs a sign of the loop since the one before.

When a connection ends, kazoo answers every outstanding request, except that a race in kazoo can lose one. So this
module answers them by itself, at the event, and ignores later answers.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.protocol import serialization
from kazoo.protocol.states import EventType, KazooState, KeeperState
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from headgate.gateway.zookeeper.kazoo_handler import InlineHandler
from headgate.gateway.zookeeper.security.zookeeper_security import (
    NO_SECURITY,
    NodeAccess,
    ZooKeeperLogin,
    ZooKeeperSecurity,
)
from headgate.gateway.zookeeper.server_status import LaggingServers, is_resolved
from headgate.gateway.zookeeper.session import (
    OF_NODES,
    Check,
    Children,
    Create,
    Delete,
    KeeperError,
    NodeData,
    Operation,
    Refused,
    Results,
    Resume,
    SessionEvent,
    SetData,
    Stat,
    Watch,
    is_too_large,
    is_valid_path,
    refusal,
)
from headgate.gateway.zookeeper.shared_session import SessionScheduling, SessionTimer

logger = logging.getLogger("headgate.zookeeper")

MAX_OUTSTANDING: Final = 16
MOST_A_TURN: Final = 64
"""Answers and events that the loop takes before it serves others."""
CLOSE_WITHIN_MS: Final = 5_000
RESTART_AFTER_MS: Final = 1_000
_EPHEMERAL, _SEQUENTIAL = 1, 2
# Seconds between attempts to connect, doubled up to the limit
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.1, 2.0

_ERRORS: Final = {
    exceptions.NoNodeError: KeeperError.NO_NODE,
    exceptions.NodeExistsError: KeeperError.NODE_EXISTS,
    exceptions.BadVersionError: KeeperError.BAD_VERSION,
    exceptions.NotEmptyError: KeeperError.NOT_EMPTY,
    exceptions.NoChildrenForEphemeralsError: KeeperError.NO_CHILDREN_FOR_EPHEMERALS,
    exceptions.BadArgumentsError: KeeperError.BAD_ARGUMENTS,
    exceptions.NoAuthError: KeeperError.NO_AUTH,
    exceptions.InvalidACLError: KeeperError.NO_AUTH,  # the creator has no name
    exceptions.UnimplementedError: KeeperError.UNIMPLEMENTED,
    exceptions.SessionExpiredError: KeeperError.SESSION_EXPIRED,
    # kazoo was closed, or its server has given up the request: the request may have taken effect
    exceptions.ConnectionClosedError: KeeperError.CONNECTION_LOSS,
    exceptions.ConnectionLoss: KeeperError.CONNECTION_LOSS,
    exceptions.OperationTimeoutError: KeeperError.CONNECTION_LOSS,
    exceptions.RequestTimeoutError: KeeperError.CONNECTION_LOSS,
}

_CONNECTION_ENDED: Final = tuple(
    kind for kind, error in _ERRORS.items() if error in {KeeperError.CONNECTION_LOSS, KeeperError.SESSION_EXPIRED}
)

# kazoo logs every attempt to connect, every second or two; this module logs once. Users may lower the level
_kazoo_logger = logging.getLogger("headgate.zookeeper.kazoo")
if _kazoo_logger.level == logging.NOTSET:
    _kazoo_logger.setLevel(logging.ERROR)


class _MultiRead:
    """`OpCode.multiRead` of ZooKeeper 3.6, which kazoo does not have: nodes by complete paths, without watches."""

    __slots__ = ("paths",)
    type = 22

    def __init__(self, kazoo: Any, paths: Sequence[str]) -> None:
        self.paths = [_complete(kazoo, path) for path in paths]

    def serialize(self) -> bytes:
        get = serialization.multiheader_struct.pack(serialization.GetData.type, False, -1)
        rows = [get + serialization.GetData(path, None).serialize() for path in self.paths]
        return b"".join((*rows, serialization.multiheader_struct.pack(-1, True, -1)))

    @staticmethod
    def deserialize(answer: bytes, offset: int) -> list[Any]:
        """(data, stat) of each node, or kazoo's error."""
        results: list[Any] = []
        while True:
            header, offset = serialization.MultiHeader.deserialize(answer, offset)
            if header.done:
                return results
            if header.type == serialization.GetData.type:
                row = serialization.GetData.deserialize(answer, offset)
                offset += serialization.int_struct.size + len(row[0] or b"") + serialization.stat_struct.size
            else:
                row = exceptions.EXCEPTIONS[serialization.int_struct.unpack_from(answer, offset)[0]]()
                offset += serialization.int_struct.size
            results.append(row)


class _SetWatches:
    """`OpCode.setWatches`, which kazoo does not have: data watches that report all changes after a transaction."""

    __slots__ = ("_kazoo", "_paths", "_watch", "_zxid")
    type = 101

    def __init__(self, kazoo: Any, paths: Sequence[str], zxid: int, watch: _Watch) -> None:
        self._kazoo, self._paths, self._zxid, self._watch = kazoo, paths, zxid, watch

    def serialize(self) -> bytes:
        """Kazoo calls this in its own thread just before the request is sent: events may come before the answer."""
        paths = [_complete(self._kazoo, path) for path in self._paths]
        for path in paths:
            self._kazoo._data_watchers[path].add(self._watch)  # noqa: SLF001 - as kazoo does after a read
        count, none = serialization.int_struct.pack(len(paths)), serialization.int_struct.pack(0)
        zxid = serialization.long_struct.pack(self._zxid)
        return b"".join((zxid, count, *map(serialization.write_string, paths), none, none))

    @staticmethod
    def deserialize(_answer: bytes, _offset: int) -> None:
        """The answer has no body."""


class _Request:
    """A request. `send(kazoo)` returns kazoo's asynchronous result; `read` converts the value of that result."""

    __slots__ = ("read", "resume", "send")

    def __init__(self, send: Callable[[Any], Any], read: Callable[[Any], Any], resume: Resume[Any]) -> None:
        self.send = send
        self.read = read
        self.resume = resume


class _Watch:
    """A watch for kazoo, which keeps a set for each path: the same function on the same path is one watch."""

    __slots__ = ("_arrive", "_watch")

    def __init__(self, watch: Watch, arrive: Callable[[Callable[[], None]], None]) -> None:
        self._watch = watch
        self._arrive = arrive

    def __call__(self, event: Any) -> None:
        if event.type != EventType.NONE:  # a NONE event reports the end of the connection
            self._arrive(partial(self._watch, event.path))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Watch) and self._watch == other._watch

    def __hash__(self) -> int:
        return hash(self._watch)


class ZooKeeperClient:
    """The `Session` of a real ZooKeeper. Methods are called on the loop; only `_arrive*` may run on any thread."""

    def __init__(
        self,
        connect: str,
        session_timeout_ms: int,
        scheduler: SessionScheduling,
        on_event: Callable[[SessionEvent], None],
        max_outstanding: int = MAX_OUTSTANDING,
        security: ZooKeeperSecurity = NO_SECURITY,
    ) -> None:
        """`connect`: `host:port,host:port/chroot`, Kafka's zookeeper.connect. Raises ValueError for any other text."""
        self.session_id = 0
        self.problem: str | None = None
        self._security = security
        self.is_connected = False
        self._connect = connect
        self._session_timeout_ms = session_timeout_ms
        self._scheduler = scheduler
        self._on_event = on_event
        self._max_outstanding = max_outstanding
        self._follows_loop = self._awaits_sign = False
        self._reads_many = True
        self._waiting: deque[_Request] = deque()
        self._outstanding: dict[_Request, None] = {}  # in the order of their calls
        self._inbox: deque[Callable[[], None]] = deque()
        self._is_woken = False
        self._closed: Callable[[bool], None] | None = None
        self._close_timer: SessionTimer | None = None
        self._is_closed = self._is_clean = False
        self._kazoo = self._new_kazoo()

    def start(self) -> None:
        self._kazoo.start_async()

    def unresolved_hosts(self) -> list[str]:
        return [host for host, port in self._kazoo.hosts if not is_resolved(host, port)]

    # Requests

    def get(self, path: str, resume: Resume[NodeData], watch: Watch | None = None) -> None:
        kazoo_watch = self._watch(watch)
        self._ask(path, None, lambda kazoo: kazoo.get_async(path, kazoo_watch), _node_data, resume)

    def get_many(self, paths: Sequence[str], resume: Resume[Sequence[NodeData | KeeperError]]) -> None:
        """See `Session.get_many`. A server before 3.6 closes the connection at the first; single reads follow."""
        if not all(map(is_valid_path, paths)):
            self._scheduler.call_soon(partial(resume, KeeperError.BAD_ARGUMENTS))
        elif self._reads_many and paths:
            send = partial(_send, lambda kazoo: _MultiRead(kazoo, paths))
            self._put(send, _nodes_data, partial(self._read_many, paths, resume))
        else:
            self._read_each(paths, resume)

    def _read_many(self, paths: Sequence[str], resume: Resume[Any], answer: Any) -> None:
        if answer is KeeperError.UNIMPLEMENTED:
            if self._reads_many:
                logger.info("ZooKeeper at %s is older than 3.6: nodes are read one by one", self._connect)
            self._reads_many = False
            self._read_each(paths, resume)
        else:
            resume(answer)

    def _read_each(self, paths: Sequence[str], resume: Resume[Any]) -> None:
        answers: list[NodeData | KeeperError] = []

        def take(answer: NodeData | KeeperError) -> None:
            answers.append(answer)
            if len(answers) == len(paths):
                lost = next(
                    (answer for answer in answers if isinstance(answer, KeeperError) and answer not in OF_NODES), None
                )
                resume(tuple(answers) if lost is None else lost)

        for path in paths:
            self.get(path, take)
        if not paths:
            self._scheduler.call_soon(partial(resume, ()))

    def watch_many(self, paths: Sequence[str], zxid: int, watch: Watch, resume: Resume[None]) -> None:
        if not all(map(is_valid_path, paths)):
            self._scheduler.call_soon(partial(resume, KeeperError.BAD_ARGUMENTS))
        else:
            kazoo_watch = _Watch(watch, self._arrive)
            self._put(partial(_send, lambda kazoo: _SetWatches(kazoo, paths, zxid, kazoo_watch)), _nothing, resume)

    def children(self, path: str, resume: Resume[Children], watch: Watch | None = None) -> None:
        kazoo_watch = self._watch(watch)
        self._ask(path, None, lambda kazoo: kazoo.get_children_async(path, kazoo_watch, True), _children, resume)

    def exists(self, path: str, resume: Resume[Stat], watch: Watch | None = None) -> None:
        kazoo_watch = self._watch(watch)
        self._ask(path, None, lambda kazoo: kazoo.exists_async(path, kazoo_watch), _stat_or_none, resume)

    def create(self, node: Create, resume: Resume[str]) -> None:
        path, data, is_ephemeral, is_sequential = node
        acl = _acl(self._security.access(path))
        self._ask(
            path, data, lambda kazoo: kazoo.create_async(path, data, acl, is_ephemeral, is_sequential), str, resume
        )

    def set(self, path: str, data: bytes | None, version: int, resume: Resume[Stat]) -> None:
        self._ask(path, data, lambda kazoo: kazoo.set_async(path, data, version), _stat, resume)

    def delete(self, path: str, version: int, resume: Resume[None]) -> None:
        self._ask(path, None, lambda kazoo: kazoo.delete_async(path, version), _nothing, resume)

    def multi(self, operations: Sequence[Operation], resume: Resume[Results | Refused]) -> None:
        refused = refusal(operations)
        if refused is not None:
            self._scheduler.call_soon(partial(resume, refused))
        else:
            self._put(lambda kazoo: _transaction(kazoo, operations, self._security).commit_async(), _results, resume)

    def sync(self, path: str, resume: Resume[None]) -> None:
        self._ask(path, None, lambda kazoo: kazoo.sync_async(path), _nothing, resume)

    def follow_loop(self) -> None:
        self._follows_loop = True

    def _may_beat(self) -> bool:
        """In kazoo's thread: whether the loop has run since the last heartbeat. Asks the loop for the next sign."""
        if not self._follows_loop:
            return True
        if self._awaits_sign:
            return False
        self._awaits_sign = True
        self._scheduler.call_from_thread(self._give_sign)
        return True

    def _give_sign(self) -> None:
        self._awaits_sign = False

    def close(self, resume: Callable[[bool], None]) -> None:
        """See `Session.close`. Takes at most CLOSE_WITHIN_MS; kazoo's thread may outlive it while a server hangs.

        Without a connection it does not wait.
        """
        assert self._closed is None, "close() is called once"
        self._closed, self._follows_loop = resume, False
        self._is_clean, self.is_connected = self.is_connected, False
        unsent, self._waiting = self._waiting, deque()
        for request in unsent:
            self._scheduler.call_soon(partial(request.resume, KeeperError.NOT_CONNECTED))
        self._close_timer = self._scheduler.call_after(CLOSE_WITHIN_MS if self._is_clean else 0, self._end)
        threading.Thread(target=_stop, args=(self._kazoo, partial(self._arrive, self._end)), daemon=True).start()

    def _watch(self, watch: Watch | None) -> _Watch | None:
        return None if watch is None else _Watch(watch, self._arrive)

    def _ask(
        self, path: str, data: bytes | None, send: Callable[[Any], Any], read: Callable[[Any], Any], resume: Resume[Any]
    ) -> None:
        """Send one operation that writes `data`."""
        if not is_valid_path(path):
            self._scheduler.call_soon(partial(resume, KeeperError.BAD_ARGUMENTS))
        elif data is not None and is_too_large(path, data):
            self._scheduler.call_soon(partial(resume, KeeperError.TOO_LARGE))
        else:
            self._put(send, read, resume)

    def _put(self, send: Callable[[Any], Any], read: Callable[[Any], Any], resume: Resume[Any]) -> None:
        if not self.is_connected:
            self._scheduler.call_soon(partial(resume, KeeperError.NOT_CONNECTED))
        else:
            self._waiting.append(_Request(send, read, resume))
            self._send_waiting()

    def _send_waiting(self) -> None:
        # Without a connection kazoo would keep a request, and send it later
        while self._waiting and len(self._outstanding) < self._max_outstanding and self._kazoo.connected:
            request = self._waiting.popleft()
            self._outstanding[request] = None
            request.send(self._kazoo).rawlink(partial(self._arrive_answer, request))

    # From kazoo's thread

    def _arrive(self, item: Callable[[], None]) -> None:
        self._inbox.append(item)
        if not self._is_woken:
            self._is_woken = True
            self._scheduler.call_from_thread(self._deliver)

    def _arrive_answer(self, request: _Request, result: Any) -> None:
        self._arrive(partial(self._answer, request, result))

    def _arrive_opened(self, kazoo: Any, servers: LaggingServers, address: tuple[str, int]) -> None:
        if servers.opened(address, kazoo.last_zxid):
            self._arrive(partial(self._outdated, kazoo))

    def _arrive_state(self, kazoo: Any, servers: LaggingServers, state: str) -> None:
        client_id = kazoo.client_id
        session_id = client_id[0] if client_id is not None else 0
        arrive = partial(self._arrive, partial(self._handle_state, kazoo, state, session_id))
        if state == KazooState.CONNECTED:
            servers.connected()
            if self._security.login is not None:  # which comes now, before the first request
                kazoo.exists_async("/").rawlink(partial(self._arrive_login, arrive))
                return
        arrive()

    def _arrive_login(self, arrive: Callable[[], None], result: Any) -> None:
        if isinstance(result.exception, exceptions.AuthFailedError):
            assert self._security.login is not None
            self._arrive(partial(self._note_problem, f"it refuses the login of {self._security.login.user}"))
        elif result.exception is None or not isinstance(result.exception, _CONNECTION_ENDED):
            arrive()

    # On the loop

    def _deliver(self) -> None:
        self._is_woken = False
        inbox = self._inbox
        for _ in range(min(MOST_A_TURN, len(inbox))):
            if self._is_closed:
                return
            try:
                inbox.popleft()()
            except Exception:
                logger.exception("an answer or an event of ZooKeeper failed; the broker continues without its result")
        self._send_waiting()
        if inbox and not self._is_woken:
            self._is_woken = True
            self._scheduler.call_from_thread(self._deliver)

    def _answer(self, request: _Request, result: Any) -> None:
        if request not in self._outstanding:
            return  # `_lose` has answered the request
        del self._outstanding[request]
        error = result.exception
        request.resume(request.read(result.value) if error is None else _error(error))

    def _handle_state(self, kazoo: Any, state: str, session_id: int) -> None:
        """Handle a new state of kazoo's connection."""
        if kazoo is not self._kazoo or self._is_closed:
            return
        if self._closed is not None:
            self._is_clean = self._is_clean and state == KazooState.LOST
        elif state == KazooState.CONNECTED:
            self._connected(session_id)
        elif state == KazooState.SUSPENDED:
            logger.warning("lost the connection to ZooKeeper at %s; connecting again", self._connect)
            self._lose(SessionEvent.SUSPENDED)
        elif self.session_id or self._security.login is None:  # without a login there was no session
            self._expired()

    def _note_problem(self, reason: str) -> None:
        """A connection could not be made: log the reason, if it is another one than before."""
        if reason != self.problem:
            logger.warning("ZooKeeper at %s cannot be reached: %s", self._connect, reason)
        self.problem = reason

    def _connected(self, session_id: int) -> None:
        self.problem = None
        is_same = session_id == self.session_id
        self.session_id, self.is_connected = session_id, True
        logger.info("%s to ZooKeeper at %s, session 0x%x", "reconnected" if is_same else "connected", self._connect,
                    session_id & 0xFFFF_FFFF_FFFF_FFFF)  # fmt: skip
        self._report(SessionEvent.RECONNECTED if is_same else SessionEvent.CONNECTED)

    def _outdated(self, kazoo: Any) -> None:
        if kazoo is self._kazoo and not self.is_connected:
            self._report(SessionEvent.OUTDATED)

    def _expired(self) -> None:
        logger.warning("ZooKeeper at %s has ended the session; opening another", self._connect)
        self.session_id = 0
        self._lose(SessionEvent.EXPIRED)

    def _replace(self, kazoo: Any) -> None:
        """Begin with another kazoo after the end of kazoo's thread, which also ends the session."""
        if kazoo is self._kazoo and self._closed is None:
            with suppress(Exception):
                kazoo.close()
            self._kazoo = self._new_kazoo()
            self._scheduler.call_after(RESTART_AFTER_MS, self._start_again)

    def _start_again(self) -> None:
        if self._closed is None:
            self.start()

    def _lose(self, event: SessionEvent) -> None:
        """Answer all requests, then report the event, before any later answer or event."""
        self.is_connected = False
        lost, self._outstanding = self._outstanding, {}
        unsent, self._waiting = self._waiting, deque()
        answers = [
            *(partial(request.resume, KeeperError.CONNECTION_LOSS) for request in lost),
            *(partial(request.resume, KeeperError.NOT_CONNECTED) for request in unsent),
            partial(self._report, event),
        ]
        self._inbox.extendleft(reversed(answers))

    def _report(self, event: SessionEvent) -> None:
        if self._closed is None:
            self._on_event(event)

    def _end(self) -> None:
        """Finish `close`: the session is closed, or ZooKeeper took too long."""
        if self._is_closed:
            return
        assert self._closed is not None
        assert self._close_timer is not None
        self._close_timer.cancel()
        self._is_closed = True
        self._inbox.clear()
        lost, self._outstanding = self._outstanding, {}
        for request in lost:
            request.resume(KeeperError.CONNECTION_LOSS)
        is_clean = self._is_clean and self._kazoo.client_state == KeeperState.CLOSED
        self.session_id = 0
        self._closed(is_clean)

    def _new_kazoo(self) -> Any:
        servers = LaggingServers(self._connect.partition("/")[0].count(",") + 1)
        handler = InlineHandler(
            lambda: self._arrive(partial(self._replace, kazoo)),
            lambda address: self._arrive_opened(kazoo, servers, address),
            self._may_beat,
            self._security.new_context,
            lambda reason: self._arrive(partial(self._note_problem, reason)),
        )
        login = self._security.login
        retry = {"max_tries": -1, "delay": _FIRST_DELAY_S, "max_delay": _LONGEST_DELAY_S}
        kazoo = KazooClient(
            self._connect,
            timeout=self._session_timeout_ms / 1000,
            handler=handler,
            connection_retry=retry,
            logger=_kazoo_logger,
            sasl_options=None if login is None else _sasl_options(login),
        )
        kazoo.add_listener(partial(self._arrive_state, kazoo, servers))
        return kazoo


def _sasl_options(login: ZooKeeperLogin) -> dict[str, str]:
    return {"mechanism": "DIGEST-MD5", "username": login.user, "password": login.password.text}


def _stop(kazoo: Any, stopped: Callable[[], None]) -> None:
    """Close the session and wait for kazoo's thread: as long as a hanging server takes, up to the session's timeout."""
    try:
        with suppress(Exception):  # sockets that are closed already
            kazoo.stop()
        with suppress(Exception):
            kazoo.close()
    finally:
        stopped()


def _send(make: Callable[[Any], Any], kazoo: Any) -> Any:
    """Kazoo's asynchronous result of a request that kazoo has no function for."""
    result = kazoo.handler.async_result()
    kazoo._call(make(kazoo), result)  # noqa: SLF001 - see above
    return result


def _complete(kazoo: Any, path: str) -> str:
    """The path with the chroot."""
    return f"{kazoo.chroot}{path}".rstrip("/") or "/"


def _acl(access: NodeAccess) -> list[Any]:
    if access.is_open:
        return list(OPEN_ACL_UNSAFE)
    return [*CREATOR_ALL_ACL, *(READ_ACL_UNSAFE if access.is_readable else ())]


def _transaction(kazoo: Any, operations: Sequence[Operation], security: ZooKeeperSecurity) -> Any:
    """A multi. It bypasses kazoo's functions for the operations, which refuse null data."""
    transaction = kazoo.transaction()
    for operation in operations:
        path = _complete(kazoo, operation.path)
        match operation:
            case Create(_, data, is_ephemeral, is_sequential):
                flags = _EPHEMERAL * is_ephemeral | _SEQUENTIAL * is_sequential
                acl = _acl(security.access(operation.path))
                transaction.operations.append(serialization.Create(path, data, acl, flags))
            case SetData(_, data, version):
                transaction.operations.append(serialization.SetData(path, data, version))
            case Delete(_, version):
                transaction.operations.append(serialization.Delete(path, version))
            case Check(_, version):
                transaction.operations.append(serialization.CheckVersion(path, version))
    return transaction


def _error(error: BaseException) -> KeeperError:
    known = _ERRORS.get(type(error))
    if known is None:
        logger.error("ZooKeeper answered a request with an unexpected error: %r", error)
        return KeeperError.OTHER
    return known


def _nothing(_value: Any) -> None:
    return None


def _stat(stat: Any) -> Stat:
    return Stat(
        stat.version,
        stat.czxid,
        stat.mzxid,
        stat.ephemeralOwner,
        stat.ctime,
        stat.mtime,
        stat.cversion,
        stat.numChildren,
    )


def _stat_or_none(stat: Any) -> Stat | KeeperError:
    return KeeperError.NO_NODE if stat is None else _stat(stat)


def _node_data(value: Any) -> NodeData:
    data, stat = value
    return NodeData(data, _stat(stat))


def _nodes_data(values: Sequence[Any]) -> tuple[NodeData | KeeperError, ...]:
    return tuple(
        _error(value) if isinstance(value, exceptions.ZookeeperError) else _node_data(value) for value in values
    )


def _children(value: Any) -> Children:
    names, stat = value
    return Children(tuple(sorted(names)), _stat(stat))


def _results(values: Sequence[Any]) -> Results | Refused:
    """The results of a multi. After a refusal, kazoo has consequential errors for all other operations."""
    consequences = (exceptions.RolledBackError, exceptions.RuntimeInconsistency)
    for place, value in enumerate(values):
        if isinstance(value, exceptions.ZookeeperError) and not isinstance(value, consequences):
            return Refused(place, _error(value))
    return tuple(
        _stat(value) if hasattr(value, "czxid") else value if isinstance(value, str) else None for value in values
    )
