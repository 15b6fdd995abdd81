"""ListTransactions: the transactions of one coordinator (KIP-664).

v1 by age (KIP-994)   v2 by a pattern of transactional ids (KIP-1152)
"""

from headgate.protocol.schema import Message, Struct, array, int16, int32, int64, nullable_string, string, v


class ListTransactionsRequest(Message, key=66, versions="0-2", flexible="0+"):
    """Ask for transactions. An empty list, a negative `duration_filter` (in ms) or no pattern matches all."""

    state_filters: array[string] = v("0+")
    producer_id_filters: array[int64] = v("0+")
    duration_filter: int64 = v("1+", default=-1)
    transactional_id_pattern: nullable_string = v("2+", default=None)


class TransactionState(Struct):
    """A transaction. Its state has Kafka's spelling."""

    transactional_id: string = v("0+")
    producer_id: int64 = v("0+")
    transaction_state: string = v("0+")


class ListTransactionsResponse(Message, key=66, response=True, versions="0-2", flexible="0+"):
    """The matching transactions, and the unknown states of the request."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    unknown_state_filters: array[string] = v("0+")
    transaction_states: array[TransactionState] = v("0+")
