"""A model of ZooKeeper: one tree, any number of sessions on it, no threads and no time.

    keeper = ZooKeeperModel()
    session = keeper.session(events.append)     # a `Session`
    session.start()
    session.create(Create("/a"), results.append)
    keeper.run()                                # until nothing is on its way

What is on its way are requests to the server, and answers and events to a session. `step` takes one of these: the
oldest, or one that `random` chooses. Requests of a session keep their order, so do its answers, so do its events; an
answer and an event do not, as the seam promises nothing there. `on_way` is called when something is put on its way: a
simulation then schedules a `step`.

Faults are scripted: `cut` a connection, `expire` a session, have a request lost before or after it takes effect
(`faults`), `stop` and `start` the server, `freeze` it. `tests/test_scenarios.py` compares the model with a real
ZooKeeper, rule by rule.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from functools import partial
from random import Random
from typing import Any

from headgate.gateway.zookeeper.session import (
    ANY_VERSION,
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
    refusal,
)

Queue = deque[tuple[int, Callable[[], None]]]
"""What is on its way in one direction; the numbers count up over all queues."""


class Fault(Enum):
    """The connection is lost with a request on its way."""

    BEFORE = auto()
    """The request never reaches the server."""
    AFTER = auto()
    """The server does it; the answer is lost."""


class _Failed(Exception):
    """An operation is refused."""

    def __init__(self, error: KeeperError) -> None:
        super().__init__(error)
        self.error = error


class _Node:
    """A node of the tree; `created` counts the children that were ever created, which numbers sequential ones."""

    def __init__(self, data: bytes | None, zxid: int, owner: int, now_ms: int) -> None:
        self.data = data
        self.version = 0
        self.czxid = self.mzxid = zxid
        self.owner = owner
        self.ctime_ms = self.mtime_ms = now_ms
        self.created = 0
        self.children = dict[str, None]()

    def stat(self) -> Stat:
        deleted = self.created - len(self.children)
        return Stat(
            version=self.version,
            czxid=self.czxid,
            mzxid=self.mzxid,
            ephemeral_owner=self.owner,
            ctime_ms=self.ctime_ms,
            mtime_ms=self.mtime_ms,
            children_version=self.created + deleted,
            children=len(self.children),
        )

    def copy(self) -> _Node:
        copied = _Node(b"", 0, 0, 0)
        copied.__dict__.update(self.__dict__, children=dict(self.children))
        return copied


class _Tree:
    """Nodes by path, and the operations on them; each appends the events that it causes to `fired`."""

    def __init__(self) -> None:
        self.nodes = {"/": _Node(b"", 0, 0, 0)}
        self.fired: list[tuple[str, str]] = []
        self.zxid = 0
        self._before: dict[str, _Node | None] = {}

    def transact(self, session_id: int, operations: Sequence[Operation], now_ms: int) -> Results | Refused:
        """All operations as one transaction, or none."""
        self._before, fired, results = {}, len(self.fired), list[str | Stat | None]()
        self.zxid += 1
        for place, operation in enumerate(operations):
            try:
                results.append(self._apply(session_id, operation, now_ms))
            except _Failed as failed:
                self._roll_back()
                del self.fired[fired:]
                return Refused(place, failed.error)
        return tuple(results)

    def node(self, path: str) -> _Node:
        if path not in self.nodes:
            raise _Failed(KeeperError.NO_NODE)
        return self.nodes[path]

    def _apply(self, session_id: int, operation: Operation, now_ms: int) -> str | Stat | None:
        match operation:
            case Create():
                return self._create(session_id, operation, now_ms)
            case SetData(path, data, version):
                self._checked(path, version)
                node = self._changed(path)
                node.data, node.mzxid, node.mtime_ms = data, self.zxid, now_ms
                node.version += 1
                self.fired.append(("data", path))
                return node.stat()
            case Delete(path, version):
                self._delete(path, version)
            case Check(path, version):
                self._checked(path, version)
        return None

    def _create(self, session_id: int, wanted: Create, now_ms: int) -> str:
        parent_path = parent(wanted.path)
        if wanted.path == "/":
            raise _Failed(KeeperError.NODE_EXISTS)
        above = self.node(parent_path)
        path = f"{wanted.path}{above.created:010d}" if wanted.is_sequential else wanted.path
        if path in self.nodes:
            raise _Failed(KeeperError.NODE_EXISTS)
        if above.owner:
            raise _Failed(KeeperError.NO_CHILDREN_FOR_EPHEMERALS)
        above = self._changed(parent_path)
        above.children[path.rpartition("/")[2]] = None
        above.created += 1
        self._before.setdefault(path, None)
        self.nodes[path] = _Node(wanted.data, self.zxid, session_id if wanted.is_ephemeral else 0, now_ms)
        self.fired += [("data", path), ("children", parent_path)]
        return path

    def _delete(self, path: str, version: int) -> None:
        if path == "/":
            raise _Failed(KeeperError.BAD_ARGUMENTS)
        if self._checked(path, version).children:
            raise _Failed(KeeperError.NOT_EMPTY)
        del self._changed(parent(path)).children[path.rpartition("/")[2]]
        self._changed(path)
        del self.nodes[path]
        self.fired += [("data", path), ("children", path), ("children", parent(path))]

    def _checked(self, path: str, version: int) -> _Node:
        node = self.node(path)
        if version not in {ANY_VERSION, node.version}:
            raise _Failed(KeeperError.BAD_VERSION)
        return node

    def _changed(self, path: str) -> _Node:
        node = self.nodes[path]
        if path not in self._before:
            self._before[path] = node
            node = self.nodes[path] = node.copy()
        return node

    def _roll_back(self) -> None:
        for path, node in self._before.items():
            if node is None:
                self.nodes.pop(path, None)
            else:
                self.nodes[path] = node


class _Request:
    """`work` is done by the server; the answer, or an error instead of it, is given to `resume`."""

    def __init__(self, work: Callable[[], Any], resume: Callable[[Any], None]) -> None:
        self.work = work
        self.resume = resume
        self.is_answered = False

    def answer(self, result: Any) -> None:
        if not self.is_answered:
            self.is_answered = True
            self.resume(result)


class ModelSession:
    """A `Session` with the model. `chroot` is a path without the slash at its end, or empty."""

    def __init__(self, keeper: ZooKeeperModel, on_event: Callable[[SessionEvent], None], chroot: str) -> None:
        self.session_id = 0
        self.problem: str | None = None
        self.is_connected = False
        self.faults: deque[Fault | None] = deque()
        """What happens to the next requests; None: nothing."""
        self.requests: Queue = deque()
        self.answers: Queue = deque()
        self.refusals: Queue = deque()
        """Answers that need no server: no end of a connection takes them away."""
        self.events: Queue = deque()
        self.watches = dict[tuple[str, str], dict[Watch, None]]()  # by kind and path
        self.is_open = True
        self.is_connecting = False
        self._keeper = keeper
        self._on_event = on_event
        self._chroot = chroot
        self.unanswered = dict[_Request, None]()
        self._closed: Callable[[bool], None] | None = None

    def start(self) -> None:
        self._keeper.connect(self)

    def unresolved_hosts(self) -> Sequence[str]:
        return self._keeper.unresolved

    # Requests

    def get(self, path: str, resume: Resume[NodeData], watch: Watch | None = None) -> None:
        def work() -> NodeData:
            node = self._keeper.tree.node(self._full(path))
            self._set_watch("data", path, watch)
            return NodeData(node.data, node.stat())

        self._ask([Check(path)], work, resume)

    def get_many(self, paths: Sequence[str], resume: Resume[Sequence[NodeData | KeeperError]]) -> None:
        def read(path: str) -> NodeData | KeeperError:
            try:
                node = self._keeper.tree.node(self._full(path))
            except _Failed as failed:
                return failed.error
            return NodeData(node.data, node.stat())

        self._ask([Check(path) for path in paths], lambda: tuple(map(read, paths)), resume)

    def watch_many(self, paths: Sequence[str], zxid: int, watch: Watch, resume: Resume[None]) -> None:
        def work() -> None:
            for path in paths:
                try:
                    is_told = self._keeper.tree.node(self._full(path)).mzxid > zxid
                except _Failed:
                    is_told = True
                if is_told:
                    self._keeper.put(self.events, partial(watch, path))
                else:
                    self._set_watch("data", path, watch)

        self._ask([Check(path) for path in paths], work, resume)

    def children(self, path: str, resume: Resume[Children], watch: Watch | None = None) -> None:
        def work() -> Children:
            node = self._keeper.tree.node(self._full(path))
            self._set_watch("children", path, watch)
            return Children(tuple(sorted(node.children)), node.stat())

        self._ask([Check(path)], work, resume)

    def exists(self, path: str, resume: Resume[Stat], watch: Watch | None = None) -> None:
        def work() -> Stat:
            self._set_watch("data", path, watch)
            return self._keeper.tree.node(self._full(path)).stat()

        self._ask([Check(path)], work, resume)

    def create(self, node: Create, resume: Resume[str]) -> None:
        self._write(node, resume)

    def set(self, path: str, data: bytes | None, version: int, resume: Resume[Stat]) -> None:
        self._write(SetData(path, data, version), resume)

    def delete(self, path: str, version: int, resume: Resume[None]) -> None:
        self._write(Delete(path, version), resume)

    def multi(self, operations: Sequence[Operation], resume: Resume[Results | Refused]) -> None:
        refused = refusal(operations)
        if refused is not None:
            self._keeper.put(self.refusals, partial(resume, refused))
        else:
            self._ask((), lambda: self._transact(operations), resume)

    def sync(self, path: str, resume: Resume[None]) -> None:
        self._ask([Check(path)], lambda: None, resume)

    def follow_loop(self) -> None:
        """A test ends the session."""

    def close(self, resume: Callable[[bool], None]) -> None:
        assert self._closed is None, "close() is called once"
        self._closed = resume
        if self.is_connected:
            self.is_connected = False
            request = _Request(lambda: self._keeper.end_session(self), self._end)
            self._keeper.put(self.requests, partial(self._serve, request))
        else:
            self._keeper.put(self.answers, partial(self._end, False))

    def _write(self, operation: Operation, resume: Resume[Any]) -> None:
        def work() -> Any:
            results = self._transact([operation])
            return results.error if isinstance(results, Refused) else results[0]

        self._ask([operation], work, resume)

    def _transact(self, operations: Sequence[Operation]) -> Results | Refused:
        full = [operation._replace(path=self._full(operation.path)) for operation in operations]
        results = self._keeper.transact(self.session_id, full)
        if isinstance(results, Refused):
            return results
        return tuple(self.relative(result) if isinstance(result, str) else result for result in results)

    def _ask(self, operations: Sequence[Operation], work: Callable[[], Any], resume: Resume[Any]) -> None:
        refused = refusal(operations)
        if refused is not None:
            error = refused.error if isinstance(refused, Refused) else refused
            self._keeper.put(self.refusals, partial(resume, error))
        elif not self.is_connected:
            self._keeper.put(self.refusals, partial(resume, KeeperError.NOT_CONNECTED))
        else:
            request = _Request(work, resume)
            self.unanswered[request] = None
            self._keeper.put(self.requests, partial(self._serve, request))

    def _full(self, path: str) -> str:
        return (self._chroot + path).rstrip("/") or "/"

    def relative(self, path: str) -> str:
        """A path of the tree as this session sees it."""
        return path.removeprefix(self._chroot) or "/"

    def _set_watch(self, kind: str, path: str, watch: Watch | None) -> None:
        if watch is not None:
            self.watches.setdefault((kind, self._full(path)), {})[watch] = None

    # The connection

    @property
    def is_closing(self) -> bool:
        return self.is_open and self._closed is not None

    def _serve(self, request: _Request) -> None:
        """The server takes the request."""
        fault = self.faults.popleft() if self.faults else None
        if fault is Fault.BEFORE:
            self._keeper.cut(self)
            return
        try:
            result = request.work()
        except _Failed as failed:
            result = failed.error
        if fault is Fault.AFTER:
            self._keeper.cut(self)
        else:
            self._keeper.put(self.answers, partial(self._answered, request, result))

    def _answered(self, request: _Request, result: Any) -> None:
        self.unanswered.pop(request, None)
        request.answer(result)

    def connected(self, session_id: int) -> None:
        """The server has taken the connection."""
        is_same = session_id == self.session_id
        self.session_id, self.is_connected, self.is_connecting = session_id, True, False
        self._on_event(SessionEvent.RECONNECTED if is_same else SessionEvent.CONNECTED)

    def lost(self, event: SessionEvent) -> None:
        """The connection is gone, with all that is on its way; requests are answered, then the event is told."""
        self.is_connected = self.is_connecting = False
        self.watches.clear()
        self.requests.clear()
        self.answers.clear()
        self.events.clear()
        unanswered, self.unanswered = self.unanswered, {}
        for request in unanswered:
            request.answer(KeeperError.CONNECTION_LOSS)
        if self._closed is not None:
            self._end(False)
        else:
            self._on_event(event)

    def expired(self) -> None:
        """The server refused the connection: the session has ended."""
        self.session_id = 0
        self._on_event(SessionEvent.EXPIRED)

    def _end(self, is_clean: bool) -> None:
        assert self._closed is not None
        if self.is_open:
            self.is_open = False
            self.session_id = 0
            self._closed(is_clean)


class ZooKeeperModel:
    """The server. `random` shuffles what is on its way; without it everything happens in the order of its causes."""

    def __init__(
        self,
        random: Random | None = None,
        on_way: Callable[[], None] = lambda: None,
        now_ms: Callable[[], int] = lambda: 1_700_000_000_000,
    ) -> None:
        self.tree = _Tree()
        self.sessions: list[ModelSession] = []
        self.is_running = True
        self.is_frozen = False
        self.unresolved: tuple[str, ...] = ()
        self.random = random
        self.on_way = on_way
        self._now_ms = now_ms
        self._last_id = 0
        self._live: set[int] = set()  # the sessions that did not end
        self._numbers = itertools.count()

    def session(self, on_event: Callable[[SessionEvent], None] = lambda _: None, chroot: str = "") -> ModelSession:
        """A client that has not connected yet."""
        self.sessions.append(ModelSession(self, on_event, chroot))
        return self.sessions[-1]

    # What is on its way

    def put(self, queue: Queue, arrive: Callable[[], None]) -> None:
        """Put a request, an answer or an event on its way; `arrive` is its end."""
        queue.append((next(self._numbers), arrive))
        self.on_way()

    def step(self) -> bool:
        """Let one thing arrive; False if nothing can."""
        ready = [queue for queue in self._queues() if queue]
        if not ready:
            return False
        queue = min(ready, key=_oldest) if self.random is None else self.random.choice(ready)
        _, arrive = queue.popleft()
        arrive()
        return True

    def run(self, most: int = 1_000_000) -> None:
        """Let everything arrive, and what comes of it."""
        for _ in range(most):
            if not self.step():
                return
        raise AssertionError(f"after {most} steps there is still something on its way")

    def _queues(self) -> Iterator[Queue]:
        for session in self.sessions:
            yield session.answers
            yield session.refusals
            yield session.events
            if not self.is_frozen:
                yield session.requests

    # Sessions

    def connect(self, session: ModelSession) -> None:
        """Have a session connect, if the server runs: again with its id, or anew."""
        if not session.is_open or session.is_connected or session.is_connecting:
            return
        if not self.is_running or self.is_frozen:
            return
        session.is_connecting = True
        if session.session_id not in self._live:
            if session.session_id:
                self.put(session.events, session.expired)
            self._last_id += 1
            self._live.add(self._last_id)
            self.put(session.events, partial(session.connected, self._last_id))
        else:
            self.put(session.events, partial(session.connected, session.session_id))

    def cut(self, session: ModelSession) -> None:
        """Cut the connection of a session; `connect` brings it back."""
        if session.is_connected or session.is_closing:
            session.lost(SessionEvent.SUSPENDED)
        elif session.is_connecting:
            session.is_connecting = False
            session.events.clear()

    def expire(self, session_id: int) -> None:
        """The server ends a session: it deletes the ephemeral nodes, and the client learns it when it connects."""
        self._live.discard(session_id)
        owned = [path for path, node in self.tree.nodes.items() if node.owner == session_id]
        if owned:
            self.transact(session_id, [Delete(path) for path in owned])
        for session in self.sessions:
            if session_id and session.session_id == session_id:
                self.cut(session)

    def end_session(self, session: ModelSession) -> bool:
        """A client closes its session."""
        session_id, session.session_id = session.session_id, 0
        session.watches.clear()
        self.expire(session_id)
        return True

    def stop(self) -> None:
        """The server stops; tree and sessions live on."""
        self.is_running = False
        for session in self.sessions:
            self.cut(session)

    def start(self) -> None:
        """The server runs again, and every client connects."""
        self.is_running, self.is_frozen = True, False
        for session in self.sessions:
            self.connect(session)

    def freeze(self) -> None:
        """The server takes no more requests, and the connections stay; `time_out` and `start` follow."""
        self.is_frozen = True

    def time_out(self, *, takes_effect: bool = False) -> None:
        """Every client gives up the server. `takes_effect`: the server does later what it was sent."""
        for session in self.sessions:
            while takes_effect and session.requests:
                _, arrive = session.requests.popleft()
                arrive()
            self.cut(session)

    # The tree

    def transact(self, session_id: int, operations: Sequence[Operation]) -> Results | Refused:
        """Do all of it or nothing, and send the events."""
        results = self.tree.transact(session_id, operations, self._now_ms())
        fired, self.tree.fired = self.tree.fired, []
        for kind, path in fired:
            for session in self.sessions:
                for watch in session.watches.pop((kind, path), ()):
                    self.put(session.events, partial(watch, session.relative(path)))
        return results


def parent(path: str) -> str:
    """The path above a path."""
    return path.rpartition("/")[0] or "/"


def _oldest(queue: Queue) -> int:
    return queue[0][0]
