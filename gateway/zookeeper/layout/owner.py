"""`/headgate/brokers/<id>`: the process behind a session, so that its next start knows its own earlier session.

ZooKeeper keeps the ephemeral nodes of a killed process until the session times out. The next process on the same
directories may replace them if the earlier process is certainly gone: the new process holds the lock of the same file,
in the same boot of the same machine. On another machine, or after a reboot, it waits for the end of the session.

The node is separate from `/brokers/ids/<id>`, because other programs read every field there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Self

from headgate.gateway.zookeeper.layout.node import decode_fields, encode_object

OWNERS_PATH: Final = "/headgate/brokers"


class SessionOwner(NamedTuple):
    """A process. `boot` identifies its machine since the last boot, `locks` its lock files by id of their directory."""

    host: str
    process: int
    since_ms: int
    session_timeout_ms: int
    boot: str
    locks: Mapping[str, str]

    @staticmethod
    def path(node_id: int) -> str:
        return f"{OWNERS_PATH}/{node_id}"

    def encode(self) -> bytes:
        members = {
            "version": 1,
            "host": self.host,
            "process": self.process,
            "timestamp": str(self.since_ms),
            "session_timeout_ms": self.session_timeout_ms,
            "boot": self.boot,
            "locks": dict(self.locks),
        }
        return encode_object(members)

    @classmethod
    def decode(cls, node_id: int, data: bytes | None) -> Self:
        """Raises InvalidNode."""
        fields = decode_fields(cls.path(node_id), data)
        return cls(
            fields.text("host"),
            fields.integer("process"),
            fields.timestamp_ms(),
            fields.integer("session_timeout_ms", low=0),
            fields.text("boot"),
            fields.mapping_of_text("locks"),
        )

    def shares_directory(self, other: SessionOwner) -> bool:
        """Whether both processes use the same log directory, so that at most one of them runs."""
        return bool(self.locks.keys() & other.locks.keys())

    def holds_lock_of(self, other: SessionOwner) -> bool:
        """Whether this process holds a lock that the other process held. Then the other process is gone."""
        return bool(self.boot) and self.boot == other.boot and bool(self.locks.items() & other.locks.items())
