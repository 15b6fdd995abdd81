"""The plan of a stream: where each batch ends, and its tasks. Pure but for the reader and the clock.

Spark 4.1 gives a Python stream neither a limit nor the trigger, so the stream limits itself. The calls of
Spark give the position: `initial`, then `plan` of each batch; after a restart `plan` of the last planned offset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.log_reader import OffsetRange, TopicReader
from headgate.spark.source.options import ReadOptions
from headgate.spark.source.planning import (
    DATA_LOSS,
    RangeTask,
    Report,
    assigned_partitions,
    end_offsets,
    resolve,
    share_limit,
    split,
)
from headgate.spark.source.positions import Edge, Offsets, from_json, to_json
from headgate.tools.client.cluster import shorten_list

START: Final = "#start"
"""A key of the first batch's offset: where the query began. Spark notes this nowhere for a Python stream, so a first
batch that failed would begin elsewhere when it is repeated."""


class StreamPlan:
    """The positions of a stream while it runs."""

    def __init__(
        self,
        reader: TopicReader,
        options: ReadOptions,
        report: Report,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._reader, self._options, self._report = reader, options, report
        self._clock, self._sleep = clock, sleep
        self._initial: dict[TopicPartition, int] | None = None
        self._last: Mapping[str, Any] | None = None  # the end of the last planned batch, as Spark noted it
        self._topic_ids: dict[str, bytes | None] = {}
        self._triggered_at: float | None = None
        self._target: dict[TopicPartition, int] | None = None
        self._ends_asked = 0
        self.is_cut_short = False
        """Spark asked for one batch only, and the limit left records behind it."""

    def close(self) -> None:
        self._reader.close()

    def initial(self) -> dict[str, Any]:
        """The offset where a new query begins: `startingOffsets`, by default the end."""
        if self._initial is None:
            options = self._options
            partitions = self._assigned()
            bounds = self._reader.bounds(partitions, options.isolation)
            start = options.start or Edge.LATEST
            strict = options.fails_without_time
            self._initial = resolve(start, bounds, self._reader, "startingOffsets", fails_without_time=strict)
        return to_json(self._initial)

    def resume(self, start: Mapping[str, Any]) -> None:
        """Take the position that Spark 4.2 gives with each question, if no call gave one before."""
        if self._last is None and self._initial is None:
            self._last = start

    def fix_target(self) -> None:
        """No later batch goes beyond the ends of this moment (the trigger AvailableNow of Spark 4.2)."""
        self._target = end_offsets(self._reader, self._assigned(), self._options)

    def latest(self, *, is_limited: bool = True) -> Mapping[str, Any]:
        """The offset where the next batch ends; the end of the last batch if there is nothing to read."""
        is_first = self._last is None
        position = from_json(self.initial() if self._last is None else self._last)
        end = self._ends(position) if self._target is None else self._target
        limited = self._limit(position, end) if is_limited else end
        if self._last is not None and limited == position:
            return self._last
        self._ends_asked += 1
        self.is_cut_short = self._ends_asked == 1 and limited != end
        return {**to_json(limited), START: to_json(position)} if is_first else to_json(limited)

    def plan(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[RangeTask]:
        """The tasks of a batch. Raises DataLost by `report` for partitions that are gone, or shorter than before."""
        self._last = end
        last = from_json(end)
        first = from_json(end[START]) if START in end else from_json(start)
        if START not in end and first == last:
            return []
        first |= self._starts_of_new(sorted(set(last) - set(first)))
        if gone := sorted(set(first) - set(last)):
            self._report(
                f"{shorten_list([str(partition) for partition in gone])}: the partitions are gone. {DATA_LOSS}"
            )
        tasks = []
        for partition, end_offset in sorted(last.items()):
            if end_offset < first[partition]:
                self._report(
                    f"{partition}: the offset was {first[partition]} and is now {end_offset}, as if the topic were "
                    f"made anew. {DATA_LOSS}"
                )
                continue
            wanted = OffsetRange(partition, first[partition], end_offset)
            tasks.append(RangeTask(wanted, topic_id=self._topic_ids.get(partition.topic)))
        return split(tasks, self._options.min_partitions, self._options.max_records_per_partition)

    def _assigned(self) -> list[TopicPartition]:
        """The partitions to read now. Reports a topic that was deleted and created again meanwhile."""
        topics = self._reader.topics()
        partitions = assigned_partitions(topics, self._options.subscription)
        for name in sorted({partition.topic for partition in partitions}):
            topic_id = topics[name].topic_id
            if topic_id != self._topic_ids.setdefault(name, topic_id):
                self._topic_ids[name] = topic_id
                self._report(f"the topic {name} was deleted and made anew. {DATA_LOSS}")
        return partitions

    def _ends(self, position: Offsets) -> dict[TopicPartition, int]:
        """The end of each partition. An end before a known offset is asked for again: a leader may lag behind."""
        for attempt in range(self._options.attempts):
            if attempt:
                self._sleep(self._options.retry_interval_ms / 1000)
            partitions = self._assigned()
            end = end_offsets(self._reader, partitions, self._options)
            if all(end[partition] >= position.get(partition, 0) for partition in end):
                break
        return end

    def _limit(self, position: Offsets, end: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The end of a batch within the limits of the options."""
        first = dict(position) | self._starts_of_new(sorted(set(end) - set(position)), is_reported=False)
        waiting = sum(max(end[partition] - first[partition], 0) for partition in end)
        if self._is_too_little(waiting):
            return {partition: first[partition] for partition in end if partition in position}
        limit = self._options.max_offsets_per_trigger
        return share_limit(first, end, limit) if limit else end

    def _is_too_little(self, waiting: int) -> bool:
        """True if the batch waits for more offsets (minOffsetsPerTrigger), as it may for maxTriggerDelay."""
        least, now = self._options.min_offsets_per_trigger, self._clock()
        if not least:
            return False
        is_due = self._triggered_at is None or (now - self._triggered_at) * 1000 >= self._options.max_trigger_delay_ms
        if waiting < least and not is_due:
            return True
        self._triggered_at = now
        return False

    def _starts_of_new(self, added: list[TopicPartition], *, is_reported: bool = True) -> dict[TopicPartition, int]:
        """The log starts of partitions that came after the start of the query; a start other than 0 lost records."""
        if not added:
            return {}
        bounds = self._reader.bounds(added, self._options.isolation)
        starts = {partition: bounds[partition].start_offset for partition in added}
        for partition, start in starts.items():
            if start and is_reported:
                self._report(f"{partition}: the new partition starts at {start} instead of 0. {DATA_LOSS}")
        return starts
