"""Nodes of Kafka's brokers and controllers that Headgate does not read; recordings of Kafka prove the layouts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

from headgate.gateway.zookeeper.layout.node import (
    NO_FIELDS,
    InvalidNode,
    decode_fields,
    shown,
    with_unknown,
)

FEATURES_PATH: Final = "/feature"
_MAX_LEVEL: Final = 2**15 - 1
_SEQUENCE: Final = re.compile(r"-?[0-9]{10}", re.ASCII)


class Features(NamedTuple):
    """The finalized feature levels (KIP-584). `is_enabled` is false below inter.broker.protocol.version 2.7.

    Version 1 of the node has a lowest level too, equal to the level; brokers before 3.3 read no other version.
    A broker of Kafka ends itself when it finds a feature here that it does not know; see `OwnFeatures`.
    """

    levels: Mapping[str, int]
    is_enabled: bool = True
    version: int = 2
    unknown: Mapping[str, Any] = NO_FIELDS

    @staticmethod
    def path() -> str:
        return FEATURES_PATH

    def encode(self) -> bytes:
        names = ("max_version_level", "min_version_level")[: 2 if self.version == 1 else 1]
        features = {feature: dict.fromkeys(names, level) for feature, level in self.levels.items()}
        members = {"features": features, "version": self.version, "status": int(self.is_enabled)}
        return with_unknown(members, self.unknown)

    @classmethod
    def decode(cls, data: bytes | None) -> Self:
        """Raises InvalidNode."""
        fields = decode_fields(FEATURES_PATH, data)
        version = fields.integer("version", low=1, high=2)
        status = fields.integer("status", low=0, high=1)
        levels = {}
        for name, feature in fields.mapping_of_objects("features"):
            levels[name] = feature.integer("max_version_level", low=1, high=_MAX_LEVEL)
            if version == 1 and feature.integer("min_version_level", low=1) > levels[name]:
                raise InvalidNode(FEATURES_PATH, f"`min_version_level` of {name} is above its `max_version_level`")
        return cls(levels, bool(status), version, fields.unknown())


def sequence_number(name: str, prefix: str) -> int:
    """The number that ZooKeeper gave to a sequential node. Raises InvalidNode for another node."""
    digits = name.removeprefix(prefix)
    if not name.startswith(prefix) or not _SEQUENCE.fullmatch(digits):
        raise InvalidNode(shown(name), f"the name is not {prefix} and a number")
    return int(digits)
