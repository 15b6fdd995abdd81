"""AddPartitionsToTxn: add partitions to a transaction, before it writes to them (KIP-98).

v2 PRODUCER_FENCED   v3 flexible   v4 many transactions at once, from brokers, which may only ask (KIP-890)
v5 TRANSACTION_ABORTABLE
"""

from headgate.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, string, v


class AddPartitionsToTxnTopic(Struct):
    """Partitions of a topic."""

    name: string = v("0+")
    partitions: array[int32] = v("0+")


class AddPartitionsToTxnTransaction(Struct):
    """A transaction and its partitions. `verify_only`: only check that the transaction has them."""

    transactional_id: string = v("4+")
    producer_id: int64 = v("4+")
    producer_epoch: int16 = v("4+")
    verify_only: boolean = v("4+")
    topics: array[AddPartitionsToTxnTopic] = v("4+")


class AddPartitionsToTxnRequest(Message, key=24, versions="0-5", flexible="3+"):
    """Clients use up to v3, with one transaction; brokers use v4 and later."""

    transactions: array[AddPartitionsToTxnTransaction] = v("4+")
    v3_and_below_transactional_id: string = v("0-3")
    v3_and_below_producer_id: int64 = v("0-3")
    v3_and_below_producer_epoch: int16 = v("0-3")
    v3_and_below_topics: array[AddPartitionsToTxnTopic] = v("0-3")


class AddPartitionsToTxnPartitionResult(Struct):
    """The result for a partition."""

    partition_index: int32 = v("0+")
    partition_error_code: int16 = v("0+")


class AddPartitionsToTxnTopicResult(Struct):
    """The partitions of a topic."""

    name: string = v("0+")
    results_by_partition: array[AddPartitionsToTxnPartitionResult] = v("0+")


class AddPartitionsToTxnResult(Struct):
    """The partitions of a transaction."""

    transactional_id: string = v("4+")
    topic_results: array[AddPartitionsToTxnTopicResult] = v("4+")


class AddPartitionsToTxnResponse(Message, key=24, response=True, versions="0-5", flexible="3+"):
    """One result for each partition of the request; if one fails, none is added."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("4+")
    results_by_transaction: array[AddPartitionsToTxnResult] = v("4+")
    results_by_topic_v3_and_below: array[AddPartitionsToTxnTopicResult] = v("0-3")
