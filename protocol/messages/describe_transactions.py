"""DescribeTransactions: the state of transactions, from their coordinator (KIP-664)."""

from headgate.protocol.schema import Message, Struct, array, int16, int32, int64, string, v


class DescribeTransactionsRequest(Message, key=65, versions="0", flexible="0+"):
    """Ask for transactions by transactional id."""

    transactional_ids: array[string] = v("0+")


class TopicData(Struct):
    """Partitions of a topic."""

    topic: string = v("0+")
    partitions: array[int32] = v("0+")


class TransactionState(Struct):
    """A transaction: its state in Kafka's spelling (Empty, Ongoing, PrepareCommit ...), and its partitions."""

    error_code: int16 = v("0+")
    transactional_id: string = v("0+")
    transaction_state: string = v("0+")
    transaction_timeout_ms: int32 = v("0+")
    transaction_start_time_ms: int64 = v("0+")
    producer_id: int64 = v("0+")
    producer_epoch: int16 = v("0+")
    topics: array[TopicData] = v("0+")


class DescribeTransactionsResponse(Message, key=65, response=True, versions="0", flexible="0+"):
    """One result for each transactional id of the request."""

    throttle_time_ms: int32 = v("0+")
    transaction_states: array[TransactionState] = v("0+")
