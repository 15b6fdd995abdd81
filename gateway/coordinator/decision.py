"""The result of one request or one timer: records to write, replies to send, effects to run.

A shard (`gateway.coordinator.shard`) gets a request, the ticket of its reply, and the time. The shard looks at its
state and returns a `Decision`; a shard writes nothing and waits for nothing:

    decide -> append the records as one batch -> replay them into the shard -> high watermark -> replies, effects

Records define the hard state; replay alone changes it. Soft state (tickets, deadlines, joining members) changes while
deciding, and must be sound whether the append succeeds or fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeAlias

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.control import Marker
from headgate.protocol.schema import Message, Struct

NEVER = math.inf
"""A time that never comes, in milliseconds of any clock."""

Records = list[tuple[Message, Any]]
"""Keys of `protocol.internal`, and values: messages of it too, or the state that `encode_value` of the internal topic
makes bytes of and that the shard replays as it is. A value of None is a tombstone."""

Reply: TypeAlias = Struct | KafkaError
"""A whole response, or one row of a response that a handler assembles (`CoordinatorRuntime.gather`)."""


class ProducerIdAndEpoch(NamedTuple):
    """The producer of a transaction."""

    producer_id: int
    producer_epoch: int


class RequestContext(NamedTuple):
    """The facts about a request that a shard may use; the host as Kafka writes it, "/127.0.0.1".

    `may_describe`: whether the client may DESCRIBE a topic of this name; None without an authorizer.
    """

    client_id: str
    client_host: str
    version: int
    may_describe: Callable[[str], bool] | None = None


class Ticket:
    """One request that waits for its reply. A shard may keep the ticket, and names it in exactly one decision."""

    __slots__ = ()

    is_gone: bool = False
    """Whether the client has closed the connection. A reply is still allowed, and has no effect."""


@dataclass(slots=True)
class Decision:
    """The result of one request or one timer.

    records   The coordinator appends them as one batch, in this order, and then replays them: all or none. With
              `is_atomic` false they may become several batches (tombstones of very many offsets are independent).
    replies   Complete responses, or errors for the request of the ticket. Replies leave when the records of this
              decision, and everything written before, are below the high watermark: no client reads what may be lost. A
              ticket without a reply stays parked until a later decision names it.
    failed    Called if the append failed, before the replies leave with the error instead: undoes soft state that
              would be wrong without the records. It must not raise.
    producer  Makes the records part of this producer's transaction: a transactional batch without a sequence, as
              Kafka's coordinators write it (KIP-447). The records are then atomic.
    marker    Ends the transaction of `producer` in this log with a control batch. Such a decision has no records.
    has_raised_epoch  The epoch of `producer` was raised for the marker, as the transaction protocol 2 does (KIP-890).
              The log then refuses a marker that comes too late (KIP-1228).
    effects   Values that the runtime's `perform` carries out, in the order of the decisions, once the records of this
              decision, and everything written before, are below the high watermark. Effects are dropped if the write
              fails or the shard ends first: the next shard must derive them from its records.

    A shard may also raise KafkaError: the coordinator answers the request with the error and writes nothing.
    """

    records: Records = field(default_factory=list)
    replies: list[tuple[Ticket, Reply]] = field(default_factory=list)
    is_atomic: bool = True
    failed: Callable[[], None] | None = None
    producer: ProducerIdAndEpoch | None = None
    marker: Marker | None = None
    has_raised_epoch: bool = False
    effects: Sequence[object] = ()

    @classmethod
    def reply(cls, ticket: Ticket, response: Struct) -> Self:
        """Answer and write nothing."""
        return cls([], [(ticket, response)])

    @classmethod
    def refuse(cls, ticket: Ticket, code: ErrorCode, message: str | None = None) -> Self:
        """Answer with the error response of the request and write nothing."""
        return cls([], [(ticket, KafkaError(code, message))])
