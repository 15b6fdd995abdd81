"""Helpers of handlers: loops over topics and partitions, where an error makes one row, and stops no other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from headgate.gateway.api import authorized_operations
from headgate.gateway.api.config_resources import Resource
from headgate.gateway.api.context import HandlerContext, Services
from headgate.gateway.api.refusals import refusal
from headgate.gateway.coordinator.decision import Decision, RequestContext, Ticket
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.runtime.tasks import Changes, Outcome, Task, WaitList, value_of, within
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.steps import FEW_ITEMS, Steps, finish, lazy_map

if TYPE_CHECKING:
    from headgate.gateway.metadata.store import Change

P = TypeVar("P")
N = TypeVar("N")
R = TypeVar("R")
A = TypeVar("A")
"""The response."""
Named = TypeVar("Named", bound=Resource)


def each_row(
    broker: Services, items: Sequence[P], answer: Callable[[P], R], refuse: Callable[[P, ErrorCode, str], R]
) -> list[R]:
    """One row for every item: `answer(item)`, or `refuse(item, code, message)` after an error.

    Many rows are made while the response is written (`protocol.steps.LazyArray`). `answer` must have no effect,
    and must read nothing that changes meanwhile.
    """
    return lazy_map(items, lambda item: guarded(broker, item, answer, refuse))


def each_in_steps(
    broker: Services,
    topics: Iterable[N],
    partitions_of: Callable[[N], Sequence[P]],
    answer: Callable[[N, P], R],
    refuse: Callable[[P, ErrorCode, str], R],
    topic_row: Callable[[N, list[R]], Any],
) -> Steps[list[Any]]:
    """A row for every partition of every topic, in order: for rows that have effects, or are completed later."""
    rows, count = [], 0
    for topic in topics:
        count += 1  # a topic without partitions is work as well
        if not count % ROWS_A_STEP:
            yield
        partitions: list[R] = []
        answer_partition = partial(answer, topic)
        for partition in partitions_of(topic):
            partitions.append(guarded(broker, partition, answer_partition, refuse))
            count += 1
            if not count % ROWS_A_STEP:
                yield
        rows.append(topic_row(topic, partitions))
    return rows


class _WithPartitions(Protocol):
    """A topic of a request."""

    @property
    def partitions(self) -> Sequence[Any]:
        """Its partitions."""


def count_rows(topics: Sequence[_WithPartitions]) -> int:
    """The number of rows, for `at_once_if_few`. A topic without partitions counts as one row.

    Many topics are not looked at: the number of topics is enough.
    """
    return len(topics) if len(topics) > FEW_ITEMS else sum(max(1, len(topic.partitions)) for topic in topics)


ROWS_A_STEP = 16
"""A row takes a few microseconds, a refusal up to ten."""


def guarded(broker: Services, partition: P, answer: Callable[[P], R], refuse: Callable[[P, ErrorCode, str], R]) -> R:
    try:
        return answer(partition)
    except (KafkaError, OSError) as error:
        return refuse(partition, *refusal(broker, error))


MAX_ROWS = 10_000
"""The maximum for a request that is answered within a turn: each row may raise, and so delay others by 2 us."""


def exceeds_max_rows(counts: Iterable[int]) -> bool:
    """Whether a request has too many rows for a turn. `counts`: the rows of each topic; no rows count as one."""
    left = MAX_ROWS
    return any((left := left - max(1, count)) < 0 for count in counts)


TOO_MANY_ROWS = ErrorCode.INVALID_REQUEST, f"a request may name at most {MAX_ROWS} partitions"
"""The error of such a request."""

MAX_PENDING, PENDING_PAUSE_MS = 8, 2.0
"""With this many pending changes, a request pauses. Each change holds an image, a megabyte with 10,000 topics:
thousands of them would fill the memory, and slow down the garbage collector."""

AT_ONCE = 10
"""Topics that one request creates or deletes in a turn. Each touches files, which takes half a millisecond or more."""


class _Rows(Generic[P, R]):
    """Rows of a response, each with a metadata change: made in order, complete when the changes have settled."""

    def __init__(
        self,
        broker: Services,
        items: Sequence[P],
        answer: Callable[[P], tuple[R, Change]],
        refuse: Callable[[P, ErrorCode, str], R],
    ) -> None:
        self._broker = broker
        self._items = items
        self._answer = answer
        self._refuse = refuse
        self._rows: list[R] = []
        self._pending: deque[tuple[int, Change]] = deque()  # only unsettled changes, because each holds an image
        self._failed: dict[int, KafkaError] = {}

    def add(self) -> None:
        number = len(self._rows)
        item = self._items[number]
        try:
            row, change = self._answer(item)
            self._pending.append((number, change))
        except (KafkaError, OSError) as error:
            row = self._refuse(item, *refusal(self._broker, error))
        self._rows.append(row)
        self._settle()

    def _settle(self) -> None:
        """Forget settled changes; changes settle in order."""
        pending = self._pending
        while pending and pending[0][1].is_settled:
            number, change = pending.popleft()
            if change.error is not None:
                self._failed[number] = change.error

    def steps(self) -> Steps[None]:
        """Make rows until all are made, or too many changes are pending."""
        while not self.are_made and len(self._pending) < MAX_PENDING:
            self.add()
            yield
            self._settle()

    @property
    def are_made(self) -> bool:
        return len(self._rows) == len(self._items)

    @property
    def is_settled(self) -> bool:
        """Whether every item has a row, and no change is pending."""
        self._settle()
        return self.are_made and not self._pending

    def results(self) -> list[R]:
        """All rows. Unsettled ones have timed out, and may still take effect."""
        self._settle()
        made = len(self._rows)
        failed = dict(self._failed)
        pending = {number for number, _ in self._pending}

        def result(number: int) -> R:
            item = self._items[number]
            if number >= made:
                return self._late(item, "the request's time ended before this change began")
            if number in pending:
                return self._late(item, "the change is not on the disk yet")
            error = failed.get(number)
            return self._rows[number] if error is None else self._refuse(item, *refusal(self._broker, error))

        return lazy_map(range(len(self._items)), result)

    def _late(self, item: P, message: str) -> R:
        return self._refuse(item, ErrorCode.REQUEST_TIMED_OUT, message)


def each_in_turns(
    items: Sequence[P],
    answer: Callable[[P], tuple[R, Change]],
    refuse: Callable[[P, ErrorCode, str], R],
    respond: Callable[[list[R]], Outcome[A]],
    timeout_ms: int,
    context: HandlerContext,
) -> Outcome[A]:
    """The response that `respond` makes of the rows of all items, or a task that waits for it.

    `answer` returns the row of an item with its metadata change; the response waits until every change has settled.
    More than `AT_ONCE` items take several turns. At the client's timeout, or when the broker stops, unsettled changes
    are reported as timed out; they may still take effect.
    """
    rows = _Rows(context.broker, items, answer, refuse)
    if len(items) <= AT_ONCE:
        finish(rows.steps())
        if rows.is_settled:
            return respond(rows.results())
    deadline_ms = context.broker.clock.monotonic_ms() + max(timeout_ms, _MIN_TIMEOUT_MS)
    return _settle_rows(rows, respond, deadline_ms, context)


def _settle_rows(
    rows: _Rows[P, R], respond: Callable[[list[R]], Outcome[A]], deadline_ms: float, context: HandlerContext
) -> Task[A]:
    tasks, is_done, failed = context.broker.tasks, WaitList(), list[Exception]()

    def made(result: Exception | None) -> None:
        failed.extend([] if result is None else [result])
        tasks.touch(is_done)

    if not rows.are_made:  # the changes of a client that disconnects take effect all the same
        tasks.start_later(_make_rows(rows, context), made)
    changes = Changes([is_done, context.broker.metadata.waiters], deadline_ms)
    while not (rows.is_settled or failed) and (yield changes) is not None:
        pass
    if failed:
        raise failed[0]
    return (yield from value_of(respond(rows.results())))


def _make_rows(rows: _Rows[Any, Any], context: HandlerContext) -> Task[None]:
    while not rows.are_made:
        yield from rows.steps()
        if not rows.are_made:
            yield Changes((), context.broker.clock.monotonic_ms() + PENDING_PAUSE_MS)


def settled(
    context: HandlerContext, change: Change | None, respond: Callable[[], Outcome[A]], *, in_any_case: bool = False
) -> Outcome[A]:
    """The response of `respond` once a metadata change has settled, or a task that waits; None counts as settled.

    The response raises the KafkaError of a failed change, unless `in_any_case` is set.
    """
    if change is None:
        return respond()
    if not change.is_settled:
        return _settle(context, change, respond, in_any_case=in_any_case)
    if change.error is not None and not in_any_case:
        raise change.error
    return respond()


def _settle(
    context: HandlerContext, change: Change, respond: Callable[[], Outcome[A]], *, in_any_case: bool
) -> Task[A]:
    services = context.broker
    changes = Changes([services.metadata.waiters], services.clock.monotonic_ms() + SETTLED_MS)
    while not change.is_settled and (yield changes) is not None:
        pass
    if not in_any_case and not change.is_settled:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the metadata change is not on the disk yet")
    if not in_any_case and change.error is not None:
        raise change.error
    return (yield from value_of(respond()))


SETTLED_MS = 30_000.0
"""The time limit of a metadata change, for requests without a timeout."""

_MIN_TIMEOUT_MS = 1_000


def check_group_id(group_id: str) -> None:
    """Check the group id of a member or a deletion. Raises KafkaError(INVALID_GROUP_ID) if the id is empty."""
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group has no id: set group.id")


class OfAMember(Protocol):
    """A request to a group."""

    group_id: str


class Described(Protocol):
    """A row that describes a group."""

    error_code: int
    authorized_operations: int


Asked = TypeVar("Asked", bound=OfAMember)
Row = TypeVar("Row", bound=Described)
Machine = Callable[[GroupShard, Asked, RequestContext, Ticket, float], Decision]


def ask_group(machine: Machine[Asked], request: Asked, context: HandlerContext) -> Outcome[A]:
    """Let the group's state machine decide on a member's request. Returns the response, or a wait for it."""
    request_context, clock = context.request_context, context.broker.clock

    def decide(shard: GroupShard, ticket: Ticket) -> Decision:
        return machine(shard, request, request_context, ticket, clock.monotonic_ms())

    return context.broker.groups.submit(request.group_id, decide)


def describe_groups_each(
    group_ids: Sequence[str],
    describe: Callable[[GroupShard, str], Any],
    refuse: Callable[[str, KafkaError], Row],
    respond: Callable[[list[Row]], Outcome[A]],
    context: HandlerContext,
    *,
    with_operations: bool,
) -> Outcome[A]:
    """The response, or a wait for it: one row for each group, even if it is named repeatedly.

    So the response never becomes larger than all groups together.
    """
    unique = list(dict.fromkeys(group_ids))

    def decide(shard: GroupShard, group_id: str, ticket: Ticket) -> Decision:
        return Decision.reply(ticket, describe(shard, group_id))

    def assemble(replies: list[Row | KafkaError]) -> Outcome[A]:
        described = [
            refuse(group_id, row) if isinstance(row, KafkaError) else row
            for group_id, row in zip(unique, replies, strict=True)
        ]
        if with_operations:
            for row in described:
                row.authorized_operations = (
                    authorized_operations.UNKNOWN if row.error_code else authorized_operations.GROUP
                )
        return respond(described)

    return context.broker.groups.gather(unique, decide, assemble)


KEYS_A_STEP = 512


def unrepeated(
    items: Sequence[P], key: Callable[[P], Any], answer: Callable[[P], R], name: Callable[[P], str], refusal: str
) -> Steps[tuple[list[P], Callable[[P], R]]]:
    """The items, one of each `key`, and an `answer` that refuses a repeated item: Kafka's `refusal`, and its `name`."""
    kept, repeated = dict[Any, P](), set[Any]()
    for number, item in enumerate(items, 1):
        item_key = key(item)
        if item_key in kept:
            repeated.add(item_key)
        kept[item_key] = item
        if not number % KEYS_A_STEP:
            yield

    def answer_once(item: P) -> R:
        if key(item) in repeated:
            message = f"{refusal} {name(item)} is in the request more than once"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        return answer(item)

    return list(kept.values()), answer_once


