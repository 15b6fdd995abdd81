"""Authorization: the operations that each API requires, and the errors and rows of denied ones.

A rule is named where a handler is registered (`@handles(..., authorize=...)`). With an authorizer, a route calls the
rule before the handler; without an authorizer, the route has no such step.

A rule does one of these:

- `require`: the whole request is denied, and the handler is not called;
- `split`: denied elements are removed from the request; their rows, with the error, are added to the response;
- `limit_partitions`: the handler gets a broker whose partitions raise for denied topics; their rows are made as for any
  other error. A `PartitionRule` does so too; with a stable authorizer, it remembers allowed topics until the image
  changes, so that Produce and Fetch cost about the same with ACLs as without;
- `amends`: the response is changed before it is written, for example to omit denied elements without an error.

Source: `KafkaApis`, `ControllerApis` and `AuthHelper` of Apache Kafka 4.1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from headgate.gateway.api.context import Client, Handler, HandlerContext, HandlerOutcome, Services
from headgate.gateway.audit.audit_log import AuditLog
from headgate.gateway.audit.changes import CHANGES, Describe
from headgate.gateway.metadata.image import Image
from headgate.gateway.replication.replica import Replica
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.log_output import LimitedLog
from headgate.gateway.runtime.tasks import Task, is_task, value_of
from headgate.protocol import registry
from headgate.protocol.acls import CLUSTER_NAME, AclOperation, AclResource
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.schema import Message
from headgate.protocol.steps import joined

__all__ = [
    "CLUSTER_NAME",
    "AclOperation",
    "AclResource",
    "Authorization",
    "Authorizer",
    "Rule",
    "StableAuthorizer",
    "acts_as_broker",
    "amended",
    "denied",
    "denied_brokers_log",
    "note_other_broker",
    "of_brokers",
    "with_audit",
    "with_authorization",
]

logger = logging.getLogger("headgate.authorizer")

DENIED_BROKER_EVERY_MS: Final = 60_000.0

M = TypeVar("M", bound=Message)

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
    """Decides what clients may do. Both methods are called on the event loop, once for each element of a request."""

    def allows(self, client: Client, operation: AclOperation, resource: AclResource, name: str) -> bool:
        """Whether the client may do the operation on this resource."""

    def allows_any(self, client: Client, operation: AclOperation, resource: AclResource) -> bool:
        """Whether the client may do the operation on at least one resource of the type."""


@runtime_checkable
class StableAuthorizer(Authorizer, Protocol):
    """An authorizer whose decisions change with the image alone, and have no other effect: they may be remembered.

    They depend on the client's principal and remote host alone.
    """

    def viewpoint(self, client: Client) -> Hashable:
        """All that decisions about the client's principal depend on, beside the image."""


