"""ZooKeeper in a simulated cluster: the model, with time, delays, cuts, and sessions that end by themselves.

A session ends once its host was silent for the session's timeout: dead, paused, or cut off. The host learns of it when
it connects again. A cut host notices after two thirds of the timeout that there is no server, as ZooKeeper's clients
do; a host that goes on after a pause notices a moment later. Requests of a session that has ended close the connection.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from headgate.gateway.tests.simulation.network import Network
from headgate.gateway.tests.simulation.world import Host, World
from headgate.gateway.zookeeper.session import Check, Delete, Operation, Refused, Results, SessionEvent
from headgate.gateway.zookeeper.tests.model import ModelSession, Queue, ZooKeeperModel

KEEPER: Final = "zookeeper"
SESSION_MS: Final = 2_000.0
AGAIN_MS: Final = 200.0
"""The pause of a client that finds no server."""


class SimulatedZooKeeper(ZooKeeperModel):
    """The server."""

    def __init__(self, world: World, network: Network) -> None:
        super().__init__(now_ms=lambda: 1_700_000_000_000 + int(world.now_ms))
        self.world = world
        self.network = network
        self.written: list[Callable[[int, str, bytes | None, bytes | None], None]] = []
        """Called with the session, a path, and its data before and after each write."""
        self._hosts: dict[ModelSession, Host] = {}
        self._of_queues: dict[int, tuple[ModelSession, bool]] = {}  # whether the queue leads to the server
        self._waiting: list[int] = []
        self._queues_by_id: dict[int, Queue] = {}
        self._silent_since: dict[ModelSession, float] = {}

    def session_of(self, host: Host, on_event: Callable[[SessionEvent], None], chroot: str) -> ModelSession:
        """A session of a host, not connected yet."""
        session = self.session(on_event, chroot)
        self._hosts[session] = host
        for queue in (session.requests, session.answers, session.refusals, session.events):
            self._of_queues[id(queue)] = session, queue is session.requests
            self._queues_by_id[id(queue)] = queue
        return session

    def host_of(self, session_id: int) -> Host | None:
        """The host whose session this is."""
        return next((host for each, host in self._hosts.items() if each.session_id == session_id), None)

    # What is on its way

    def put(self, queue: Queue, arrive: Callable[[], None]) -> None:
        super().put(queue, arrive)
        delay_ms = self.network.delay() + self.network.keeper_delay_ms
        self.world.after(delay_ms, partial(self._arrive, id(queue)))

    def _arrive(self, number: int) -> None:
        session, is_request = self._of_queues[number]
        queue, host = self._queues_by_id[number], self._hosts[session]
        is_cut = self._is_cut(host, to_server=is_request)
        if is_cut and queue is not session.refusals:
            self._waiting.append(number)
        elif queue and not is_request:
            host.deliver(partial(self._take, queue))
        elif queue and session.is_open and session.session_id in self._live:
            self._take(queue)
        elif queue:
            self.lose_connection(session)

    def _take(self, queue: Queue) -> None:
        if queue:
            queue.popleft()[1]()

    def _is_cut(self, host: Host, *, to_server: bool) -> bool:
        way = (host.name, KEEPER) if to_server else (KEEPER, host.name)
        return self.network.is_cut(*way)

    # Silence

    def look(self) -> None:
        """Note which hosts are silent now. Called after each change of ways and hosts."""
        waiting, self._waiting = self._waiting, []
        for number in waiting:
            self.world.after(self.network.delay(), partial(self._arrive, number))
        for session, host in self._hosts.items():
            is_cut = self._is_cut(host, to_server=True) or self._is_cut(host, to_server=False)
            if not (is_cut or host.is_paused or not host.is_running):
                if self._silent_since.pop(session, None) is not None:
                    self._connect_later(session)
            elif session not in self._silent_since:
                self._silent_since[session] = since_ms = self.world.now_ms
                self.world.after(SESSION_MS * 2 / 3, partial(self._notice, session, since_ms))
                late_ms = SESSION_MS * (1 + self.world.random.random() / 2)
                self.world.after(late_ms, partial(self._end, session, since_ms))

    def _notice(self, session: ModelSession, since_ms: float) -> None:
        """The client finds that its server is silent; a paused one does when it goes on."""
        if self._silent_since.get(session) == since_ms:
            self._hosts[session].deliver(partial(self.cut, session))

    def _end(self, session: ModelSession, since_ms: float) -> None:
        if self._silent_since.get(session) == since_ms and session.session_id in self._live:
            self.world.note(f"the session of {self._hosts[session]} ends")
            self.expire(session.session_id)

    def _connect_later(self, session: ModelSession) -> None:
        self.world.after(AGAIN_MS * self.world.random.random(), partial(self._reconnect, session))

    def _reconnect(self, session: ModelSession) -> None:
        host = self._hosts[session]
        if host.is_running and session.is_open and session not in self._silent_since:
            if session.session_id and session.session_id not in self._live:
                host.deliver(partial(self.cut, session))
            host.deliver(partial(self.connect, session))

    def expire(self, session_id: int) -> None:
        """The server ends a session; the client learns of it when it connects again."""
        self._live.discard(session_id)
        owned = [path for path, node in self.tree.nodes.items() if node.owner == session_id]
        if owned:
            self.transact(session_id, [Delete(path) for path in owned])
        for session in self._hosts:
            if session_id and session.session_id == session_id and session not in self._silent_since:
                self.lose_connection(session)

    def lose_connection(self, session: ModelSession) -> None:
        """Have a host lose its connection, and connect again."""
        self._hosts[session].deliver(partial(self.cut, session))
        self._connect_later(session)

    # Writes

    def transact(self, session_id: int, operations: Sequence[Operation]) -> Results | Refused:
        before = {each.path: self._data(each.path) for each in operations if not isinstance(each, Check)}
        results = super().transact(session_id, operations)
        if not isinstance(results, Refused):
            for path, data in before.items():
                for listener in self.written:
                    listener(session_id, path, data, self._data(path))
        return results

    def _data(self, path: str) -> bytes | None:
        node = self.tree.nodes.get(path)
        return None if node is None else node.data or b""

    def fields(self, path: str) -> dict[str, Any]:
        """The members of a node's JSON; empty where there is no node."""
        data = self._data(path)
        return json.loads(data) if data else {}
