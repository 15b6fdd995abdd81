"""A load from its beginning to its end: recover, plan, run the tasks, publish."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.formats.decoding import Decoding
from headgate.spark.load.last_values.merging import MergedTableName
from headgate.spark.load.origin import LogOrigin
from headgate.spark.load.output import planning
from headgate.spark.load.output.documents import LoadPlan, Manifest, RangeResult
from headgate.spark.load.output.folder import OutputFolder
from headgate.spark.load.output.intervals import Intervals
from headgate.spark.load.output.load_log import LoadLog
from headgate.spark.load.output.planning import LoadLimits, LoadRefused
from headgate.spark.load.output.row_files import FileOptions
from headgate.spark.load.output.tables import APPEND, MERGE, PARQUET, TableName, TargetTable, mode_of
from headgate.spark.load.task import LoadJob
from headgate.spark.reading.log_reader import Bounds, IsolationLevel, LogUnavailable, OffsetRange, TopicReader
from headgate.tools.client.cluster import shorten_list


class LoadListener(Protocol):
    """Follows a load: a command shows the progress."""

    def note(self, sentence: str) -> None:
        """Something that the user should know."""

    def begin(self, ranges: Collection[OffsetRange]) -> None:
        """The tasks of a plan begin."""

    def end(self, wanted: OffsetRange) -> None:
        """A task has ended."""


class LoadRequest(NamedTuple):
    """The load that the user asks for. `from_ms`, `to_ms`: a backfill between times. `table`: without Parquet.

    `mode`: a table has all records, or the last one of each key.
    """

    topics: Sequence[str]
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    from_ms: int | None = None
    to_ms: int | None = None
    most_offsets: int = 5_000_000
    fails_on_data_loss: bool = True
    files: FileOptions = FileOptions()
    decoding: Decoding = Decoding()
    into: str = PARQUET
    table: str = ""
    mode: str = APPEND


class TaskRunner(Protocol):
    """Runs the tasks of a load somewhere."""

    slots: int
    has_spark: bool

    def run(self, job: LoadJob, tasks: Mapping[int, OffsetRange], done: Callable[[OffsetRange], None]) -> None:
        """Run `load_range` for each index and range; each has a result afterwards. Raises the error of a task."""

    def append(
        self, job: LoadJob, tasks: Mapping[int, OffsetRange], name: TargetTable, done: Callable[[OffsetRange], None]
    ) -> None:
        """Add the rows of all tasks to a table, once; each task has a result afterwards. Raises TaskFailed."""

    def close(self) -> None:
        """Give up processes and sessions."""


def load(
    request: LoadRequest, origin: LogOrigin, output: OutputFolder, runner: TaskRunner, listener: LoadListener
) -> list[Manifest]:
    """Load the records after the last load. Returns the published loads of this run, a completed earlier one included.

    Raises LoadRefused, FolderError, DamagedDocument, LogUnavailable, OffsetOutOfRange.
    """
    log = LoadLog(output)
    published = []
    with log.lock():
        before = log.recover()
        unfinished = log.unfinished(before)
        _check_target(before, request)
        if unfinished is not None:
            _check_options(unfinished, request)
            listener.note(f"load {unfinished.number} was interrupted: it is done again at the same offsets")
            before = _execute(log, unfinished, request, origin, runner, listener, before)
            published.append(before)
        plan = _plan(request, origin, before, runner.slots)
        if plan.ranges or plan.lost:
            log.begin(plan)
            published.append(_execute(log, plan, request, origin, runner, listener, before))
    return published


def plan_only(request: LoadRequest, origin: LogOrigin, output: OutputFolder) -> LoadPlan:
    """The plan of the next load, without any change: for a dry run. Raises as `load`."""
    log = LoadLog(output)
    latest = log.latest()
    return log.unfinished(latest) or _plan(request, origin, latest, slots=1)


def _plan(request: LoadRequest, origin: LogOrigin, before: Manifest | None, slots: int) -> LoadPlan:
    reader = origin.open()
    try:
        topic_ids = _topic_ids(reader, request.topics)
        planning.check_topic_ids(before, {name: topic_id for name, (topic_id, _) in topic_ids.items()})
        partitions = [TopicPartition(name, number) for name, (_, numbers) in topic_ids.items() for number in numbers]
        bounds = reader.bounds(partitions, request.isolation)
        limits = _limits(reader, request, bounds)
    finally:
        reader.close()
    wanted: dict[TopicPartition, Intervals] = {}
    lost: dict[TopicPartition, Intervals] = {}
    for partition in partitions:
        covered = before.covered.get(partition, ()) if before else ()
        wanted[partition], lost[partition] = planning.decide(
            partition, bounds[partition], covered, limits.get(partition, LoadLimits())
        )
    lost_ranges = planning.to_ranges(lost)
    if request.fails_on_data_loss:
        planning.refuse_losses(lost_ranges)
    return LoadPlan(
        before.number + 1 if before else 1,
        {name: topic_id for name, (topic_id, _) in topic_ids.items()},
        planning.split_ranges(wanted, slots, request.most_offsets),
        lost_ranges,
        {
            "isolation_level": request.isolation.value,
            "codec": request.files.codec,
            "file_bytes": str(request.files.file_bytes),
            **request.decoding.to_options(),
            "into": request.into,
            "table": request.table,
            "mode": request.mode,
        },
    )


def _topic_ids(reader: TopicReader, names: Iterable[str]) -> dict[str, tuple[str | None, Sequence[int]]]:
    """The id in hex and the partitions of each topic. Raises LogUnavailable."""
    known = reader.topics()
    missing = [name for name in names if name not in known]
    if missing:
        raise LogUnavailable(f"there is no topic {', '.join(missing)}; there are {shorten_list(sorted(known))}")
    found = {name: known[name] for name in names}
    return {name: (topic.topic_id.hex() if topic.topic_id else None, topic.partitions) for name, topic in found.items()}


def _limits(
    reader: TopicReader, request: LoadRequest, bounds: Mapping[TopicPartition, Bounds]
) -> dict[TopicPartition, LoadLimits]:
    """The offsets of the wanted times. Without a record so new, the limit is the end of the partition."""
    found = {}
    for time_ms in (request.from_ms, request.to_ms):
        offsets = reader.offsets_for_times(dict.fromkeys(bounds, time_ms)) if time_ms is not None else {}
        found[time_ms] = {
            partition: bounds[partition].end_offset if at is None else at for partition, at in offsets.items()
        }
    return {
        partition: LoadLimits(found[request.from_ms].get(partition), found[request.to_ms].get(partition))
        for partition in bounds
    }


def _execute(
    log: LoadLog,
    plan: LoadPlan,
    request: LoadRequest,
    origin: LogOrigin,
    runner: TaskRunner,
    listener: LoadListener,
    before: Manifest | None,
) -> Manifest:
    """Run the tasks of a plan that have no result yet, and publish. The plan has the options."""
    log.prepare(plan)
    is_table = plan.options["into"] != PARQUET
    finished = set() if is_table else log.finished(plan.number)
    tasks = {index: wanted for index, wanted in enumerate(plan.ranges) if index not in finished}
    if tasks:
        _check_topics(plan, origin)
        options = plan.options
        job = LoadJob(
            str(log.output.path),
            plan.number,
            origin,
            IsolationLevel(options["isolation_level"]),
            origin.compacted(plan.topic_ids),
            {name: bytes.fromhex(value) for name, value in plan.topic_ids.items() if value is not None},
            FileOptions(options["codec"], int(options["file_bytes"])),
            Decoding.of_options(options, request.decoding.reject_limit),
            request.fails_on_data_loss,
            mode_of(options) == MERGE,
        )
        if (is_table or job.decoding.needs_spark) and not runner.has_spark:
            raise LoadRefused("Spark decodes JSON and Avro, and writes tables: leave --processes out")
        listener.begin(tasks.values())
        if is_table:
            runner.append(job, tasks, _target(options, log), listener.end)
        else:
            runner.run(job, tasks, listener.end)
    results = [log.result(plan, index) for index in range(len(plan.ranges))]
    missing = [str(plan.ranges[index].partition) for index, result in enumerate(results) if result is None]
    if missing:
        raise LoadRefused(f"the tasks of {shorten_list(missing)} ended without a result; start the load again")
    _check_rejected([result for result in results if result is not None], request.decoding.reject_limit)
    manifest = log.publish(plan, [result for result in results if result is not None], before)
    log.complete(manifest)
    return manifest


def _target(options: Mapping[str, str], log: LoadLog) -> TargetTable:
    named = MergedTableName if mode_of(options) == MERGE else TableName
    return named(options["into"], options["table"], log.identity())


def _check_target(before: Manifest | None, request: LoadRequest) -> None:
    """Raise LoadRefused if earlier loads of the folder went elsewhere: the positions would be wrong."""
    if before is None:
        return
    wanted = request.into, request.table
    if wanted != (before.options["into"], before.options["table"]):
        raise LoadRefused(
            f"earlier loads went into {before.options['into']} {before.options['table']}, this one would go into "
            f"{request.into} {request.table}; give another folder for its positions"
        )
    _check_mode(before, request)


def _check_mode(earlier: Manifest | LoadPlan, request: LoadRequest) -> None:
    """Raise LoadRefused for a table of last values where the folder has one of all records, and the reverse."""
    mode = mode_of(earlier.options)
    if mode != request.mode:
        commands = {APPEND: "load", MERGE: "table"}
        raise LoadRefused(
            f"load {earlier.number} of the folder is one of `headgate spark {commands[mode]}`, this one is of "
            f"`headgate spark {commands[request.mode]}`; give another table and another folder for its positions"
        )


def _check_options(unfinished: LoadPlan, request: LoadRequest) -> None:
    """An interrupted load keeps its format: raise LoadRefused for another one."""
    _check_mode(unfinished, request)
    planned = unfinished.options["format"]
    target = unfinished.options["into"], unfinished.options["table"]
    if planned != request.decoding.format or target != (request.into, request.table):
        raise LoadRefused(
            f"load {unfinished.number} was interrupted: start it again with --format {planned} into {' '.join(target)}"
        )


def _check_rejected(results: Sequence[RangeResult], limit: int) -> None:
    count = sum(result.rejected_rows for result in results)
    if count > limit:
        where = [
            f"{result.wanted.partition} from offset {result.rejected[0].first_offset}"
            for result in results
            if result.rejected
        ]
        raise LoadRefused(
            f"{count} values do not decode, {limit} are accepted: {shorten_list(where)}. Nothing is published; accept "
            "more with --reject-limit: what is loaded by now is not loaded again"
        )


def _check_topics(plan: LoadPlan, origin: LogOrigin) -> None:
    reader = origin.open()
    try:
        now = {name: topic_id for name, (topic_id, _) in _topic_ids(reader, plan.topic_ids).items()}
    finally:
        reader.close()
    for name, known in plan.topic_ids.items():
        if known is not None and now[name] is not None and now[name] != known:
            raise LoadRefused(
                f"topic {name} was deleted and made anew since load {plan.number} was planned (its id was {known}, "
                f"now it is {now[name]}): the plan cannot be completed; load the new topic into another folder"
            )
