"""Single nodes of the cluster: its id, the controller and its epoch, the block of producer ids, the feature levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

from headgate.gateway.zookeeper.layout.node import (
    MAX_INT32,
    MAX_INT64,
    NO_FIELDS,
    NodeFields,
    decode_decimal,
    decode_fields,
    decode_json,
    encode_decimal,
    encode_object,
    with_unknown,
)

CONTROLLER_PATH: Final = "/controller"
CONTROLLER_EPOCH_PATH: Final = "/controller_epoch"
CLUSTER_ID_PATH: Final = "/cluster/id"
PRODUCER_IDS_PATH: Final = "/latest_producer_id_block"
OWN_FEATURES_PATH: Final = "/headgate/feature"
# The other nodes that a broker of Kafka 3.9 creates at its start
PERSISTENT_PATHS: Final = (
    "/consumers",
    "/brokers/ids",
    "/brokers/topics",
    "/config/changes",
    "/admin/delete_topics",
    "/brokers/seqid",
    "/isr_change_notification",
    PRODUCER_IDS_PATH,
    "/log_dir_event_notification",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)
_NO_KRAFT: Final = -1


class Controller(NamedTuple):
    """The broker that is the controller; the node is ephemeral.

    `kraft_controller_epoch` is -1 unless a KRaft controller has taken over (KIP-866). Then no other broker may write.
    """

    broker_id: int
    timestamp_ms: int
    kraft_controller_epoch: int = _NO_KRAFT

    @staticmethod
    def path() -> str:
        return CONTROLLER_PATH

    def encode(self) -> bytes:
        members = {
            "version": 2,
            "brokerid": self.broker_id,
            "timestamp": str(self.timestamp_ms),
            "kraftControllerEpoch": self.kraft_controller_epoch,
        }
        return encode_object(members)

    @classmethod
    def decode(cls, data: bytes | None) -> Self:
        """Kafka 0.8.0 wrote the id alone. Raises InvalidNode."""
        value = decode_json(CONTROLLER_PATH, data)
        fields = NodeFields(CONTROLLER_PATH, value if isinstance(value, dict) else {"brokerid": value})
        broker_id = fields.integer("brokerid", low=0 if not isinstance(value, dict) else -1)
        return cls(broker_id, fields.timestamp_ms(), fields.integer("kraftControllerEpoch", _NO_KRAFT))


class ControllerEpoch(NamedTuple):
    """The epoch of the last controller: every write of a controller is conditional on the version of this node."""

    epoch: int

    @staticmethod
    def path() -> str:
        return CONTROLLER_EPOCH_PATH

    def encode(self) -> bytes:
        return encode_decimal(self.epoch)

    @classmethod
    def decode(cls, data: bytes | None) -> Self:
        """Raises InvalidNode."""
        return cls(decode_decimal(CONTROLLER_EPOCH_PATH, data, low=0, high=MAX_INT32))


class ClusterId(NamedTuple):
    """The id that the first broker of 0.10.1 or newer made."""

    cluster_id: str

    @staticmethod
    def path() -> str:
        return CLUSTER_ID_PATH

    def encode(self) -> bytes:
        return encode_object({"version": "1", "id": self.cluster_id})

    @classmethod
    def decode(cls, data: bytes | None) -> Self:
        """Raises InvalidNode."""
        return cls(decode_fields(CLUSTER_ID_PATH, data).text("id"))


class ProducerIdBlock(NamedTuple):
    """The last block of producer ids taken: `first` to `last`, both included. The next begins after `last`."""

    broker_id: int
    first: int
    last: int

    @staticmethod
    def path() -> str:
        return PRODUCER_IDS_PATH

    def encode(self) -> bytes:
        members = {
            "version": 1,
            "broker": self.broker_id,
            "block_start": str(self.first),
            "block_end": str(self.last),
        }
        return encode_object(members)

    @classmethod
    def decode(cls, data: bytes | None) -> Self | None:
        """None where no block was ever taken. Raises InvalidNode."""
        if not data:
            return None
        fields = decode_fields(PRODUCER_IDS_PATH, data)
        block = cls(fields.integer("broker"), fields.decimal("block_start"), fields.decimal("block_end"))
        if block.last < block.first or block.last == MAX_INT64:
            fields.fail(f"the block from {block.first} to {block.last} is not one")
        return block


class OwnFeatures(NamedTuple):
    """The finalized levels of features that Kafka in ZooKeeper mode does not have; level 0 is off. Headgate's own.

    A broker of Kafka ends itself when it finds a feature in `/feature` that it does not know.
    """

    levels: Mapping[str, int]
    unknown: Mapping[str, Any] = NO_FIELDS

    @staticmethod
    def path() -> str:
        return OWN_FEATURES_PATH

    def encode(self) -> bytes:
        return with_unknown({"version": 1, "levels": dict(self.levels)}, self.unknown)

    @classmethod
    def decode(cls, data: bytes | None) -> Self:
        """Raises InvalidNode."""
        fields = decode_fields(OWN_FEATURES_PATH, data)
        fields.integer("version", low=1, high=1)
        return cls(fields.mapping_of_integers("levels"), fields.unknown())
