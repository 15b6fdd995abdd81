"""Produce: append batches to partitions.

v0-1 message sets of magic 0   v2 of magic 1, log_append_time   v3 record batches   v5 log_start_offset   v7 zstd   v8
record_errors and message (KIP-467)   v9 flexible   v10 leader hints (KIP-951)   v11 TRANSACTION_ABORTABLE   v12 adds
partitions to the transaction (KIP-890)   v13 topic ids (KIP-516)

Message sets, and batches that a topic stores in another form, are converted first: `gateway.api.conversion`.
`gateway.api.delayed_produce` has the waits of a reply, `gateway.api.transactions.transaction_verification` the first
batches of transactions.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from headgate.gateway.api.authorization import (
    AclOperation,
    AclResource,
    Authorization,
    PartitionRule,
    acts_as_broker,
)
from headgate.gateway.api.authorization_rules import partitions
from headgate.gateway.api.broker_endpoints import leader_of
from headgate.gateway.api.context import CloseConnection, HandlerContext, HandlerOutcome
from headgate.gateway.api.conversion import prepare_batches, prepare_message_set
from headgate.gateway.api.delayed_produce import Delayed, DelayedProduce, close_on_error
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.refusals import known_code, refusal
from headgate.gateway.api.transactions.transaction_verification import (
    TransactionVerification,
    UnverifiedAppend,
    check_transaction,
    delay_unverified,
    has_transactional_batch,
    has_unverified,
    verify_at_once,
)
from headgate.gateway.metadata.image import CENSUS
from headgate.gateway.replication.append import ACKS_ALL, FAILED, Append
from headgate.gateway.replication.append_queue import AppendQueue
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.tasks import Silent, Task, value_of
from headgate.protocol.census.rows import LINK
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from headgate.protocol.records.batch import CODEC_MASK, HEADER, HEADER_SIZE, MAGIC, BatchHeader
from headgate.protocol.records.compression import ZSTD
from headgate.protocol.steps import Steps
from headgate.storage.log.pending_write import AppendInfo
from headgate.storage.log.validation import BROKER, CONVERTED, prepare
from headgate.storage.log.verification import UnverifiedTransaction

logger = logging.getLogger("headgate.handlers")

_ACKS = (ACKS_ALL, 0, 1)
BATCHES_SINCE, STORAGE_ERROR_SINCE, ZSTD_SINCE, TOPIC_IDS_SINCE = 3, 4, 7, 13
"""The first versions with batches in place of message sets, with KAFKA_STORAGE_ERROR (KIP-112), zstd and topic ids."""
_ATTRIBUTES = BatchHeader._fields.index("attributes")
_MAGIC = BatchHeader._fields.index("magic")
_NOTHING = memoryview(b"")  # null: no batch


def _append(
    acks: int, topic: str, data: PartitionProduceData, context: HandlerContext, now_ms: int, delayed: list[Delayed]
) -> PartitionProduceResponse:
    """Append to one partition: as received, or else converted; now, or by the queue of a slow disk.

    The row reports the staged append; a failing `WriteBatcher.write_all` revokes the row.
    """
    broker, version = context.broker, context.version
    records = data.records if isinstance(data.records, memoryview) else _NOTHING
    try:
        if version < ZSTD_SINCE:
            if version < BATCHES_SINCE:
                return _convert(acks, topic, data, context, delayed)
            _check_codec(records, version)
        replica = broker.partitions.get(topic, data.index)
        client = context.client
        if topic not in client.topics_written:
            client.note_written(replica.topic)
        if not replica.stores_verbatim:
            return _convert(acks, topic, data, context, delayed)
        writer = replica.writer()
        if writer is not None:
            return _enqueue(acks, writer, replica, records, context, delayed)
        info = replica.stage(records, acks, now_ms)
    except (KafkaError, OSError) as error:
        if isinstance(error, KafkaError) and error.code is ErrorCode.INVALID_TIMESTAMP:
            return _convert(acks, topic, data, context, delayed)  # the records decide, and not the header
        return _refuse(topic, data, error, context, delayed)
    row = PartitionProduceResponse(
        data.index, ErrorCode.NONE, info.first_offset, info.log_append_time_ms, info.log_start_offset
    )
    staged = replica.log.staged
    if acks == ACKS_ALL and not replica.commits_at_write and replica.high_watermark <= info.last_offset:
        append = Append(replica, acks)
        delayed.append((append, row))
        if staged is None:
            append.end_write(info)
        else:
            broker.batcher.await_write(staged, append, info)
    elif staged is not None:
        refuse = row.refuse if version >= STORAGE_ERROR_SINCE else partial(_refuse_early_version, row)
        broker.batcher.promise(replica, staged, refuse)
    return row


def _authorize_transaction(authorization: Authorization) -> None:
    """Require WRITE on each topic, and for batches of a transaction on the transactional id.

    Kafka 3.0 dropped IDEMPOTENT_WRITE here (KIP-679).
    """
    request = authorization.request
    if has_transactional_batch(request):
        authorization.require(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, request.transactional_id)
    _authorize_topics(authorization)


_authorize_topics = partitions(AclOperation.WRITE)
_authorize = PartitionRule(AclOperation.WRITE, lambda request: request.transactional_id is None, _authorize_transaction)


def _refuse_early_version(row: PartitionProduceResponse, error: ErrorCode, message: str | None) -> None:
    """Revoke a row's result for a client that does not know KAFKA_STORAGE_ERROR."""
    row.refuse(*_known((error, message or ""), 0))


