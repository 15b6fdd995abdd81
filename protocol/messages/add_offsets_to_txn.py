"""AddOffsetsToTxn: add the offsets of a group to a transaction, before it commits them (KIP-98).

v2 PRODUCER_FENCED   v3 flexible   v4 TRANSACTION_ABORTABLE (KIP-890)
"""

from headgate.protocol.schema import Message, int16, int32, int64, string, v


class AddOffsetsToTxnRequest(Message, key=25, versions="0-4", flexible="3+"):
    """Add a group's partition of __consumer_offsets to a transaction."""

    transactional_id: string = v("0+")
    producer_id: int64 = v("0+")
    producer_epoch: int16 = v("0+")
    group_id: string = v("0+")


class AddOffsetsToTxnResponse(Message, key=25, response=True, versions="0-4", flexible="3+"):
    """The result of the request."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
