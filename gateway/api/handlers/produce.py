"""Produce: append batches to partitions.

v0-1 message sets of magic 0   v2 of magic 1, log_append_time   v3 record batches   v5 log_start_offset   v7 zstd   v8
record_errors and message (KIP-467)   v9 flexible   v10 leader hints (KIP-951)   v11 transactions known by the
coordinator (KIP-890)

Message sets, and batches that a topic stores otherwise than they come, are converted first: `gateway.api.conversion`.
"""

import logging
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeAlias

from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization
from headgate.gateway.api.authorization_rules import partitions
from headgate.gateway.api.context import CloseConnection, HandlerContext
from headgate.gateway.api.conversion import Done, Steps, batch_steps, set_steps
from headgate.gateway.api.endpoints import Endpoint, leader_of
from headgate.gateway.api.handlers import handles
from headgate.gateway.api.handlers.each import known_code, refusal
from headgate.gateway.replication.append_queue import AppendQueue
from headgate.gateway.replication.replica import ACKS_ALL, Replica
from headgate.gateway.runtime.purgatory import SILENCE, Waiting, WaitList
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from headgate.protocol.records.batch import CODEC_MASK, HEADER, HEADER_SIZE, BatchHeader
from headgate.protocol.records.compression import ZSTD
from headgate.storage.config import LogConfig
from headgate.storage.log.pending_write import AppendInfo
from headgate.storage.log.validation import OWN, PREPARED, prepare

logger = logging.getLogger("headgate.handlers")

Append: TypeAlias = Callable[
    [int, str, PartitionProduceData, HandlerContext, int, "list[Behind]"], PartitionProduceResponse
]
"""Appends to one partition: acks, topic, what to append, context, the time, and where rows go that have to wait."""
Make: TypeAlias = Callable[[memoryview, LogConfig, int, str], Steps[memoryview]]

_ACKS = (ACKS_ALL, 0, 1)
# The version from which on a client knows KAFKA_STORAGE_ERROR (KIP-112).
STORAGE_ERROR_SINCE = 4
_ATTRIBUTES = BatchHeader._fields.index("attributes")
# Who wants no reply does not give up by himself; after so long his connection goes on nevertheless.
PATIENCE_MS = 600_000.0
# A client's timeout is for the in-sync replicas. What else a row waits for gets so long at least, as most libraries do.
LEAST_WAIT_MS = 30_000.0
_NOTHING = memoryview(b"")  # null: no batch at all


class Behind:
    """A row of the response that has to wait: to be converted, to be written, or for the high watermark."""

    __slots__ = ("_end_offset", "acks", "is_raw", "partition", "row", "version")

    def __init__(
        self,
        row: PartitionProduceResponse,
        partition: Replica,
        acks: int,
        end_offset: int | None,
        version: int = STORAGE_ERROR_SINCE,
    ) -> None:
        self.row = row
        self.partition = partition
        self.is_raw = False  # waits for its conversion
        self.acks = acks
        self.version = version  # of the request: what it knows of errors
        self._end_offset = end_offset  # None until it is written

    def written(self, result: AppendInfo | KafkaError | OSError) -> None:
        """The write has ended."""
        self.end_conversion()
        if isinstance(result, KafkaError | OSError):
            self._refuse(result)
            self.row.record_errors = _record_errors(result)
            self._end_offset = 0
            return
        self.row.base_offset = result.first_offset
        self.row.log_append_time_ms, self.row.log_start_offset = result.log_append_time_ms, result.log_start_offset
        self._end_offset = result.last_offset + 1 if self.acks == ACKS_ALL else 0

    def begin_conversion(self) -> None:
        """Until it has ended, others of the partition queue up behind it."""
        self.is_raw = True
        self.partition.converting += 1

    def end_conversion(self) -> None:
        """It is converted, or was given up."""
        if self.is_raw:
            self.is_raw = False
            self.partition.converting -= 1

    @property
    def is_met(self) -> bool:
        """Whether there is nothing more to wait for."""
        end_offset = self._end_offset
        is_there = end_offset is not None and self.partition.high_watermark >= end_offset
        return is_there or self.row.error_code != ErrorCode.NONE

    @property
    def holds_up(self) -> bool:
        """Whether a client that wants no answer waits for it: for its conversion, and on a slow disk for its write."""
        if self.is_raw:
            return True
        disk = self.partition.disk
        return self._end_offset is None and disk is not None and disk.is_crowded and not self.is_met

    def give_up(self) -> None:
        """Refuse it if the disk failed to take what was written, or the topic was deleted: it will not be there."""
        log = self.partition.log
        if self._end_offset is None or self.is_met:
            return
        if log.sync_error is not None:
            self._refuse(log.sync_error)
        elif self._end_offset > log.end_offset:
            lost = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk has lost it before it was replicated")
            self._refuse(lost)
        elif log.is_retired and log.flushing is None:
            self.row.refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic was deleted before it was on the disk")

    def _refuse(self, error: KafkaError | OSError) -> None:
        self.row.refuse(*_known(refusal(error, self.partition.topic, self.partition.index), self.version))