class Authorization:
    """The authorization of one request by the rules of its API. Rules change `request`, `context` and `amends`."""

    __slots__ = ("_authorizer", "_known", "amends", "context", "request", "response")

    def __init__(self, authorizer: Authorizer, request: Any, context: HandlerContext) -> None:
        self.request = request
        self.context = context
        self.amends: list[Callable[[Any], None]] = []
        self.response: Message | None = None
        """The response, if nothing is left for the handler."""
        self._authorizer = authorizer
        self._known: dict[tuple[AclOperation, AclResource, str], bool] = {}

    @property
    def _allows_all(self) -> bool:
        """Whether the authorizer only observes."""
        return getattr(self._authorizer, "allows_all", False)

    def allows(self, operation: AclOperation, resource: AclResource, name: str) -> bool:
        """Whether the client may do this; otherwise the client gets an error, and the audit log a line.

        The authorizer is asked once for each request.
        """
        key = operation, resource, name
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._authorizer.allows(self.context.client, *key)
            if not known:
                self._report_refusal(*key)
        return known

    def allows_any(self, operation: AclOperation, resource: AclResource) -> bool:
        """`allows`, for any resource of the type."""
        is_allowed = self._authorizer.allows_any(self.context.client, operation, resource)
        if not is_allowed:
            self._report_refusal(operation, resource, None)
        return is_allowed

    def _report_refusal(self, operation: AclOperation, resource: AclResource, name: str | None) -> None:
        audit, client = self.context.broker.audit, self.context.client
        api = registry.APIS[self.request.api_key].name
        client.note_error(api, DENIALS[resource], name or "" if resource is AclResource.TOPIC else "")
        if audit is not None:
            audit.report_refusal(client, type(self.request), operation, resource, name)

    def holds(self, operation: AclOperation, resource: AclResource, name: str) -> bool:
        """Whether the client has this right, one of several that allow a request: without it, another one is asked for.

        An authorizer that only observes answers as one that enforces: so the other right is asked for as well.
        """
        authorizer = getattr(self._authorizer, "enforcing", self._authorizer)
        return bool(authorizer.allows(self.context.client, operation, resource, name))

    def holds_cluster(self, operation: AclOperation) -> bool:
        """`holds`, for the cluster."""
        return self.holds(operation, AclResource.CLUSTER, CLUSTER_NAME)

    def shows(self, operation: AclOperation, resource: AclResource, name: str) -> bool:
        """Whether the client may see a row; a denied row is omitted without an error, and is no refusal."""
        if self._allows_all:
            return True
        return self._authorizer.allows(self.context.client, operation, resource, name)

    def allows_cluster(self, operation: AclOperation) -> bool:
        return self.allows(operation, AclResource.CLUSTER, CLUSTER_NAME)

    def allows_topic(self, operation: AclOperation, name: str, topic_id: bytes = b"") -> bool:
        """Whether the client may do this on the topic with this name or id.

        An unknown id is allowed: the handler answers that no topic has the id, which reveals nothing about a topic.
        """
        known = name or self.context.broker.metadata.image.topic_names.get(topic_id)
        return known is None or self.allows(operation, AclResource.TOPIC, known)

    def shows_topic(self, operation: AclOperation, name: str, topic_id: bytes = b"") -> bool:
        """`shows`, for a topic with this name or id."""
        known = name or self.context.broker.metadata.image.topic_names.get(topic_id)
        return known is None or self.shows(operation, AclResource.TOPIC, known)

    def require(self, operation: AclOperation, resource: AclResource, name: str) -> None:
        """Raises KafkaError with the error of the resource's type if the client may not do this."""
        if not self.allows(operation, resource, name):
            raise denied(resource)

    def is_broker(self) -> bool:
        """Whether the client may act as a broker of the cluster (CLUSTER_ACTION). The log names one that may not."""
        if self.allows_cluster(AclOperation.CLUSTER_ACTION):
            return True
        client = self.context.client
        self.context.broker.denied_brokers.error(
            client.principal,
            "a broker is denied CLUSTER_ACTION: %s is %s on the listener %s; add %s to super.users of all brokers, or"
            " run headgate acls add --principal '%s' --cluster --operation cluster-action",
            client,
            *(client.principal, client.listener, client.principal, client.principal),
        )
        return False

    def split(
        self,
        request_field: str,
        response_field: str,
        is_allowed: Callable[[Any], bool],
        refuse: Callable[[list[Any]], list[Any]] | None = None,
        code: ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        message: str = "",
    ) -> None:
        """Remove denied elements from the request's `request_field`; add their rows to the response's `response_field`.

        `refuse`: makes the rows of denied elements; by default they are those of the message's own error response. If
        every element is denied, the handler is not called. `message`: in place of the error's own.
        """
        elements = getattr(self.request, request_field)
        kept = [element for element in elements if is_allowed(element)]
        if len(kept) == len(elements):
            return
        left_out = [element for element in elements if not is_allowed(element)]
        response = _with(self.request, request_field, left_out).error_response(
            self.context.version, code, message or code.message
        )
        if refuse is not None:
            setattr(response, response_field, refuse(left_out))
            if hasattr(response, "error_code"):  # the error of the whole request
                response.error_code = ErrorCode.NONE
        self.request = _with(self.request, request_field, kept)
        if kept:
            self.add_rows(response_field, getattr(response, response_field))
        else:
            self.response = response

    def add_rows(self, response_field: str, rows: list[Any]) -> None:
        self.amends.append(
            lambda response: setattr(response, response_field, joined(getattr(response, response_field), rows))
        )

    def keep_rows(self, response_field: str, is_kept: Callable[[Any], bool]) -> None:
        """Omit other rows from the response's array `response_field`, without an error."""
        self.amends.append(
            lambda response: setattr(
                response, response_field, [row for row in getattr(response, response_field) if is_kept(row)]
            )
        )

    def limit_partitions(self, is_allowed: Callable[[str], bool]) -> None:
        """Give the handler only partitions of allowed topics; `is_allowed` takes a topic's name."""
        services = self.context.broker
        self.context = copy(self.context)
        self.context.broker = _with_partitions(services, _AllowedPartitions(services.partitions, is_allowed))

    def leave_to_handler(self) -> None:
        """Have the handler ask `context.broker.authorizer` about each element, in steps."""
        services = self.context.broker
        if services.authorizer is not self._authorizer:
            self.context = replace(self.context, broker=replace(services, authorizer=self._authorizer))

    def operations(self, resource: AclResource, name: str, possible: int) -> int:
        """The bit field of the `possible` operations that the client may do (KIP-430)."""
        if self._allows_all:  # it would note operations that no client asks for
            return possible
        return sum(
            1 << operation
            for operation in AclOperation
            if possible & 1 << operation and self.shows(operation, resource, name)
        )


