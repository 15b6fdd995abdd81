"""The result of one request or one timer: records to write, replies to send, effects to run.

A shard (`gateway.coordinator.shard`) gets a request, the ticket of its reply, and the time. The shard looks at its
state and returns a `Decision`; it writes nothing and waits for nothing:

    decide -> append the records as one batch -> replay them into the shard -> high watermark -> replies, effects

Hard state is what records say, and changes by replay alone. Soft state (tickets, deadlines, members that are joining)
changes while deciding, and must be sound whether the append succeeds or not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self, TypeAlias

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.control import Marker
from headgate.protocol.schema import Message, Struct

NEVER = math.inf
"""The moment that does not come, in milliseconds of any clock."""

Records = list[tuple[Message, Message | None]]
"""Keys and values of `protocol.internal`; a value of None is a tombstone."""

Reply: TypeAlias = Struct | KafkaError
"""A whole response; or one row, where the handler makes a response of many (`CoordinatorRuntime.gather`)."""


class ProducerIdAndEpoch(NamedTuple):
    """The producer of a transaction."""

    producer_id: int
    producer_epoch: int


class RequestContext(NamedTuple):
    """What a shard may know of a connection and of a request on it; the host as Kafka writes it, "/127.0.0.1"."""

    client_id: str
    client_host: str
    version: int


class Ticket:
    """One request that waits for its reply. A shard keeps it as long as it likes, and names it in one decision."""

    __slots__ = ()

    @property
    def is_gone(self) -> bool:
        """Whether the client hung up. A reply is then allowed, and has no effect."""
        return False


@dataclass(slots=True)
class Decision:
    """The result of one request, or of one timer.

    records   are appended as one batch, in this order, and then replayed; all or none of them. With `is_atomic` false
              they may become several batches (tombstones of very many offsets, which need no company).
    replies   complete responses, or errors that become the error response of the request of that ticket. They leave
              when the records of this decision, and everything written before, are below the high watermark: nobody
              reads what may be lost. A ticket that is not among them stays parked until a later decision names it.
    failed    is called if the append failed, before the replies leave with the error instead: for soft state that
              would be wrong without the records. It must not raise.
    producer  makes the records part of a transaction of that producer: a transactional batch without a sequence, as
              Kafka's coordinators write it (KIP-447). The records are then atomic.
    marker    ends the transaction of `producer` in this log, with a control batch. Such a decision has no records.
    has_raised_epoch  the epoch of `producer` was raised for the marker, as the transaction protocol 2 does (KIP-890):
              the log then refuses a marker that comes too late (KIP-1228).
    effects   values that the runtime's `perform` carries out, in the order of the decisions, once the records of
              this decision, and everything written before, are below the high watermark. They are dropped if the
              write fails or the shard ends first: the shard that is loaded next must derive them from its records.
    leader_epoch  of the partition when the decision began to be written; set by the coordinator. The runtime fences
              the decision if that epoch has passed, and hands it to `perform`: Kafka's markers carry it.

    A shard may also raise KafkaError: the request is answered with it, and nothing is written.
    """

    records: Records = field(default_factory=list)
    replies: list[tuple[Ticket, Reply]] = field(default_factory=list)
    is_atomic: bool = True
    failed: Callable[[], None] | None = None
    producer: ProducerIdAndEpoch | None = None
    marker: Marker | None = None
    has_raised_epoch: bool = False
    effects: Sequence[object] = ()
    leader_epoch: int = -1

    @classmethod
    def reply(cls, ticket: Ticket, response: Struct) -> Self:
        """Answer, and write nothing."""
        return cls([], [(ticket, response)])

    @classmethod
    def refuse(cls, ticket: Ticket, code: ErrorCode, message: str | None = None) -> Self:
        """Answer with the error response of the request, and write nothing."""
        return cls([], [(ticket, KafkaError(code, message))])
