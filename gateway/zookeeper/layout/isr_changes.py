"""`/isr_change_notification`: the partitions whose in-sync replicas a leader has changed, for the controller."""

from __future__ import annotations

from typing import Final, NamedTuple, Self

from headgate.gateway.zookeeper.layout.admin import decode_partitions, encode_partitions

ISR_CHANGES_PATH: Final = "/isr_change_notification"
ISR_CHANGE_PREFIX: Final = "isr_change_"


class IsrChange(NamedTuple):
    """A notification: these partitions have other in-sync replicas. The node is sequential; the controller deletes it.

    Brokers of Kafka write it with an inter.broker.protocol.version below 2.7.
    """

    partitions: tuple[tuple[str, int], ...]

    @staticmethod
    def path() -> str:
        """ZooKeeper appends the number."""
        return f"{ISR_CHANGES_PATH}/{ISR_CHANGE_PREFIX}"

    def encode(self) -> bytes:
        return encode_partitions(self.partitions)

    @classmethod
    def decode(cls, name: str, data: bytes | None) -> Self:
        """Raises InvalidNode."""
        return cls(decode_partitions(f"{ISR_CHANGES_PATH}/{name}", data))
