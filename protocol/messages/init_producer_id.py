"""InitProducerId: get a producer id and epoch, for idempotence and for transactions (KIP-98).

v2 flexible   v3 the current id and epoch, to be bumped (KIP-360)   v4 PRODUCER_FENCED (KIP-588)
v5 TRANSACTION_ABORTABLE (KIP-890)   v6 two-phase commit (KIP-939), unstable in Kafka: declared, not advertised
"""

from headgate.protocol.schema import Message, boolean, int16, int32, int64, nullable_string, v


class InitProducerIdRequest(Message, key=22, versions="0-6", flexible="2+"):
    """Ask for an id. Without `transactional_id` it is for idempotence, and `transaction_timeout_ms` has no meaning."""

    transactional_id: nullable_string = v("0+")
    transaction_timeout_ms: int32 = v("0+")
    producer_id: int64 = v("3+", default=-1)
    producer_epoch: int16 = v("3+", default=-1)
    enable_2pc: boolean = v("6+")
    keep_prepared_txn: boolean = v("6+")


class InitProducerIdResponse(Message, key=22, response=True, versions="0-6", flexible="2+"):
    """The id and epoch; -1 and -1 with an error."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    producer_id: int64 = v("0+", default=-1, failed=-1)
    producer_epoch: int16 = v("0+", failed=-1)
    ongoing_txn_producer_id: int64 = v("6+", default=-1)
    ongoing_txn_producer_epoch: int16 = v("6+", default=-1)