class Unsynced(Behind):
    """A row that waits for nothing but the disk: it is written with others of its turn."""

    __slots__ = ()


class RowOfOld:
    """A row, to be refused as a version understands it that does not know of storage errors."""

    __slots__ = ("_row",)

    def __init__(self, row: PartitionProduceResponse) -> None:
        self._row = row

    def refuse(self, error: ErrorCode, message: str | None) -> None:
        """Say that nothing was appended after all."""
        self._row.refuse(*_known((error, message or ""), 0))


class Elsewhere(Behind):
    """A row that waits for nothing: somebody else leads its partition, and is to be named in the response."""

    __slots__ = ("endpoint",)

    @property
    def holds_up(self) -> bool:
        """It says an error."""
        return False

    def __init__(self, row: PartitionProduceResponse, endpoint: Endpoint | None) -> None:
        self.row = row
        self.endpoint = endpoint
        self.is_raw = False

    @property
    def is_met(self) -> bool:
        """It says an error."""
        return True


def _append(
    acks: int, topic: str, data: PartitionProduceData, context: HandlerContext, now_ms: int, behind: list[Behind]
) -> PartitionProduceResponse:
    """Append to one partition. The row promises what was staged; `WriteBatcher.commit` takes that back if it must."""
    broker = context.broker
    try:
        partition = broker.partitions.get(topic, data.index)
        if not partition.stores_verbatim:
            return _append_adapted(acks, topic, data, context, behind)
        records = data.records if isinstance(data.records, memoryview) else _NOTHING
        writer = partition.writer()
        if writer is not None:
            return _append_later(acks, writer, partition, records, context, behind)
        info = partition.stage(records, acks, now_ms)
    except (KafkaError, OSError) as error:
        if isinstance(error, KafkaError) and error.code is ErrorCode.INVALID_TIMESTAMP:
            return _append_adapted(acks, topic, data, context, behind)  # which looks for the records to be named
        return _refuse(topic, data, error, context, behind)
    row = PartitionProduceResponse(
        data.index, ErrorCode.NONE, info.first_offset, info.log_append_time_ms, info.log_start_offset
    )
    staged = partition.log.staged
    if staged is not None:
        broker.appends.promise(partition, staged, row if context.version >= STORAGE_ERROR_SINCE else RowOfOld(row))
    if acks == ACKS_ALL and partition.fsync_before_commit and partition.high_watermark <= info.last_offset:
        behind.append(Unsynced(row, partition, acks, info.last_offset + 1, context.version))
    return row


def _authorize(authorization: Authorization) -> None:
    """WRITE on each topic, and on the transactional id. IDEMPOTENT_WRITE is not asked for since Kafka 3.0 (KIP-679)."""
    transactional_id = authorization.request.transactional_id
    if transactional_id is not None:
        authorization.require(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, transactional_id)
    _authorize_topics(authorization)


_authorize_topics = partitions(AclOperation.WRITE)


@handles(ProduceRequest, versions="7-11", authorize=_authorize, stages=True)
def produce(
    request: ProduceRequest, context: HandlerContext, append: Append = _append
) -> ProduceResponse | Waiting | None:
    """Append every partition's batches; with acks=all the reply waits for the high watermark."""
    acks = request.acks
    if acks not in _ACKS:
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}; it can be -1, 0 or 1")
    now_ms = context.broker.clock.now_ms()
    responses: list[TopicProduceResponse] = []
    behind: list[Behind] = []
    for topic in request.topic_data:
        name = topic.name
        rows = []
        for data in topic.partition_data:  # a comprehension would be a function, made and called for each topic
            rows.append(append(acks, name, data, context, now_ms, behind))  # noqa: PERF401
        responses.append(TopicProduceResponse(name, partition_responses=rows))
    response = ProduceResponse(responses)
    if acks == 0:
        context.broker.appends.commit()
        held = [item for item in behind if item.holds_up]
        if held:
            return _wait_silently(context, response, held)
        _close_on_error(response)
        return None
    if behind:
        if any(type(item) is not Unsynced for item in behind):
            context.broker.appends.commit()
        response.node_endpoints = _endpoints(behind)
        behind = [item for item in behind if not item.is_met]
    return _wait(request, context, response, behind) if behind else response