@handles(ProduceRequest, versions="3-12", authorize=_authorize, stages=True)
def produce(request: ProduceRequest, context: HandlerContext) -> HandlerOutcome:
    """Append every partition's batches; with acks=all the reply waits for the high watermark."""
    acks = request.acks
    if acks not in _ACKS:
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}; it can be -1, 0 or 1")
    if request.transactional_id is not None:
        verify_at_once(request, context)
    elif has_transactional_batch(request):
        message = "the batch of a transaction needs a request with a transactional id"
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, message)
    now_ms = context.broker.clock.now_ms()
    responses: list[TopicProduceResponse] = []
    delayed: list[Delayed] = []
    for topic in request.topic_data:
        name = topic.name
        rows = []
        for data in topic.partition_data:  # a comprehension would create and call a function for each topic
            rows.append(_append(acks, name, data, context, now_ms, delayed))  # noqa: PERF401
        responses.append(TopicProduceResponse(name, topic.topic_id, rows))
    response = ProduceResponse(responses)
    if acks == 0:
        context.broker.batcher.write_all()
        if not delayed:
            close_on_error(response)
            return None
    elif not delayed:
        return response
    if has_unverified(delayed):
        verification = TransactionVerification(
            request, context, response, delayed, partial(_append_verified, acks, context)
        )
        verified = _produce_verified(verification, request, context, response)
        return verified if acks else Silent(verified)
    produced = DelayedProduce(context, response, delayed, render)
    return produced.answer(request) if acks else produced.answer_silently()


def _produce_verified(
    verification: TransactionVerification, request: ProduceRequest, context: HandlerContext, response: ProduceResponse
) -> Task[Any]:
    produced = DelayedProduce(context, response, (yield from verification.verify()), render)
    if request.acks:
        return (yield from value_of(produced.answer(request)))
    silent = produced.answer_silently()
    if silent is not None:
        yield from silent.task
    return None


@handles(ProduceRequest, versions="13", authorize=_authorize, stages=True)
def produce_by_id(request: ProduceRequest, context: HandlerContext) -> HandlerOutcome:
    """Produce for versions with topic ids."""
    names = context.broker.metadata.image.topic_names
    for topic in request.topic_data:
        topic.name = names.get(topic.topic_id, "")
    return produce(request, context)


@handles(ProduceRequest, versions="0-2", authorize=_authorize)
def produce_sets(request: ProduceRequest, context: HandlerContext) -> HandlerOutcome:
    """Produce for versions with message sets, which are converted to batches.

    The first bytes of a ZooKeeper client look like a Produce version 0 without topics that needs no reply.
    """
    if request.acks == 0 and not request.topic_data:
        message = "the client sent a Produce without topics, or is a client of ZooKeeper: this is a Kafka listener"
        raise CloseConnection(message)
    return produce(request, context)


def _check_codec(records: memoryview, version: int) -> None:
    """Refuse zstd in a version that does not know the codec (KIP-110). Raises KafkaError."""
    if len(records) >= HEADER_SIZE:
        header = HEADER.unpack_from(records)
        if header[_MAGIC] >= MAGIC and header[_ATTRIBUTES] & CODEC_MASK == ZSTD:
            message = f"version {version} of Produce does not know zstd; version 7 does"
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message)


def _enqueue(
    acks: int,
    writer: AppendQueue,
    replica: Replica,
    records: memoryview,
    context: HandlerContext,
    delayed: list[Delayed],
) -> PartitionProduceResponse:
    """Append by the queue of a slow disk. Raises KafkaError."""
    now_ms = context.broker.clock.now_ms()
    # Now, not in the append's turn: after an INVALID_TIMESTAMP, `_append` has the records read.
    records = prepare(records, replica.log.config, now_ms)
    check_transaction(replica, records)
    append = Append(replica, acks)
    row = PartitionProduceResponse(replica.index, base_offset=-1)
    delayed.append((append, row))
    writer.append(records, acks, now_ms, append.end_write, CONVERTED)
    return row


