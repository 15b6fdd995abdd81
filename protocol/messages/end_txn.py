"""EndTxn: commit or abort a transaction (KIP-98).

v2 PRODUCER_FENCED   v3 flexible   v4 TRANSACTION_ABORTABLE   v5 a new epoch for the next transaction (KIP-890)
"""

from headgate.protocol.schema import Message, boolean, int16, int32, int64, string, v


class EndTxnRequest(Message, key=26, versions="0-5", flexible="3+"):
    """End a transaction: commit it if `committed`, else abort it."""

    transactional_id: string = v("0+")
    producer_id: int64 = v("0+")
    producer_epoch: int16 = v("0+")
    committed: boolean = v("0+")


class EndTxnResponse(Message, key=26, response=True, versions="0-5", flexible="3+"):
    """The result, and the producer's next id and epoch; -1 before v5."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    producer_id: int64 = v("5+", default=-1)
    producer_epoch: int16 = v("5+", default=-1)