@handles(ProduceRequest, versions="3-6", authorize=_authorize, stages=True)
def produce_before_zstd(request: ProduceRequest, context: HandlerContext) -> ProduceResponse | Waiting | None:
    """The same for versions that do not know zstd (KIP-110)."""
    return produce(request, context, _append_without_zstd)


@handles(ProduceRequest, versions="0-2", authorize=_authorize)
def produce_sets(request: ProduceRequest, context: HandlerContext) -> ProduceResponse | Waiting | None:
    """The same for message sets, which become batches.

    What a client of ZooKeeper says first can be read as a Produce 0 that sends nothing, and wants no reply.
    """
    if request.acks == 0 and not request.topic_data:
        raise CloseConnection("it sent a Produce without topics, or is a client of ZooKeeper: this is a Kafka listener")
    return produce(request, context, _append_set)


def _append_without_zstd(
    acks: int, topic: str, data: PartitionProduceData, context: HandlerContext, now_ms: int, behind: list[Behind]
) -> PartitionProduceResponse:
    records = data.records
    if isinstance(records, memoryview) and len(records) >= HEADER_SIZE:
        header = HEADER.unpack_from(records)
        if header[_ATTRIBUTES] & CODEC_MASK == ZSTD:
            message = f"version {context.version} of Produce does not know zstd; version 7 does"
            error = KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message)
            return _refuse(topic, data, error, context, behind)
    return _append(acks, topic, data, context, now_ms, behind)


def _append_set(
    acks: int, topic: str, data: PartitionProduceData, context: HandlerContext, now_ms: int, behind: list[Behind]
) -> PartitionProduceResponse:
    return _convert(acks, topic, data, context, behind, set_steps)


def _append_adapted(
    acks: int, topic: str, data: PartitionProduceData, context: HandlerContext, behind: list[Behind]
) -> PartitionProduceResponse:
    """Append where records have to be looked at, or are stored otherwise than they came."""
    return _convert(acks, topic, data, context, behind, batch_steps)


def _convert(
    acks: int, topic: str, data: PartitionProduceData, context: HandlerContext, behind: list[Behind], make: Make
) -> PartitionProduceResponse:
    """Convert, then append: now if that is little work, else later."""
    broker, records = context.broker, data.records
    try:
        partition = broker.partitions.get(topic, data.index)
        if partition.validate is OWN:
            _refuse_own(topic)
        partition.check_writable()
        # Its own bytes: what is converted later no longer finds the frame.
        copied = bytearray(records if isinstance(records, memoryview) else _NOTHING)
        item = Behind(PartitionProduceResponse(data.index, base_offset=-1), partition, acks, None, context.version)
        steps = make(memoryview(copied), partition.log.config, broker.clock.now_ms(), partition.validate)
        result = _begin(item, steps, len(copied), lambda late: _append_late(item, topic, late, context), context)
    except (KafkaError, OSError) as error:
        return _refuse(topic, data, error, context, behind)
    if result is not None:
        _append_converted(item, topic, result, context)
    behind.append(item)
    return item.row


def _begin(item: Behind, steps: Steps[memoryview], size: int, done: Done, context: HandlerContext) -> memoryview | None:
    """Convert: what is small does not overtake what waits, as when a client came again after a timeout."""
    conversions = context.broker.conversions
    start = conversions.submit if item.partition.converting else conversions.run
    item.begin_conversion()
    try:
        result: memoryview | None = start(steps, size, done, lambda: not item.row.error_code)
    except BaseException:
        item.end_conversion()
        raise
    return result


def _refuse_own(topic: str) -> NoReturn:
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is written by the broker alone")


def _append_late(item: Behind, topic: str, result: memoryview | Exception, context: HandlerContext) -> None:
    if item.row.error_code:  # the client was told that it failed, and sends it again
        return
    if isinstance(result, memoryview):
        _append_converted(item, topic, result, context)
    elif isinstance(result, KafkaError):
        item.written(result)
    else:
        logger.error("records for %s-%d cannot be converted", topic, item.partition.index, exc_info=result)
        item.written(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the records could not be converted"))
    context.broker.purgatory.touch(item.partition.waiters)


def _append_converted(item: Behind, topic: str, records: memoryview, context: HandlerContext) -> None:
    broker, partition, acks = context.broker, item.partition, item.acks
    item.end_conversion()
    if not records:  # an empty set, with which Kafka finds no fault
        item.written(AppendInfo(-1, -1, -1, partition.log.start_offset, -1, is_duplicate=False))
        return
    try:
        if broker.partitions.get(topic, partition.index) is not partition:
            _refuse_another(topic)
        now_ms, writer = broker.clock.now_ms(), partition.writer()
        if writer is None:
            item.written(partition.append(records, acks, now_ms, PREPARED))
        else:
            writer.append(records, acks, now_ms, item.written, PREPARED)
    except (KafkaError, OSError) as error:
        item.written(error)


def _known(refused: tuple[ErrorCode, str], version: int) -> tuple[ErrorCode, str]:
    """An error as the client's version knows it."""
    code, message = refused
    return known_code(code, version, STORAGE_ERROR_SINCE), message


def _refuse_another(topic: str) -> NoReturn:
    message = f"{topic} was deleted, and made anew, while its records were converted"
    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)