Rule = Callable[[Authorization], None]


@dataclass(frozen=True, slots=True)
class PartitionRule:
    """A rule that requires `operation` on the topic of every partition that the handler gets from the replica manager.

    `is_usual(request)`: whether the request needs nothing else; otherwise `rule` decides.
    """

    operation: AclOperation
    is_usual: Callable[[Any], bool]
    rule: Rule

    def __call__(self, authorization: Authorization) -> None:
        if self.is_usual(authorization.request):
            authorization.limit_partitions(partial(authorization.allows, self.operation, AclResource.TOPIC))
        else:
            self.rule(authorization)


class _AllowedPartitions(ReplicaManager):
    """The replica manager for the handler of one request: `get` raises for partitions of denied topics.

    All else is that of `partitions`, whose state this object shares. A proxy by `__getattr__` would slow down each
    access of an attribute.
    """

    __slots__ = ("_is_allowed",)

    def __init__(self, partitions: ReplicaManager, is_allowed: Callable[[str], bool]) -> None:
        self.__dict__ = partitions.__dict__
        self._is_allowed = is_allowed

    def get(self, topic: str, index: int) -> Replica:
        """The partition. Raises KafkaError, with TOPIC_AUTHORIZATION_FAILED before any other."""
        if not self._is_allowed(topic):
            raise denied(AclResource.TOPIC)
        return super().get(topic, index)


def _with_partitions(services: Services, partitions: ReplicaManager) -> Services:
    """The same services but for the replica manager. As `dataclasses.replace`, which takes ten times as long."""
    limited = object.__new__(Services)
    for name in _SERVICES:
        setattr(limited, name, getattr(services, name))
    limited.partitions = partitions
    return limited


_SERVICES = tuple(field.name for field in fields(Services))


def denied(resource: AclResource) -> KafkaError:
    code = DENIALS[resource]
    return KafkaError(code, code.message)


def _with(request: M, name: str, value: Any) -> M:
    """A copy of the request with another value in one field; an error response needs the original request."""
    changed = copy(request)
    setattr(changed, name, value)
    return changed


def denied_brokers_log(clock: Clock) -> LimitedLog:
    """The log of brokers without CLUSTER_ACTION: a line in a minute for each principal."""
    return LimitedLog(logger, clock, lines=1, interval_ms=DENIED_BROKER_EVERY_MS)


# The steps of a route


def of_brokers(handler: Handler) -> Handler:
    """The handler of an API between brokers: listeners that no broker uses refuse the request, as without the right.

    Other brokers use another listener than this one while a cluster changes its listener.
    """

    def handle(request: Message, context: HandlerContext) -> HandlerOutcome:
        if context.client.listener != context.broker.config.inter_broker_listener:
            return handle_once_known(request, context)
        context.client.note_broker()
        return handler(request, context)

    def handle_once_known(request: Message, context: HandlerContext) -> Task[Any]:
        listeners = context.broker.broker_listeners
        if listeners is None or not (yield from listeners.is_used(context.client.listener)):
            raise denied(AclResource.CLUSTER)
        context.client.note_broker()
        return (yield from value_of(handler(request, context)))

    return handle


def note_other_broker(context: HandlerContext) -> None:
    """Note the client of an API of brokers that tools use too: on the listener for brokers the client is a broker."""
    if context.client.listener == context.broker.config.inter_broker_listener:
        context.client.note_broker()


def acts_as_broker(context: HandlerContext, link: str) -> bool:
    """Whether the client is another broker's link of this name, by all that a broker can know.

    It uses the listener for brokers, has the client id of such a link, and may act as a broker (CLUSTER_ACTION).
    """
    broker, client = context.broker, context.client
    if broker.controller_orders is None or client.listener != broker.config.inter_broker_listener:
        return False
    if client.client_id not in {f"broker-{broker_id}-{link}" for broker_id in broker.metadata.image.brokers}:
        return False
    authorizer: Any = broker.authorizer
    resource = AclResource.CLUSTER, CLUSTER_NAME
    if authorizer is not None and not authorizer.allows(client, AclOperation.CLUSTER_ACTION, *resource):
        return False
    client.note_broker()
    return True


def with_authorization(handler: Handler, rule: Rule, authorizer: Authorizer) -> Handler:
    """The handler with its rule as a step before it."""
    handle = _with_rule(handler, rule, authorizer)
    if isinstance(rule, PartitionRule) and isinstance(authorizer, StableAuthorizer):
        return GrantedTopics(authorizer, rule).limited(handler, handle)
    return handle


