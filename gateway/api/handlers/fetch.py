"""Fetch: batches from offsets, as pieces of segment files.

v0-1 message sets of magic 0   v2-3 of magic 1   v3 max_bytes (KIP-74)   v4 batches, read_committed   v5
log_start_offset   v7 sessions (KIP-227)   v9 leader epochs (KIP-320)   v10 zstd (KIP-110)   v11 rack (KIP-392)   v12
flexible, diverging epochs (KIP-595)   v13 topic ids (KIP-516)   v15 replica state   v16 node endpoints (KIP-951)   v17
directory ids   v18 high watermark

    partitions (fetch_sessions) ──> rows (fetch/rows) ──> enough? (fetch/plan) ──> converted (fetch/conversion) ──> sent
                                         └──────────── wait ◁────┘

A fetch that finds enough is answered at once. Otherwise `_answer_later` is its whole course, with each wait.

Followers fetch too. They read to the end of the log, and each offset they ask for says what they have
(`gateway.replication.progress`).
"""

from typing import TypeAlias

from headgate.gateway.api.authorization import AclOperation, Authorization, PartitionRule
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.fetch.conversion import BATCHES, BATCHES_WITHOUT_ZSTD, Form, MessageSets, convert, is_open
from headgate.gateway.api.fetch.metering import MeteredFetchPlan
from headgate.gateway.api.fetch.plan import FetchPlan, FetchRows, ReadRow, disk_is_late
from headgate.gateway.api.fetch.rows import PartitionReader, release_all
from headgate.gateway.api.fetch_sessions import FEW, SessionTurn
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.throttling import MeteredContext
from headgate.gateway.replication.progress import FollowerFetch
from headgate.gateway.runtime.disk_reads import DiskReads
from headgate.gateway.runtime.tasks import Changes, Task
from headgate.protocol.messages.fetch import FetchRequest, FetchResponse

FetchOutcome: TypeAlias = FetchResponse | Task[FetchResponse]


def _is_of_client(request: FetchRequest) -> bool:
    return request.replica_id < 0 and request.replica_state.replica_id < 0


def _authorize_follower(authorization: Authorization) -> None:
    is_allowed = authorization.is_broker()
    authorization.limit_partitions(lambda topic: is_allowed)


_authorize = PartitionRule(AclOperation.READ, _is_of_client, _authorize_follower)
"""Require READ on each topic; of a follower, CLUSTER_ACTION. Denied topics have TOPIC_AUTHORIZATION_FAILED.

A session's partitions are authorized at every read: an earlier permission may be revoked.
"""


@handles(FetchRequest, versions="10-18", authorize=_authorize)
def fetch(request: FetchRequest, context: HandlerContext) -> FetchOutcome:
    """Plan pieces of files for every wanted partition, or wait until there is enough data."""
    plan = _plan(request, context, PartitionReader(context, request.isolation_level))
    return _answer(plan, BATCHES if context.broker.partitions.leadership.has_legacy_format else None)


@handles(FetchRequest, versions="4-9", authorize=_authorize)
def fetch_without_zstd(request: FetchRequest, context: HandlerContext) -> FetchOutcome:
    """Fetch for versions that do not know zstd: such batches are sent as gzip."""
    return _answer(_plan(request, context, PartitionReader(context, request.isolation_level)), BATCHES_WITHOUT_ZSTD)


@handles(FetchRequest, versions="0-3", authorize=_authorize)
def fetch_sets(request: FetchRequest, context: HandlerContext) -> FetchOutcome:
    """Fetch for versions that know no batches: message sets."""
    sets = MessageSets(request, context)
    plan = _plan(request, context, sets.reader, sets.read)
    sets.limit(plan)
    return _answer(plan, sets.form)


def _plan(
    request: FetchRequest, context: HandlerContext, reader: PartitionReader, read: ReadRow | None = None
) -> FetchPlan:
    """Begin a fetch. Raises KafkaError for a session that does not exist, or that is at another epoch."""
    broker = context.broker
    now_ms = broker.clock.monotonic_ms()
    turn = broker.fetch_sessions.begin(request, context.version, now_ms)
    if request.replica_id >= 0 or request.replica_state.replica_id >= 0:
        follower = _follower(request, now_ms)
        broker.partitions.leadership.in_sync_replicas.note_request(follower)
        reader.serve_follower(follower)
    if type(context) is MeteredContext and context.meter is not None:
        return MeteredFetchPlan(request, broker, turn, now_ms, reader, read, context.meter)
    return FetchPlan(request, broker, turn, now_ms, reader, read)


