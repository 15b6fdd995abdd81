"""WriteTxnMarkers: write the markers that end transactions, as a transaction coordinator or an operator asks (KIP-98).

v1 flexible   v2 the version of the transaction protocol: markers with a raised epoch (KIP-1228)

Kafka's `kafka-transactions abort` ends hanging transactions by this request (KIP-664).
"""

from __future__ import annotations

from functools import partial

from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization, denied, note_other_broker
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import ROWS_A_STEP
from headgate.gateway.coordinator.transactions.markers import Marker
from headgate.gateway.runtime.tasks import PAUSE, Changes, Outcome, Task, WaitList
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

WAIT_MS = 30_000.0
"""Kafka's request.timeout.ms. The coordinator tries again whatever took longer."""


def _authorize(authorization: Authorization) -> None:
    """Require ALTER or CLUSTER_ACTION on the cluster."""
    if not (authorization.holds_cluster(AclOperation.ALTER) or authorization.is_broker()):
        raise denied(AclResource.CLUSTER)


@handles(WriteTxnMarkersRequest, versions="0-2", authorize=_authorize)
def write_txn_markers(request: WriteTxnMarkersRequest, context: HandlerContext) -> Outcome[WriteTxnMarkersResponse]:
    """Write each marker; the response waits until all of them are below the high watermark, or refused."""
    note_other_broker(context)
    return _Writes(context).write(request)


class _Writes:
    """The markers of one request, with the error codes so far."""

    def __init__(self, context: HandlerContext) -> None:
        self._services = context.broker
        self._codes: dict[int, dict[str, dict[int, ErrorCode | None]]] = {}  # by producer id, topic, index
        self._open = 0
        self._ended = WaitList()

    def write(self, request: WriteTxnMarkersRequest) -> Task[WriteTxnMarkersResponse]:
        """Append all markers, and wait for their ends.

        Several markers of one producer have one result; a producer without partitions has none.
        """
        markers, count = self._services.markers, 0
        for asked in request.markers:
            marker = Marker(
                asked.producer_id,
                asked.producer_epoch,
                asked.transaction_result,
                asked.coordinator_epoch,
                asked.transaction_version,
            )
            topics = self._codes.setdefault(asked.producer_id, {})
            for topic in asked.topics:
                codes = topics.setdefault(topic.name, {})
                for index in topic.partition_indexes:
                    self._open += 1
                    codes[index] = None
                    markers.append(marker, topic.name, index, partial(self._written, codes, index))
                    count += 1
                    if not count % ROWS_A_STEP:
                        markers.write_staged()
                        yield PAUSE
        markers.write_staged()
        changes = Changes((self._ended,), self._services.clock.monotonic_ms() + WAIT_MS)
        while self._open and (yield changes) is not None:
            pass
        return self._response()

    def _written(self, codes: dict[int, ErrorCode | None], index: int, error: KafkaError | None) -> None:
        codes[index] = ErrorCode.NONE if error is None else error.code
        self._open -= 1
        if not self._open:
            self._services.tasks.touch(self._ended)

    def _response(self) -> WriteTxnMarkersResponse:
        """The response; a marker that is not written by now has timed out, and may still be written."""
        return WriteTxnMarkersResponse(
            [
                WritableTxnMarkerResult(
                    producer_id,
                    [
                        WritableTxnMarkerTopicResult(
                            name,
                            [
                                WritableTxnMarkerPartitionResult(
                                    index, ErrorCode.REQUEST_TIMED_OUT if code is None else code
                                )
                                for index, code in codes.items()
                            ],
                        )
                        for name, codes in topics.items()
                    ],
                )
                for producer_id, topics in self._codes.items()
                if topics
            ]
        )