def _convert(
    acks: int, topic: str, data: PartitionProduceData, context: HandlerContext, delayed: list[Delayed]
) -> PartitionProduceResponse:
    """Append records that are read one by one, or stored in another form: now if that is little work, else later."""
    broker, records = context.broker, data.records
    convert = prepare_message_set if context.version < BATCHES_SINCE else prepare_batches
    try:
        replica = broker.partitions.get(topic, data.index)
        if replica.origin is BROKER and not (topic == CENSUS and acts_as_broker(context, LINK)):
            _refuse_client(topic)
        replica.check_writable()
        if topic not in context.client.topics_written:
            context.client.note_written(replica.topic)
        view = records if isinstance(records, memoryview) else _NOTHING
        check_transaction(replica, view)
        copied = bytearray(view)  # the frame's buffer is reused before a later conversion
        append = Append(replica, acks)
        steps = convert(memoryview(copied), replica.log.config, broker.clock.now_ms(), replica.depth)
        result = _begin(
            append, steps, len(copied), lambda late: _append_converted(append, topic, late, context), context
        )
    except (KafkaError, OSError) as error:
        return _refuse(topic, data, error, context, delayed)
    if result is not None:
        _append_converted(append, topic, result, context)
    row = PartitionProduceResponse(data.index, base_offset=-1)
    delayed.append((append, row))
    return row


def _begin(
    append: Append, steps: Steps[memoryview], size: int, resume: Callable[[Any], None], context: HandlerContext
) -> memoryview | None:
    """Convert. Even a small conversion does not overtake a waiting one, for example after a client's timeout."""
    conversions = context.broker.conversions
    start = conversions.submit if append.replica.converting else conversions.run
    append.begin_conversion()
    try:
        result: memoryview | None = start(steps, size, resume, lambda: not append.has_ended)
    except BaseException:
        append.end_conversion()
        raise
    return result


def _refuse_client(topic: str) -> NoReturn:
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"only the broker writes to {topic}")


def _append_converted(append: Append, topic: str, result: memoryview | Exception, context: HandlerContext) -> None:
    """Append the result of a conversion, or fail with its error."""
    if append.has_ended:  # the client has got an error, and retries
        return
    broker, replica, acks = context.broker, append.replica, append.required_acks
    if not isinstance(result, memoryview):
        if not isinstance(result, KafkaError):
            logger.error("records for %s-%d cannot be converted", topic, replica.index, exc_info=result)
            result = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the records could not be converted")
        append.fail(result)
        return
    append.end_conversion()
    if not result:  # an empty set, which Kafka accepts
        append.end_write(AppendInfo(-1, -1, -1, replica.log.start_offset, -1, is_duplicate=False))
        return
    try:
        if broker.partitions.get(topic, replica.index) is not replica:
            _refuse_another(topic)
        now_ms, writer = broker.clock.now_ms(), replica.writer()
        if writer is None:
            append.end_write(replica.append(result, acks, now_ms, CONVERTED))
        else:
            writer.append(result, acks, now_ms, append.end_write, CONVERTED)
    except (KafkaError, OSError) as error:
        append.fail(error)


def _refuse_another(topic: str) -> NoReturn:
    message = f"{topic} was deleted and created again while its records were converted"
    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)


def _refuse(
    topic: str, data: PartitionProduceData, error: KafkaError | OSError, context: HandlerContext, delayed: list[Delayed]
) -> PartitionProduceResponse:
    """The row of an error; if another broker leads the partition, with that leader (KIP-951)."""
    if not topic and context.version >= TOPIC_IDS_SINCE:
        error = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
    if isinstance(error, UnverifiedTransaction):
        return delay_unverified(topic, data, error.header, context, delayed)
    context.broker.note_failure(context.client, "Produce", topic, error)
    code, message = _known(refusal(context.broker, error, topic, data.index), context.version)
    row = PartitionProduceResponse(data.index, code, -1, error_message=message)
    row.record_errors = _record_errors(error)
    if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        leader_id, leader_epoch, _ = leader_of(context, topic, data.index)
        row.current_leader = LeaderIdAndEpoch(leader_id, leader_epoch)
        delayed.append((None, row))
    return row


def _append_verified(
    acks: int, context: HandlerContext, append: UnverifiedAppend, delayed: list[Delayed]
) -> PartitionProduceResponse:
    """Append a batch whose transaction the coordinator has confirmed."""
    return _append(acks, append.topic, append.data, context, context.broker.clock.now_ms(), delayed)


def render(append: Append, row: PartitionProduceResponse, context: HandlerContext) -> None:
    """Write the state of an append into its row, in the form for this version."""
    if append.state is FAILED and append.error is not None:
        error, replica = append.error, append.replica
        row.refuse(*_known(refusal(context.broker, error, replica.topic, replica.index), context.version))
        row.record_errors = _record_errors(error)
    elif append.info is not None:
        info = append.info
        row.base_offset = info.first_offset
        row.log_append_time_ms, row.log_start_offset = info.log_append_time_ms, info.log_start_offset


def _known(refused: tuple[ErrorCode, str], version: int) -> tuple[ErrorCode, str]:
    """The error for the client's version."""
    code, message = refused
    return known_code(code, version, STORAGE_ERROR_SINCE), message


def _record_errors(error: KafkaError | OSError) -> list[BatchIndexAndErrorMessage]:
    """The records that caused a batch to be refused (KIP-467)."""
    errors = error.record_errors if isinstance(error, KafkaError) else ()
    return [BatchIndexAndErrorMessage(number, message) for number, message in errors]
