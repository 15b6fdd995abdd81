"""Authorization: what each API asks of an authorizer, and what a client is told of that which is denied.

A rule stands where a handler is registered (`@handles(..., authorize=...)`). A route calls the rules before the handler
if the broker has an authorizer; a route without an authorizer is built without this step.

A rule does one of these:

- `require`: the whole request is denied, and the handler is not called;
- `split`: denied elements leave the request; their rows, with the error, are added to the response;
- `limit_partitions`: the handler gets the broker with partitions that raise for denied topics; their rows are made as
  those of any other error;
- `amend`: the response is changed before it is written, as where denied elements are left out without an error.

Source: `KafkaApis`, `ControllerApis` and `AuthHelper` of Apache Kafka 4.1.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from copy import copy
from dataclasses import replace
from enum import IntEnum
from functools import partial
from typing import Any, Protocol, cast

from headgate.gateway.api.context import Client, HandlerContext
from headgate.gateway.replication.replica import Replica
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.runtime.purgatory import SILENCE, Waiting, WaitList
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.schema import Message
from headgate.protocol.steps import Steps, is_steps, joined


class AclOperation(IntEnum):
    """What a client does with a resource. Source: org.apache.kafka.common.acl.AclOperation."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class AclResource(IntEnum):
    """The type of a resource. Source: org.apache.kafka.common.resource.ResourceType."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""

DENIALS = {
    AclResource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    AclResource.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    AclResource.USER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
"""The error of a denied operation, by the type of the resource."""


class Authorizer(Protocol):
    """Decides what clients may do. Both methods are called on the loop, once for each element of a request."""

    def allows(self, client: Client, operation: AclOperation, resource: AclResource, name: str) -> bool:
        """True if the client may do the operation on the resource of that name."""

    def allows_any(self, client: Client, operation: AclOperation, resource: AclResource) -> bool:
        """True if the client may do the operation on at least one resource of the type."""


class Authorization:
    """One request on its way through the rules of its API. Rules change `request`, `context` and `amends`."""

    __slots__ = ("_authorizer", "_known", "amends", "context", "request", "response")

    def __init__(self, authorizer: Authorizer, request: Any, context: HandlerContext) -> None:
        self.request = request
        self.context = context
        self.amends: list[Callable[[Any], None]] = []
        self.response: Message | None = None
        """The response, where nothing is left for the handler."""
        self._authorizer = authorizer
        self._known: dict[tuple[AclOperation, AclResource, str], bool] = {}

    def allows(self, operation: AclOperation, resource: AclResource, name: str) -> bool:
        """True if the client may do this. The authorizer is asked once in a request."""
        key = operation, resource, name
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._authorizer.allows(self.context.client, *key)
        return known

    def allows_any(self, operation: AclOperation, resource: AclResource) -> bool:
        """True if the client may do this with any resource of the type."""
        return self._authorizer.allows_any(self.context.client, operation, resource)

    def allows_cluster(self, operation: AclOperation) -> bool:
        """True if the client may do this with the cluster."""
        return self.allows(operation, AclResource.CLUSTER, CLUSTER_NAME)

    def allows_topic(self, operation: AclOperation, name: str, topic_id: bytes = b"") -> bool:
        """True if the client may do this with the topic, named by its name or id.

        An unknown id is allowed: the handler answers that no topic has it, and an id tells nothing of a topic.
        """
        known = name or self.context.broker.metadata.image.topic_names.get(topic_id)
        return known is None or self.allows(operation, AclResource.TOPIC, known)

    def require(self, operation: AclOperation, resource: AclResource, name: str) -> None:
        """Raises KafkaError with the error of the resource's type if the client may not do this."""
        if not self.allows(operation, resource, name):
            raise denied(resource)

    def split(
        self,
        asked: str,
        told: str,
        is_allowed: Callable[[Any], bool],
        refuse: Callable[[list[Any]], list[Any]] | None = None,
        code: ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ) -> None:
        """Let the denied elements of the request's array `asked` leave; their rows go behind the response's `told`.

        `refuse`: makes the rows of denied elements; without it, they are those of the message's own error response.
        With every element denied the handler is not called.
        """
        elements = getattr(self.request, asked)
        kept = [element for element in elements if is_allowed(element)]
        if len(kept) == len(elements):
            return
        left_out = [element for element in elements if not is_allowed(element)]
        response = _with(self.request, asked, left_out).error_response(self.context.version, code, code.message)
        if refuse is not None:
            setattr(response, told, refuse(left_out))
            if hasattr(response, "error_code"):  # which is of the whole request
                response.error_code = ErrorCode.NONE
        self.request = _with(self.request, asked, kept)
        if kept:
            self.add_rows(told, getattr(response, told))
        else:
            self.response = response

    def add_rows(self, told: str, rows: list[Any]) -> None:
        """Have these rows behind those of the response's array `told`."""
        self.amends.append(lambda response: setattr(response, told, joined(getattr(response, told), rows)))

    def keep_rows(self, told: str, is_kept: Callable[[Any], bool]) -> None:
        """Leave rows out of the response's array `told` without a word."""
        self.amends.append(
            lambda response: setattr(response, told, [row for row in getattr(response, told) if is_kept(row)])
        )

    def limit_partitions(self, is_allowed: Callable[[str], bool]) -> None:
        """Let the handler find partitions of those topics only that are allowed, by name."""
        services = self.context.broker
        partitions = cast("ReplicaManager", _AllowedPartitions(services.partitions, is_allowed))
        self.context = replace(self.context, broker=replace(services, partitions=partitions))

    def operations(self, resource: AclResource, name: str, possible: int) -> int:
        """The bit field of those of the `possible` operations that the client may do (KIP-430)."""
        return sum(
            1 << operation
            for operation in AclOperation
            if possible & 1 << operation and self.allows(operation, resource, name)
        )


