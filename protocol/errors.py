"""Kafka's error codes, and the two exceptions of this package.

Source: `org.apache.kafka.common.protocol.Errors`. The codes and names are Kafka's; the messages are shortened.
A client may repeat a request that failed with a retriable code, usually after a refresh of its metadata.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self, TypeVar

E = TypeVar("E", bound=BaseException)

_RETRIABLE = True
# CO_GENERATOR, CO_COROUTINE and CO_ASYNC_GENERATOR of `inspect`, whose import takes 8 ms of every command
_SUSPENDABLE: Final = 0x20 | 0x80 | 0x200


class ErrorCode(enum.IntEnum):
    """An error code, an int16 on the wire. `message` is for people. `retriable`: the client may try again."""

    message: str
    retriable: bool

    def __new__(cls, code: int, message: str = "", retriable: bool = False) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.message = message
        member.retriable = retriable
        return member

    UNKNOWN_SERVER_ERROR = -1, "The server met an unexpected error while processing the request."
    NONE = 0, ""
    OFFSET_OUT_OF_RANGE = 1, "The requested offset is not within the range of offsets kept by the server."
    CORRUPT_MESSAGE = 2, "The message fails its CRC, or has a bad size, or a null key on a compacted topic.", _RETRIABLE
    UNKNOWN_TOPIC_OR_PARTITION = 3, "This server does not host this topic-partition.", _RETRIABLE
    INVALID_FETCH_SIZE = 4, "The requested fetch size is invalid."
    LEADER_NOT_AVAILABLE = 5, "There is no leader for this topic-partition: an election is under way.", _RETRIABLE
    NOT_LEADER_OR_FOLLOWER = 6, "This broker is not the leader, or not a replica, of this topic-partition.", _RETRIABLE
    REQUEST_TIMED_OUT = 7, "The request timed out.", _RETRIABLE
    BROKER_NOT_AVAILABLE = 8, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, "The replica is not available for the requested topic-partition.", _RETRIABLE
    MESSAGE_TOO_LARGE = 10, "The request holds a message larger than the server accepts."
    STALE_CONTROLLER_EPOCH = 11, "The controller moved to another broker."
    OFFSET_METADATA_TOO_LARGE = 12, "The metadata field of the committed offset is too large."
    NETWORK_EXCEPTION = 13, "The server disconnected before a response was received.", _RETRIABLE
    COORDINATOR_LOAD_IN_PROGRESS = 14, "The coordinator is loading and cannot serve requests yet.", _RETRIABLE
    COORDINATOR_NOT_AVAILABLE = 15, "The coordinator is not available.", _RETRIABLE
    NOT_COORDINATOR = 16, "This is not the right coordinator.", _RETRIABLE
    INVALID_TOPIC_EXCEPTION = 17, "The operation is not allowed on this topic, or its name is invalid."
    RECORD_LIST_TOO_LARGE = 18, "The request holds a batch larger than the segment size of the server."
    NOT_ENOUGH_REPLICAS = 19, "Refused: there are fewer in-sync replicas than required.", _RETRIABLE
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "Written, but to fewer in-sync replicas than required.", _RETRIABLE
    INVALID_REQUIRED_ACKS = 21, "The required acks of the produce request are invalid."
    ILLEGAL_GENERATION = 22, "The generation of the group is not the current one."
    INCONSISTENT_GROUP_PROTOCOL = 23, "The protocols of the member do not fit those of the group, or are empty."
    INVALID_GROUP_ID = 24, "The group id is invalid."
    UNKNOWN_MEMBER_ID = 25, "The coordinator does not know this member."
    INVALID_SESSION_TIMEOUT = 26, "The session timeout is outside the range allowed by the broker."
    REBALANCE_IN_PROGRESS = 27, "The group is rebalancing: join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, "The size of the committed offset data is invalid."
    TOPIC_AUTHORIZATION_FAILED = 29, "Topic authorization failed."
    GROUP_AUTHORIZATION_FAILED = 30, "Group authorization failed."
    CLUSTER_AUTHORIZATION_FAILED = 31, "Cluster authorization failed."
    INVALID_TIMESTAMP = 32, "The timestamp of the message is out of the accepted range."
    UNSUPPORTED_SASL_MECHANISM = 33, "The broker does not support the requested SASL mechanism."
    ILLEGAL_SASL_STATE = 34, "The request is not valid in the current SASL state."
    UNSUPPORTED_VERSION = 35, "The version of the API is not supported."
    TOPIC_ALREADY_EXISTS = 36, "A topic with this name exists already."
    INVALID_PARTITIONS = 37, "The number of partitions is invalid."
    INVALID_REPLICATION_FACTOR = 38, "The replication factor is below 1 or above the number of available brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, "The replica assignment is invalid."
    INVALID_CONFIG = 40, "The configuration is invalid."
    NOT_CONTROLLER = 41, "This is not the controller of the cluster.", _RETRIABLE
    INVALID_REQUEST = 42, "The request is malformed, or not meant for this broker; see the log of the broker."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "The message format on the broker does not support the request."
    POLICY_VIOLATION = 44, "The request does not satisfy the configured policy."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "The broker received an out of order sequence number."
    DUPLICATE_SEQUENCE_NUMBER = 46, "The broker received a duplicate sequence number."
    INVALID_PRODUCER_EPOCH = 47, "The producer used an old epoch."
    INVALID_TXN_STATE = 48, "The transaction is not in a state that allows the operation."
    INVALID_PRODUCER_ID_MAPPING = 49, "The producer id is not the one assigned to the transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, "The transaction timeout is larger than the broker allows."
    CONCURRENT_TRANSACTIONS = 51, "Another operation on the same transaction is under way.", _RETRIABLE
    TRANSACTION_COORDINATOR_FENCED = 52, "The coordinator that sent the marker is no longer the current one."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "Transactional Id authorization failed."
    SECURITY_DISABLED = 54, "Security features are disabled."
    OPERATION_NOT_ATTEMPTED = 55, "The operation was not tried, because others of the same request failed."
    KAFKA_STORAGE_ERROR = 56, "The broker met a disk error at the log of the partition.", _RETRIABLE
    LOG_DIR_NOT_FOUND = 57, "The log directory is not configured on the broker."
    SASL_AUTHENTICATION_FAILED = 58, "SASL authentication failed."
    UNKNOWN_PRODUCER_ID = 59, "The broker knows nothing of the producer id: its records may be deleted."
    REASSIGNMENT_IN_PROGRESS = 60, "A partition reassignment is in progress."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation tokens are not enabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, "The server does not know this delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "The principal is neither owner nor renewer of the delegation token."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "Delegation token requests are not allowed on this channel."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "Delegation Token authorization failed."
    DELEGATION_TOKEN_EXPIRED = 66, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, "The principal type is not supported."
    NON_EMPTY_GROUP = 68, "The group is not empty."
    GROUP_ID_NOT_FOUND = 69, "The group does not exist."
    FETCH_SESSION_ID_NOT_FOUND = 70, "The fetch session was not found.", _RETRIABLE
    INVALID_FETCH_SESSION_EPOCH = 71, "The fetch session epoch is invalid.", _RETRIABLE
    LISTENER_NOT_FOUND = 72, "The leader has no listener that matches the one of the request.", _RETRIABLE
    TOPIC_DELETION_DISABLED = 73, "Topic deletion is disabled."
    FENCED_LEADER_EPOCH = 74, "The leader epoch in the request is older than the one on the broker.", _RETRIABLE
    UNKNOWN_LEADER_EPOCH = 75, "The leader epoch in the request is newer than the one on the broker.", _RETRIABLE
    UNSUPPORTED_COMPRESSION_TYPE = 76, "The client does not support the compression type of the partition."
    STALE_BROKER_EPOCH = 77, "The broker epoch has changed."
    OFFSET_NOT_AVAILABLE = 78, "The high watermark has not yet caught up after a leader election.", _RETRIABLE
    MEMBER_ID_REQUIRED = 79, "The member must join again with the member id it was given."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred leader is not available.", _RETRIABLE
    GROUP_MAX_SIZE_REACHED = 81, "The group has reached its largest size."
    FENCED_INSTANCE_ID = 82, "Another member with the same group.instance.id has taken this one's place."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "No eligible leader of the topic-partition is available.", _RETRIABLE
    ELECTION_NOT_NEEDED = 84, "The topic-partition needs no leader election.", _RETRIABLE
    NO_REASSIGNMENT_IN_PROGRESS = 85, "No partition reassignment is in progress."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "Offsets of a topic cannot be deleted while the group is subscribed to it."
    INVALID_RECORD = 87, "The record failed the validation of the broker."
    UNSTABLE_OFFSET_COMMIT = 88, "There are offsets of an open transaction.", _RETRIABLE
    THROTTLING_QUOTA_EXCEEDED = 89, "The throttling quota has been exceeded.", _RETRIABLE
    PRODUCER_FENCED = 90, "A newer producer with the same transactional id has taken over."
    RESOURCE_NOT_FOUND = 91, "The request names a resource that does not exist."
    DUPLICATE_RESOURCE = 92, "The request names the same resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, "The credential does not meet the criteria."
    INCONSISTENT_VOTER_SET = 94, "The sender or the recipient is not one of the expected voters."
    INVALID_UPDATE_VERSION = 95, "The given update version is invalid."
    FEATURE_UPDATE_FAILED = 96, "The finalized features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "The principal of a forwarded request cannot be read."
    SNAPSHOT_NOT_FOUND = 98, "The requested snapshot was not found."
    POSITION_OUT_OF_RANGE = 99, "The requested position is not within the snapshot."
    UNKNOWN_TOPIC_ID = 100, "This server does not host this topic ID.", _RETRIABLE
    DUPLICATE_BROKER_REGISTRATION = 101, "This broker id is in use already."
    BROKER_ID_NOT_REGISTERED = 102, "The broker id is not registered."
    INCONSISTENT_TOPIC_ID = 103, "The topic id in the request is not the one of the log.", _RETRIABLE
    INCONSISTENT_CLUSTER_ID = 104, "The cluster id in the request is not the one of the server."
    TRANSACTIONAL_ID_NOT_FOUND = 105, "The transactional id could not be found."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "The fetch session mixes topic ids and topic names.", _RETRIABLE
    INELIGIBLE_REPLICA = 107, "The new ISR holds at least one ineligible replica."
    NEW_LEADER_ELECTED = 108, "The partition was updated, but its leader has changed."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The requested offset has moved to tiered storage."
    FENCED_MEMBER_EPOCH = 110, "The member epoch is fenced: give up all partitions and join again."
    UNRELEASED_INSTANCE_ID = 111, "The instance id is still used by another member, which must leave first."
    UNSUPPORTED_ASSIGNOR = 112, "The assignor or its version range is not supported by the group."
    STALE_MEMBER_EPOCH = 113, "The member epoch is stale: retry with the epoch of the next heartbeat."
    MISMATCHED_ENDPOINT_TYPE = 114, "The request was sent to an endpoint of the wrong type."
    UNSUPPORTED_ENDPOINT_TYPE = 115, "This endpoint type is not supported."
    UNKNOWN_CONTROLLER_ID = 116, "This controller id is not known."
    UNKNOWN_SUBSCRIPTION_ID = 117, "The subscription id of the pushed telemetry is invalid or outdated."
    TELEMETRY_TOO_LARGE = 118, "The pushed telemetry is larger than the broker accepts."
    INVALID_REGISTRATION = 119, "The controller considers the registration of the broker invalid."
    TRANSACTION_ABORTABLE = 120, "The transaction met an error; abort it to go on with this transactional id."
    INVALID_RECORD_STATE = 121, "The state of the record does not allow this acknowledgement."
    SHARE_SESSION_NOT_FOUND = 122, "The share session was not found.", _RETRIABLE
    INVALID_SHARE_SESSION_EPOCH = 123, "The share session epoch is invalid.", _RETRIABLE
    FENCED_STATE_EPOCH = 124, "The state epoch in the request is not the one of the share coordinator."
    INVALID_VOTER_KEY = 125, "The voter key is not the one of the receiving replica."
    DUPLICATE_VOTER = 126, "The voter is a voter already."
    VOTER_NOT_FOUND = 127, "The voter is not one of the voters."
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = 129, "The metadata of the client is stale: bootstrap again."
    STREAMS_INVALID_TOPOLOGY = 130, "The topology is invalid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The topology epoch is invalid."
    STREAMS_TOPOLOGY_FENCED = 132, "The topology epoch is outdated."
    SHARE_SESSION_LIMIT_REACHED = 133, "The limit of share sessions has been reached.", _RETRIABLE
    GROUP_DELETION_FAILED = 134, "The group could not be deleted; see the message of the result."
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135, "The topology description was not processed; see the message."
    CONTROLLER_ID_NOT_REGISTERED = 136, "The controller id is not registered."


MAX_MESSAGE_LENGTH = 500


class KafkaError(Exception):
    """An error for the client: a code and a message. Dispatch turns the exception into the API's error response.

    `message` defaults to the message of the code. A message may quote bytes of the client. So it is cut to
    `MAX_MESSAGE_LENGTH` characters, which fit the int16 length of old versions.
    `record_errors`: the refused records of a batch, each with its index and a message (KIP-467).
    """

    def __init__(
        self, code: ErrorCode, message: str | None = None, record_errors: Sequence[tuple[int, str]] = ()
    ) -> None:
        self.code = code
        self.record_errors = record_errors
        self.message = code.message if message is None else message
        if len(self.message) > MAX_MESSAGE_LENGTH:
            self.message = self.message[: MAX_MESSAGE_LENGTH - 3] + "..."
        super().__init__(code, self.message)

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"

    def copy(self) -> KafkaError:
        """Return an equal error to be raised where this one is kept: a raised exception gets a traceback."""
        return KafkaError(self.code, self.message, self.record_errors)


class MalformedRequest(Exception):
    """Invalid bytes of a message. A read of a message raises no other error."""


def without_frames(error: E) -> E:
    """Free what the frames of an exception hold. The exception is kept, or passed on as a result. Return it.

    A traceback keeps the local variables of each function that the exception has passed: buffers of a batch, or an
    object that refers to the exception, which is a cycle. A KafkaError is an answer, which the log shows by its text:
    it loses its traceback. Any other exception may be a fault, and the log needs the lines of its traceback: only the
    variables are cleared. Generators keep theirs, as `clear` would end one that has caught the exception and goes on.
    """
    chain: BaseException | None = error
    seen: set[int] = set()  # a cause may have the exception itself as its context
    while chain is not None and id(chain) not in seen:
        seen.add(id(chain))
        following = chain.__cause__ or chain.__context__
        if isinstance(chain, KafkaError):
            chain.__traceback__ = chain.__context__ = None
        elif chain.__traceback__ is not None:
            _clear_frames(chain.__traceback__)
            if chain is error:  # the first frame is the caller's, which runs on: its variables stay
                chain.__traceback__ = chain.__traceback__.tb_next or chain.__traceback__
        chain = following
    return error


def _clear_frames(lines: TracebackType) -> None:
    link: TracebackType | None = lines
    while link is not None:
        if not link.tb_frame.f_code.co_flags & _SUSPENDABLE:
            with suppress(RuntimeError):  # the function is still running
                link.tb_frame.clear()
        link = link.tb_next