def _with_rule(handler: Handler, rule: Rule, authorizer: Authorizer) -> Handler:
    def handle(request: Message, context: HandlerContext) -> HandlerOutcome:
        authorization = Authorization(authorizer, request, context)
        rule(authorization)
        outcome: HandlerOutcome = authorization.response
        if outcome is None:
            outcome = handler(authorization.request, authorization.context)
        return amended(outcome, partial(_apply, authorization.amends)) if authorization.amends else outcome

    return handle


class GrantedTopics:
    """The topics of partitions that clients were allowed to use in one way, until the image changes.

    Clients with the same principal and host share a limited broker. The number of brokers and of topics is bounded: a
    full memory is emptied.
    """

    MAX_REMEMBERED: Final = 1 << 14

    def __init__(self, authorizer: StableAuthorizer, rule: PartitionRule) -> None:
        self._authorizer = authorizer
        self._rule = rule
        self._services: dict[tuple[str, str], Services] = {}
        self._image: Image | None = None
        self._remembered = 0

    def limited(self, handler: Handler, with_rule: Handler) -> Handler:
        """The handler, with limited partitions for usual requests; `with_rule` has the others."""
        services, is_usual = self._services, self._rule.is_usual

        def handle(request: Message, context: HandlerContext) -> HandlerOutcome:
            client, broker = context.client, context.broker
            known = services.get((client.principal, client.remote_host))
            if known is None or self._image is not broker.metadata.image:
                known = self._limit(client, broker, type(request))
            if not is_usual(request):
                return with_rule(request, context)
            context.broker = known
            return handler(request, context)

        return handle

    def _limit(self, client: Client, services: Services, request: type[Message]) -> Services:
        """The broker for a client. Its partitions outlive the client, so they keep a client without a connection."""
        if self._image is not services.metadata.image:
            self._image = services.metadata.image
            self._forget()
        key = client.principal, client.remote_host
        kept = Client(client.remote_host, 0, client.local_host, client.local_port, client.listener, client.principal)

        def is_allowed(topic: str) -> bool:
            if self._authorizer.allows(kept, self._rule.operation, AclResource.TOPIC, topic):
                return True
            if services.audit is not None:
                services.audit.report_refusal(kept, request, self._rule.operation, AclResource.TOPIC, topic)
            return False

        self._count()
        partitions = _GrantedPartitions(services.partitions, is_allowed, self._count)
        self._services[key] = _with_partitions(services, partitions)
        return self._services[key]

    def _count(self) -> None:
        """Note that one more thing is about to be remembered."""
        self._remembered += 1
        if self._remembered > self.MAX_REMEMBERED:
            self._forget()

    def _forget(self) -> None:
        self._services.clear()
        self._remembered = 0


class _GrantedPartitions(_AllowedPartitions):
    """Partitions that remember which topics are allowed. A denied topic is asked for each time."""

    __slots__ = ("_count", "_topics")

    def __init__(
        self, partitions: ReplicaManager, is_allowed: Callable[[str], bool], count: Callable[[], None]
    ) -> None:
        super().__init__(partitions, is_allowed)
        self._topics: set[str] = set()
        self._count = count

    def get(self, topic: str, index: int) -> Replica:
        """As `_AllowedPartitions.get`."""
        replica = self.online.get((topic, index))
        if replica is not None and topic in self._topics:
            return replica
        replica = super().get(topic, index)
        self._topics.add(replica.log.key[0])
        self._count()
        return replica


def with_audit(handler: Handler, request: type[Message], audit: AuditLog) -> Handler:
    """The handler, with a report behind it; the handler itself if requests of this API change nothing."""
    describe = CHANGES.get(request.api_key)
    return handler if describe is None else _reporting(handler, describe, audit)


def _reporting(handler: Handler, describe: Describe, audit: AuditLog) -> Handler:
    def handle(request: Message, context: HandlerContext) -> HandlerOutcome:
        metadata = context.broker.metadata
        before = metadata.planned

        def report(response: Message) -> None:
            changes = partial(describe, request, response, before, metadata.image)
            audit.report_changes(context.client, type(request), changes)

        return amended(handler(request, context), report)

    return handle


def _apply(amends: Iterable[Callable[[Any], None]], response: Any) -> None:
    for amend in amends:
        amend(response)


def amended(outcome: HandlerOutcome, amend: Callable[[Any], None]) -> HandlerOutcome:
    """The outcome of a handler; `amend` changes the response as soon as there is one."""
    if isinstance(outcome, Message):
        amend(outcome)
    elif is_task(outcome):
        return _amended(outcome, amend)
    return outcome


def _amended(task: Task[Any], amend: Callable[[Any], None]) -> Task[Any]:
    response = yield from task
    if response is not None:
        amend(response)
    return response