Rule = Callable[[Authorization], None]


class _AllowedPartitions:
    """The replica manager, as the handler of one request sees it: `get` raises for partitions of denied topics."""

    def __init__(self, partitions: ReplicaManager, is_allowed: Callable[[str], bool]) -> None:
        self._partitions = partitions
        self._is_allowed = is_allowed

    def get(self, topic: str, index: int) -> Replica:
        """The partition. Raises KafkaError, TOPIC_AUTHORIZATION_FAILED before any other."""
        if not self._is_allowed(topic):
            raise denied(AclResource.TOPIC)
        return self._partitions.get(topic, index)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._partitions, name)


def denied(resource: AclResource) -> KafkaError:
    """The error of a denied operation."""
    code = DENIALS[resource]
    return KafkaError(code, code.message)


def _with(request: Any, name: str, value: Any) -> Any:
    """A copy of the request with another value in one field: an error response needs the request as it came."""
    changed = copy(request)
    setattr(changed, name, value)
    return changed


# The step of a route


def authorized(handler: Callable[[Any, HandlerContext], Any], rule: Rule, authorizer: Authorizer) -> Callable[..., Any]:
    """The handler behind its rule."""

    def handle(request: Any, context: HandlerContext) -> Any:
        authorization = Authorization(authorizer, request, context)
        rule(authorization)
        outcome = authorization.response
        if outcome is None:
            outcome = handler(authorization.request, authorization.context)
        return amended(outcome, partial(_apply, authorization.amends)) if authorization.amends else outcome

    return handle


def _apply(amends: Iterable[Callable[[Any], None]], response: Any) -> None:
    for amend in amends:
        amend(response)


def amended(outcome: Any, amend: Callable[[Any], None]) -> Any:
    """The outcome of a handler, with a response that `amend` has changed as soon as there is one."""
    if isinstance(outcome, Message):
        amend(outcome)
    elif isinstance(outcome, Waiting):
        _amend_waiting(outcome, amend)
    elif is_steps(outcome):
        return _amended_steps(outcome, amend)
    elif outcome is not None and outcome is not SILENCE:
        return _amended_task(outcome, amend)
    return outcome


def _amend_waiting(waiting: Waiting, amend: Callable[[Any], None]) -> None:
    attempt, expire = waiting.attempt, waiting.expire

    def attempt_amended(touched: WaitList) -> Any:
        return amended(attempt(touched), amend)

    def expire_amended() -> Any:
        return amended(expire(), amend)

    waiting.attempt, waiting.expire = attempt_amended, expire_amended


def _amended_steps(steps: Steps[Any], amend: Callable[[Any], None]) -> Steps[Any]:
    return amended((yield from steps), amend)


async def _amended_task(outcome: Awaitable[Any], amend: Callable[[Any], None]) -> Any:
    return amended(await outcome, amend)