def alter_each(
    resources: Sequence[Named],
    alter: Callable[[Named], Change],
    row: Callable[[int, str | None, int, str], P],
    respond: Callable[[list[P]], Outcome[A]],
    context: HandlerContext,
) -> Outcome[A]:
    """A response with a row of (error code, message, type, name) for every resource, or a task that waits for it.

    Each resource is changed, or refused as a whole. A repeated resource is refused.
    """

    def answer(resource: Named) -> tuple[P, Change]:
        change = alter(resource)
        return row(ErrorCode.NONE, None, resource.resource_type, resource.resource_name), change

    def refuse(resource: Named, code: ErrorCode, message: str) -> P:
        return row(code, message, resource.resource_type, resource.resource_name)

    key, name = attrgetter("resource_type", "resource_name"), attrgetter("resource_name")
    once = finish(unrepeated(resources, key, answer, name, "Each resource must appear at most once."))
    return each_in_turns(*once, refuse, respond, int(SETTLED_MS), context)


VIEW_WAIT_MS = 5_000.0
"""A response about groups waits so long for ZooKeeper, then has the coordinator's groups alone."""


def with_view(context: HandlerContext, find: Task[P], nothing: P, respond: Callable[[P], Outcome[A]]) -> Task[A]:
    """The outcome of `respond` with the result of `find`; with `nothing` after VIEW_WAIT_MS."""
    broker = context.broker
    try:
        found = yield from within(broker.tasks, find, broker.clock.monotonic_ms() + VIEW_WAIT_MS, TimeoutError)
    except TimeoutError:
        found = nothing
    return (yield from value_of(respond(found)))
