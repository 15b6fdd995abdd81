"""A fetch of a client with a quota: the size of its response counts before it is sent (KIP-13, KIP-219).

A throttled fetch is answered at once and without partitions; its session goes on as if nothing had been asked.

Source: `KafkaApis.handleFetchRequest` and `FetchSession` of Apache Kafka 4.1.
"""

from __future__ import annotations

from headgate.gateway.api.context import Services
from headgate.gateway.api.fetch.plan import FetchPlan, FetchRows, ReadRow
from headgate.gateway.api.fetch.rows import PartitionReader, release_all
from headgate.gateway.api.fetch_sessions import FetchTurn
from headgate.gateway.api.throttling import RESPONSE_BYTES, ROW_BYTES, FetchMeter
from headgate.gateway.runtime.tasks import Task
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.fetch import FetchRequest, FetchResponse


class MeteredFetchPlan(FetchPlan):
    """A plan whose response may be withheld."""

    __slots__ = ("_meter",)

    def __init__(
        self,
        request: FetchRequest,
        broker: Services,
        turn: FetchTurn,
        now_ms: float,
        reader: PartitionReader,
        read: ReadRow | None,
        meter: FetchMeter,
    ) -> None:
        super().__init__(request, broker, turn, now_ms, reader, read)
        self._meter = meter
        if meter.most_bytes is not None:  # a larger response would be throttled always, and the client never go on
            self.limit(meter.most_bytes)

    def response(self, rows: FetchRows) -> FetchResponse:
        """The response, or an empty one with the throttle time."""
        return self._withheld(rows) or super().response(rows)

    def response_in_slices(self, rows: FetchRows) -> Task[FetchResponse]:
        """`response`, with any number of rows."""
        withheld = self._withheld(rows)
        return withheld if withheld is not None else (yield from super().response_in_slices(rows))

    def _withheld(self, rows: FetchRows) -> FetchResponse | None:
        size = RESPONSE_BYTES + ROW_BYTES * len(rows) + sum([len(row.records or b"") for row in rows])
        throttle_ms = self._meter.answer(size)
        if not throttle_ms:
            return None
        release_all(rows)
        session_id = self.broker.fetch_sessions.withhold(self.turn)
        return FetchResponse(throttle_ms, ErrorCode.NONE, session_id, [], self.reader.endpoints)
