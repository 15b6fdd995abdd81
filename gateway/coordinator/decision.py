"""What a coordinator's machine answers: what is to be written down, and who hears what.

A machine is asked with a request, a ticket for its reply, and the time. It looks at the state of its shard and returns
a `Decision`. It writes nothing and waits for nothing:

    decide -> append the records as one batch -> replay them into the shard -> high watermark -> send the replies

Hard state is what records say, and changes by replay alone. Soft state (tickets, deadlines, members that are joining)
is changed while deciding, and must be sound whether the append succeeds or not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Self, TypeAlias

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.schema import Message, Struct

NEVER = math.inf
"""The moment that does not come, in milliseconds of any clock."""

Records = list[tuple[Message, Message | None]]
"""Keys and values of `protocol.internal.offsets`; a value of None is a tombstone."""

Reply: TypeAlias = Struct | KafkaError
"""A whole response; or the row of one group, where the handler makes a response of many (`Coordinators.gather`)."""


class RequestContext(NamedTuple):
    """What a machine may know of a connection and of a request on it; the host as Kafka writes it, "/127.0.0.1"."""

    client_id: str
    client_host: str
    version: int


class Ticket:
    """One request that waits for its reply. A machine keeps it as long as it likes, and names it in one decision."""

    __slots__ = ()

    @property
    def is_gone(self) -> bool:
        """Whether its connection hung up. To answer it then is allowed, and has no effect."""
        return False


@dataclass(slots=True)
class Decision:
    """What one request, or one tick, comes to.

    records  are appended as one batch, in this order, and then replayed; all or none of them. With `is_atomic` false
             they may become several batches (tombstones of very many offsets, which need no company).
    replies  complete responses, or errors that become the error response of the request of that ticket. Sent when the
             records of this decision, and whatever the shard wrote before, are below the high watermark: nobody reads
             what may be lost. A ticket that is not among them stays parked until a later decision has it.
    failed   called if the append failed, before the replies go out with the error instead: for soft state that would
             be wrong without the records. It must not raise.

    A machine may also raise KafkaError: the request is answered with it, and nothing is written.
    """

    records: Records = field(default_factory=list)
    replies: list[tuple[Ticket, Reply]] = field(default_factory=list)
    is_atomic: bool = True
    failed: Callable[[], None] | None = None

    @classmethod
    def reply(cls, ticket: Ticket, response: Struct) -> Self:
        """Answer, and write nothing."""
        return cls([], [(ticket, response)])

    @classmethod
    def refuse(cls, ticket: Ticket, code: ErrorCode, message: str | None = None) -> Self:
        """Answer with the error response of the request, and write nothing."""
        return cls([], [(ticket, KafkaError(code, message))])
