"""Requests that no client would send, but that every reader accepts: any value in any field, from one seed.

Each field has a pool of values that it mostly takes, so that requests meet what earlier ones made: it begins with what
handlers know, and takes in what the broker answers in a field of that name (member ids, epochs, sessions, topic ids).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from crc32c import crc32c

from headgate.protocol import wire
from headgate.protocol.emitter import fixed_format
from headgate.protocol.internal import consumer_protocol
from headgate.protocol.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from headgate.protocol.records import batch, legacy
from headgate.protocol.records.batch import Record
from headgate.protocol.schema import Message, Struct, tree

# What handlers know, by the field that has it; else a request would seldom get beyond the first check
KNOWN: dict[str, tuple[Any, ...]] = {
    "acks": (-1, 1),
    "config_names": ("retention.ms", "cleanup.policy"),
    "current_leader_epoch": (-1, 0),
    "fetch_offset": (0, 1),
    "group": ("g", "h"),
    "group_id": ("g", "h"),
    "groups": ("g", "h"),
    "groups_names": ("g", "h"),
    "index": (0, 1),
    "instance_id": (None,),
    "group_instance_id": (None, None, "i"),
    "isolation_level": (0, 1),
    "key": ("g", "h"),
    "key_type": (0,),
    "leader_epoch": (-1, 0),
    "max_wait_ms": (0, 100),
    "member_id": ("", ""),
    "member_epoch": (0, 1, -1),
    "min_bytes": (0, 1),
    "name": ("t", "u", "range", "retention.ms"),
    "partition": (0, 1),
    "partition_id": (0, 1),
    "partition_index": (0, 1),
    "partition_indexes": (0, 1, 2),
    "partition_max_bytes": (0, 1_000, 1_000_000),
    "protocol_name": ("range",),
    "protocol_type": ("consumer",),
    "rebalance_timeout_ms": (30_000,),
    "replica_id": (-1,),
    "resource_name": ("t", "u", "0", "", "g"),
    "resource_type": (2, 4, 8, 32),
    "server_assignor": (None, "uniform", "range"),
    "session_id": (0,),
    "session_epoch": (-1, 0, 1),
    "session_timeout_ms": (10_000,),
    "subscribed_topic_names": ("t", "u"),
    "timestamp": (-1, -2, -3, 0, 1_700_000_000_000),
    "topic": ("t", "u"),
    "topic_name": ("t", "u"),
    "topic_names": ("v", "w"),
    "transactional_id": (None,),
    "value": ("1000", "compact"),
}
TEXTS = ("", "x" * 300, "\u00e9", "t|u", "[", "__consumer_offsets", "gzip", "-1")
NUMBERS = (-1, 0, 1, 2, 3, 5, 100, -2, -3, -4, -5, -6, -100)
MAX_KEPT = 30
LONGEST_KEPT = 100
CRC_POSITION = 17


class Anything:
    """Random requests. `learn` takes what was answered into the pool."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._learnt: dict[str, list[Any]] = {}

    def request(self, cls: type[Message], version: int) -> Message:
        made = self._struct(tree(cls, version))
        assert isinstance(made, Message)
        return made

    def learn(self, value: Struct) -> None:
        """Remember what the fields of a response have, instead of something that is known."""
        for field in type(value).fields:
            content = getattr(value, field.name)
            for element in content[:5] if isinstance(content, list) else [content]:
                if isinstance(element, Struct):
                    self.learn(element)
                elif type(element) in {int, str, bytes} and len(str(element)) < LONGEST_KEPT:
                    self._keep(field.name, element)

    def _keep(self, name: str, value: Any) -> None:
        pool = self._learnt.setdefault(name, [])
        if value in pool:
            return
        if len(pool) < MAX_KEPT:
            pool.append(value)
        else:
            pool[self._random.randrange(MAX_KEPT)] = value

    def _of(self, name: str, kind: type, otherwise: Callable[[], Any]) -> Any:
        """What the field is known to have, or had in an answer, or something else."""
        random = self._random
        pool: Sequence[Any] = KNOWN.get(name, ())
        if not pool or random.random() < 0.3:
            pool = self._learnt.get(name, ())
        fitting = [value for value in pool if type(value) is kind]
        return random.choice(fitting) if fitting and random.random() < 0.9 else otherwise()

    def _value(self, node: Any, name: str) -> Any:
        random = self._random
        if isinstance(node, wire.NullableStructNode):
            return None if random.random() < 0.3 else self._struct(node.inner)
        if isinstance(node, wire.StructNode):
            return self._struct(node)
        null = 0.8 if None in KNOWN.get(name, ()) else 0.2
        if isinstance(node, wire.Array | wire.Blob) and node.length.nullable and random.random() < null:
            return None
        if isinstance(node, wire.Array):
            return self._elements(node.element, name)
        if isinstance(node, wire.Text):
            return self._of(name, str, lambda: random.choice(TEXTS))
        if isinstance(node, wire.Records):
            return self._records()
        if isinstance(node, wire.Blob):
            return self._blob()
        return self._fixed(node, name)

    def _struct(self, node: wire.StructNode) -> Struct:
        fields = {name: self._value(member, name) for name, member in node.members}
        for tagged in node.tagged or ():
            if self._random.random() < 0.2:
                fields[tagged.name] = self._value(tagged.node, tagged.name)
        made: Struct = node.cls(**fields)
        return made

    def _elements(self, node: Any, name: str) -> list[Any]:
        made = [self._value(node, name) for _ in range(self._random.choice((0, 1, 1, 1, 1, 1, 1, 2, 3)))]
        return made + made[:1] if self._random.random() < 0.05 else made

    def _fixed(self, node: Any, name: str) -> Any:
        code, random = str(fixed_format(node)), self._random
        if code == "?":
            return random.random() < 0.5
        if code == "d":
            return random.choice((0.0, -1.5, 1e300, float("inf"), float("nan")))
        if node is wire.UUID:
            return self._of(name, bytes, lambda: random.choice((wire.ZERO_UUID, bytes(range(16)))))
        bits = 8 * struct.calcsize(">" + code)
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if code.islower() else (0, (1 << bits) - 1)
        number = self._of(name, int, lambda: random.choice((*NUMBERS, low, high, low + 1, high - 1)))
        return number if low <= number <= high else 0

    def _blob(self) -> bytes:
        random = self._random
        topics = [random.choice(("t", "u")) for _ in range(random.randrange(3))]
        subscription = ConsumerProtocolSubscription(topics=topics, owned_partitions=[TopicPartition("t", [0, 1])])
        assignment = ConsumerProtocolAssignment(assigned_partitions=[TopicPartition(topic, [0]) for topic in topics])
        whole = consumer_protocol.encode(random.choice((subscription, assignment)), random.randrange(4))
        return random.choice((*[whole] * 9, whole[: len(whole) // 2], random.randbytes(20), b""))

    def _records(self) -> bytes:
        """A batch, or a set as before Kafka 0.11."""
        return self._batches() if self._random.random() < 0.7 else self._set()

    def _set(self) -> bytes:
        random, now_ms = self._random, 1_700_000_000_000
        magic, codec = random.randrange(2), random.randrange(4)
        records = [Record(-1, now_ms, random.choice((None, b"k")), b"v" * 30)] * random.randrange(1, 4)
        made = legacy.build(records, magic, codec=codec, log_append_time_ms=random.choice((-1, -1, -1, now_ms)))
        if random.random() < 0.3:
            made[random.randrange(len(made))] ^= 1 << random.randrange(8)
        return bytes(made) * random.choice((1, 1, 1, 2, 0)) + b"\0" * random.choice((*[0] * 9, 9))

    def _batches(self) -> bytes:
        random = self._random
        records = [
            Record(
                -1,
                random.choice((-1, 1_700_000_000_000, 1_700_000_000_000, 1 << 62)),
                random.choice((None, b"k")),
                b"v" * 30,
            )
            for _ in range(random.randrange(1, 4))
        ]
        made = batch.build(
            records,
            compression=random.randrange(5),
            producer_id=random.choice((-1, -1, -1, 0, 1000)),
            producer_epoch=random.choice((-1, 0, 1)),
            base_sequence=random.choice((-1, 0, 0, 1, 5)),
            is_transactional=random.random() < 0.02,
            is_control=random.random() < 0.02,
        )
        if random.random() < 0.3:
            place = random.randrange(len(made))
            made[place] ^= 1 << random.randrange(8)
            if place >= batch.CRC_START and random.random() < 0.8:
                struct.pack_into(">I", made, CRC_POSITION, crc32c(memoryview(made)[batch.CRC_START :]))
        return bytes(made) * random.choice((1, 1, 1, 1, 1, 1, 2, 0)) + b"\0" * random.choice((*[0] * 9, 9))