def _refuse(
    topic: str, data: PartitionProduceData, error: KafkaError | OSError, context: HandlerContext, behind: list[Behind]
) -> PartitionProduceResponse:
    """A row that says why nothing was appended, and if somebody else leads the partition, who that is (KIP-951)."""
    code, message = _known(refusal(error, topic, data.index), context.version)
    row = PartitionProduceResponse(data.index, code, -1, error_message=message)
    row.record_errors = _record_errors(error)
    if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        leader_id, leader_epoch, endpoint = leader_of(context, topic, data.index)
        row.current_leader = LeaderIdAndEpoch(leader_id, leader_epoch)
        behind.append(Elsewhere(row, endpoint))
    return row


def _record_errors(error: KafkaError | OSError) -> list[BatchIndexAndErrorMessage]:
    """The records for which a batch was refused (KIP-467)."""
    found = error.record_errors if isinstance(error, KafkaError) else ()
    return [BatchIndexAndErrorMessage(number, message) for number, message in found]


def _append_later(
    acks: int,
    writer: AppendQueue,
    partition: Replica,
    records: memoryview,
    context: HandlerContext,
    behind: list[Behind],
) -> PartitionProduceResponse:
    now_ms = context.broker.clock.now_ms()
    # Now, and not when it is its turn: what the loop has no time for is found out by `_append`.
    records = prepare(records, partition.log.config, now_ms, partition.validate)
    row = PartitionProduceResponse(partition.index, base_offset=-1)
    item = Behind(row, partition, acks, None, context.version)
    behind.append(item)
    writer.append(records, acks, now_ms, item.written, PREPARED)
    return row


def _wait(
    request: ProduceRequest, context: HandlerContext, response: ProduceResponse, behind: Sequence[Behind]
) -> Waiting:
    wait_ms: float = request.timeout_ms
    if request.acks != ACKS_ALL or any(item.is_raw for item in behind):
        wait_ms = max(wait_ms, LEAST_WAIT_MS)

    def attempt(_: WaitList) -> ProduceResponse | None:
        for item in behind:
            item.give_up()
        return response if all(item.is_met for item in behind) else None

    def expire() -> ProduceResponse:
        for item in behind:
            if not item.is_met:
                message = f"it was not written, or not by every in-sync replica, after {wait_ms:.0f} ms"
                item.row.refuse(ErrorCode.REQUEST_TIMED_OUT, message)
                item.end_conversion()
        return response

    lists = [item.partition.waiters for item in behind]
    return Waiting(lists, context.broker.clock.monotonic_ms() + wait_ms, attempt, expire)


def _endpoints(behind: Sequence[Behind]) -> list[NodeEndpoint]:
    found = {item.endpoint for item in behind if isinstance(item, Elsewhere) and item.endpoint is not None}
    return [NodeEndpoint(*endpoint) for endpoint in sorted(found, key=lambda endpoint: endpoint.node_id)]


def _wait_silently(context: HandlerContext, response: ProduceResponse, held: Sequence[Behind]) -> Waiting:
    """With acks=0 the connection waits: for order's sake, and so that not more and more is converted, or written."""

    def attempt(_: WaitList) -> object:
        return None if any(item.holds_up for item in held) else finish()

    def finish() -> object:
        _close_on_error(response)
        return SILENCE

    lists = [item.partition.waiters for item in held]
    return Waiting(lists, context.broker.clock.monotonic_ms() + PATIENCE_MS, attempt, finish, is_silent=True)


def _close_on_error(response: ProduceResponse) -> None:
    """With acks=0 no reply tells of an error: hanging up does, and makes the client refresh what it knows."""
    for topic in response.responses:
        for row in topic.partition_responses:
            if row.error_code != ErrorCode.NONE:
                what = f"produce with acks=0 to {topic.name}-{row.index}"
                raise CloseConnection(f"{what} failed with error {row.error_code}: {row.error_message}")