def _follower(request: FetchRequest, now_ms: float) -> FollowerFetch:
    state = request.replica_state
    return FollowerFetch(max(request.replica_id, state.replica_id), state.replica_epoch, now_ms)


def _answer(plan: FetchPlan, form: Form | None) -> FetchOutcome:
    rows = plan.few_rows()
    if rows is None:
        return _answer_later(plan, form, None, is_planned=False)
    if not plan.answers_now(rows):
        release_all(rows)
        return _answer_later(plan, form, None)
    if form is not None and is_open(form, rows):
        return _answer_later(plan, form, rows)
    return plan.response(rows)


def _answer_later(
    plan: FetchPlan, form: Form | None, rows: FetchRows | None, *, is_planned: bool = True
) -> Task[FetchResponse]:
    """The response to a fetch that is planned in slices, or waits for records, for a disk, or for a conversion.

    `rows`: the rows to send; None if there is not enough yet.
    """
    try:
        if not is_planned:
            rows = plan.enough((yield from plan.all_rows()))
        if rows is None:
            rows = yield from _wait(plan)
        begins_now = True
        while form is not None and (yield from convert(plan, form, rows, begins_now=begins_now)):
            enough = plan.enough((yield from plan.new_rows()))
            begins_now = enough is None
            rows = (yield from _wait(plan)) if enough is None else enough
        return plan.response(rows) if len(rows) <= FEW else (yield from plan.response_in_slices(rows))
    finally:
        if plan.cold is not None:
            plan.cold.release()


def _wait(plan: FetchPlan) -> Task[FetchRows]:
    """Wait until there is enough to send, or `max_wait_ms` since the request's arrival are over."""
    turn = plan.turn
    if plan.cold:
        return _await_disk(plan, plan.cold)
    if not isinstance(turn, SessionTurn) or turn.changed is None:
        return _await_partitions(plan)
    return _await_session(plan, turn)


def _await_partitions(plan: FetchPlan) -> Task[FetchRows]:
    """Without a session: count each partition that changes, until there is enough; then plan."""
    changes = plan.changes()
    while (changed := (yield changes)) is not None:
        rows = plan.count_changed(changed)
        if rows is None:
            break
        wanted = plan.turn.partitions
        if plan.has_enough and len(wanted) == 1 and plan.is_within_limits(wanted[0]):
            return rows  # a new plan would find nothing more
        release_all(rows)
        if plan.has_enough:
            break
    return (yield from plan.new_rows())


def _await_session(plan: FetchPlan, turn: SessionTurn) -> Task[FetchRows]:
    """In a session: count the partitions that become dirty, until there is enough; then plan."""
    while not plan.cold:
        found = yield from _await_dirty(plan, turn)
        if found is None:
            rows = yield from plan.new_rows()
            found = rows if plan.is_late else plan.enough(rows)
        if found is not None:
            return found
    return (yield from _await_disk(plan, plan.cold))


def _await_dirty(plan: FetchPlan, turn: SessionTurn) -> Task[FetchRows | None]:
    """Await partitions that become dirty. None: more than a few have; all are planned, and there may not be enough."""
    turn.park()
    changes, changed = plan.changes(), turn.changed
    while turn.marked or (changed := (yield changes)) is not None:  # some were marked while others were planned
        if turn.is_over or changed is not turn.changed:  # the session has ended, or has more to fetch elsewhere
            break
        marked = turn.take_marked()
        if marked is None:
            return None
        rows = plan.count_marked(marked, turn)
        if rows is None:
            break
        if plan.has_enough and len(marked) == 1 and plan.is_within_limits(marked[0].wanted) and turn.narrow():
            return rows  # a new plan would find nothing more
        release_all(rows)
        if plan.has_enough:
            break
    return (yield from plan.new_rows())


def _await_disk(plan: FetchPlan, cold: DiskReads) -> Task[FetchRows]:
    """Read the plan's data in threads, then plan again, until there is some data.

    A position is looked up in an index and in the batches behind it: on a cold disk each of these may block.
    """
    deadline_ms = plan.disk_deadline_ms()
    cold.is_awaited = True
    try:
        places = cold.start()
        while True:
            if (yield Changes([cold.ended, *plan.changing], deadline_ms)) is None:  # new data needs no disk
                raise disk_is_late()
            rows = yield from plan.new_rows()
            if not plan.is_blocked:
                return rows
            has_others = bool(cold.in_progress)  # some may be on a hanging disk
            before, places = places, cold.start()
            if not has_others and places == before:  # read and evicted: repetition might not end
                return (yield from plan.new_rows(blocking=True))
    finally:
        cold.is_awaited = False
