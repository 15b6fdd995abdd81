"""DescribeLogDirs: the partitions in the log directories of one broker (KIP-113).

v2 flexible   v3 top-level error (KIP-784)   v4 sizes of the volume (KIP-827)   v5 cordoned directories (KIP-1066)
"""

from headgate.protocol.errors import ErrorCode
from headgate.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, nullable_array, string, v


class DescribableLogDirTopic(Struct):
    """A topic and the requested partitions."""

    topic: string = v("0+")
    partitions: array[int32] = v("0+")


class DescribeLogDirsRequest(Message, key=35, versions="0-5", flexible="2+"):
    """Ask for partitions; null: all of them."""

    topics: nullable_array[DescribableLogDirTopic] = v("0+")

    def error_response(self, version: int, error: ErrorCode, message: str | None = None) -> "DescribeLogDirsResponse":
        """Return the error at the top. Before v3 there is no place for it, and the client sees no directory."""
        return DescribeLogDirsResponse(error_code=error)


class DescribeLogDirsPartition(Struct):
    """A partition with its bytes on disk and its lag. A future one is on the move to this directory."""

    partition_index: int32 = v("0+")
    partition_size: int64 = v("0+")
    offset_lag: int64 = v("0+")
    is_future_key: boolean = v("0+")


class DescribeLogDirsTopic(Struct):
    """The partitions of a topic in a directory."""

    name: string = v("0+")
    partitions: array[DescribeLogDirsPartition] = v("0+")


class DescribeLogDirsResult(Struct):
    """A log directory, by its absolute path. Sizes of its volume are in bytes, -1 if unknown."""

    error_code: int16 = v("0+")
    log_dir: string = v("0+")
    topics: array[DescribeLogDirsTopic] = v("0+")
    total_bytes: int64 = v("4+", default=-1)
    usable_bytes: int64 = v("4+", default=-1)
    is_cordoned: boolean = v("5+")


class DescribeLogDirsResponse(Message, key=35, response=True, versions="0-5", flexible="2+"):
    """One result for each log directory."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("3+")
    results: array[DescribeLogDirsResult] = v("0+")
