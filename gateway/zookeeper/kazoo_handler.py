"""How kazoo's one thread waits, connects and calls back; see `client.py`, which alone uses it."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final

from kazoo.handlers.threading import SequentialThreadingHandler

from headgate.gateway.zookeeper.security.tls_connection import connect, has_decrypted, reason_of
from headgate.protocol.security.client_security import InvalidClientSecurity

logger = logging.getLogger("headgate.zookeeper")

STANDSTILL_S: Final = 0.1
"""While the loop stands still: the seconds between two looks for a sign of the loop."""


class InlineHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's handler without threads for callbacks: callbacks run in the thread of the connection.

    `ended` is called at the end of the connection's thread: after `stop`, or after an unexpected error.
    `opened` is called with the address of each connection that opens, before ZooKeeper knows of the session.
    `may_beat` is called before each heartbeat: as long as it returns false, kazoo waits for data alone.
    `new_context` gives the TLS of a new connection; None: without TLS. `failed` is called with the reason of a
    connection that cannot be made.
    """

    def __init__(
        self,
        ended: Callable[[], None],
        opened: Callable[[tuple[str, int]], None],
        may_beat: Callable[[], bool] = lambda: True,
        new_context: Callable[[], ssl.SSLContext] | None = None,
        failed: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__()
        self.ended = ended
        self.opened = opened
        self.may_beat = may_beat
        self.new_context = new_context
        self.failed = failed

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], errors: Sequence[Any], timeout_s: float
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait for sockets. Only kazoo's wait for data and requests has two readers; a heartbeat follows its end."""
        decrypted = [reader for reader in readers if has_decrypted(reader)]
        if decrypted:
            return decrypted, [], []
        found: tuple[list[Any], list[Any], list[Any]] = super().select(readers, writers, errors, timeout_s)
        while len(readers) > 1 and not found[0] and not self.may_beat():
            found = super().select(readers, writers, errors, STANDSTILL_S)
        return found

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        address: tuple[str, int] = kwargs["address"]
        if self.new_context is None:
            connection = super().create_connection(*args, **kwargs)
        else:
            try:
                connection = connect(address, kwargs["hostname"], kwargs["timeout"], self.new_context(), self.failed)
            except (OSError, InvalidClientSecurity) as error:
                self.failed(reason_of(error) if isinstance(error, OSError) else str(error))
                raise ConnectionError from error  # kazoo tries again
        self.opened(address)
        return connection

    def spawn(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return super().spawn(self._run, func, *args, **kwargs)

    def _run(self, function: Callable[..., Any], *arguments: Any, **more: Any) -> None:
        try:
            function(*arguments, **more)
        except Exception:
            logger.exception("the connection to ZooKeeper failed unexpectedly; another one follows")
        finally:
            self.ended()

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)
