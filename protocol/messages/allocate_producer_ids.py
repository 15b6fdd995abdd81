"""AllocateProducerIds: a broker takes a block of producer ids from the controller (KIP-730)."""

from headgate.protocol.schema import Message, int16, int32, int64, v


class AllocateProducerIdsRequest(Message, key=67, versions="0", flexible="0+"):
    """Take the next block."""

    broker_id: int32 = v("0+")
    broker_epoch: int64 = v("0+", default=-1)


class AllocateProducerIdsResponse(Message, key=67, response=True, versions="0", flexible="0+"):
    """The block, from its first id on."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    producer_id_start: int64 = v("0+")
    producer_id_len: int32 = v("0+")
