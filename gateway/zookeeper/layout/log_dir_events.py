"""`/log_dir_event_notification`: the brokers whose log directories have failed, for the controller."""

from __future__ import annotations

from typing import Final, NamedTuple, Self

from headgate.gateway.zookeeper.layout.node import decode_fields, encode_object

LOG_DIR_EVENTS_PATH: Final = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX: Final = "log_dir_event_"
_FAILURE: Final = 1
"""Kafka's only kind of event."""


class LogDirEvent(NamedTuple):
    """A notification: other replicas of a broker are offline than before (KIP-112).

    The node is sequential; the controller deletes it. It names no replicas: the broker's answer to LeaderAndIsr does.
    """

    broker_id: int

    @staticmethod
    def path() -> str:
        """ZooKeeper appends the number."""
        return f"{LOG_DIR_EVENTS_PATH}/{LOG_DIR_EVENT_PREFIX}"

    def encode(self) -> bytes:
        return encode_object({"version": 1, "broker": self.broker_id, "event": _FAILURE})

    @classmethod
    def decode(cls, name: str, data: bytes | None) -> Self:
        """Raises InvalidNode."""
        return cls(decode_fields(f"{LOG_DIR_EVENTS_PATH}/{name}", data).integer("broker", low=0))
