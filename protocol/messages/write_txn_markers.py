"""WriteTxnMarkers: a transaction coordinator makes leaders write the markers that end transactions (KIP-98).

v1 flexible   v2 the version of the transaction protocol (KIP-1228)
"""

from headgate.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, int64, string, v


class WritableTxnMarkerTopic(Struct):
    """Partitions of a topic."""

    name: string = v("0+")
    partition_indexes: array[int32] = v("0+")


class WritableTxnMarker(Struct):
    """The end of a transaction (true: commit, false: abort), for its partitions at this leader."""

    producer_id: int64 = v("0+")
    producer_epoch: int16 = v("0+")
    transaction_result: boolean = v("0+")
    topics: array[WritableTxnMarkerTopic] = v("0+")
    coordinator_epoch: int32 = v("0+")
    transaction_version: int8 = v("2+")


class WriteTxnMarkersRequest(Message, key=27, versions="0-2", flexible="1+"):
    """Write markers. A coordinator of an older epoch is fenced."""

    markers: array[WritableTxnMarker] = v("0+")


class WritableTxnMarkerPartitionResult(Struct):
    """The result for a partition."""

    partition_index: int32 = v("0+")
    error_code: int16 = v("0+")


class WritableTxnMarkerTopicResult(Struct):
    """The partitions of a topic."""

    name: string = v("0+")
    partitions: array[WritableTxnMarkerPartitionResult] = v("0+")


class WritableTxnMarkerResult(Struct):
    """The partitions of a transaction, by its producer id."""

    producer_id: int64 = v("0+")
    topics: array[WritableTxnMarkerTopicResult] = v("0+")


class WriteTxnMarkersResponse(Message, key=27, response=True, versions="0-2", flexible="1+"):
    """One result for each partition of the request."""

    markers: array[WritableTxnMarkerResult] = v("0+")
