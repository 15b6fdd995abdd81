"""A level-triggered epoll, and its interface: a test gives the engine of `sockets.py` a scripted one."""

from __future__ import annotations

import os
import select
from typing import Protocol

import trio

# Poll for data; for room for more output; or only for the end of a socket that is not read now.
READING = select.EPOLLIN | select.EPOLLRDHUP
WRITING = select.EPOLLOUT | select.EPOLLRDHUP
HANGUP = select.EPOLLRDHUP


class Poller(Protocol):
    """The engine's interface to a level-triggered epoll; interest and `poll` are those of `select.epoll`."""

    def register(self, descriptor: int, events: int) -> None: ...
    def modify(self, descriptor: int, events: int) -> None: ...
    def unregister(self, descriptor: int) -> None: ...
    def poll(self, timeout_s: float, most: int) -> list[tuple[int, int]]: ...

    async def ready(self) -> None:
        """Wait until `poll` would return an event, or until `wake`."""

    def wake(self) -> None:
        """End the present `ready`. `poll` may then return an unregistered descriptor."""

    def close(self) -> None: ...


class Epoll:
    """The system's epoll object; trio waits for it."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._alarm = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # Edge-triggered: reported once for each write, so that the eventfd never has to be read.
        self._epoll.register(self._alarm, select.EPOLLIN | select.EPOLLET)
        self.register = self._epoll.register
        self.modify = self._epoll.modify
        self.unregister = self._epoll.unregister
        self.poll = self._epoll.poll
        self._fileno = self._epoll.fileno()

    async def ready(self) -> None:
        await trio.lowlevel.wait_readable(self._fileno)

    def wake(self) -> None:
        os.eventfd_write(self._alarm, 1)

    def close(self) -> None:
        trio.lowlevel.notify_closing(self._fileno)
        self._epoll.close()
        os.close(self._alarm)
