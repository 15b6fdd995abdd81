"""The survey of all groups, once an interval, and before a reading if the last survey is older.

A survey is a task in steps of less than a millisecond; nothing is added to the path of a commit, a produce or a fetch.
It waits for ZooKeeper, for checkpoints, for other leaders and for threads that read cold records, each within a limit.
A survey that a reading makes waits for nothing: it has what this broker knows.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from headgate.gateway.coordinator.broker_requests import OtherBrokers
from headgate.gateway.lag import leader_times
from headgate.gateway.lag.commit_windows import CommitWindows
from headgate.gateway.lag.coordinated_groups import CoordinatedGroups, read_groups
from headgate.gateway.lag.lag_rows import SurveyFacts, find_ends, measure_groups, note_windows, unread_positions
from headgate.gateway.lag.partition_ends import LedPartitions, SurveyedEnds
from headgate.gateway.lag.readers import GroupReading, LagSurvey
from headgate.gateway.lag.requests_to_leaders import RequestsToLeaders
from headgate.gateway.lag.spark_queries import SparkQueries
from headgate.gateway.lag.unread_times import HostedPartitions, UnreadPosition, UnreadTimes
from headgate.gateway.lag.zookeeper_groups import ZooKeeperGroups
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.log_output import LimitedLog
from headgate.gateway.runtime.scheduler import Timer
from headgate.gateway.runtime.tasks import Running, Task, at_most
from headgate.protocol.lag.verdicts import WINDOW_COMMITS
from headgate.protocol.steps import Steps

logger = logging.getLogger("headgate.lag")


READ_MS: Final = 500.0
"""The longest wait of a survey for threads that read records."""
ROUNDS: Final = 3
"""Rounds of a search for times: a thread reads what the first misses, or decodes it; an index may be cold, too."""
STALE_INTERVALS: Final = 2


class SurveyedPartitions(LedPartitions, HostedPartitions, Protocol):
    """The replicas of this broker."""


class LagSources(NamedTuple):
    """The origins of what groups have committed. None: this broker has no such groups."""

    groups: CoordinatedGroups
    zookeeper: ZooKeeperGroups | None = None
    spark: SparkQueries | None = None


class LagCollector:
    """Has the last survey, and makes the next."""

    def __init__(
        self,
        sources: LagSources,
        partitions: SurveyedPartitions,
        brokers: OtherBrokers,
        clock: Clock,
        interval_ms: float,
    ) -> None:
        self._sources = sources
        self._partitions = partitions
        self._brokers = brokers
        self._clock = clock
        self.interval_ms = interval_ms
        self._tasks = brokers.tasks
        self.requests = RequestsToLeaders(brokers)
        self._windows = CommitWindows()
        self._times = UnreadTimes(partitions, brokers.tasks.scheduler)
        self._log = LimitedLog(logger, clock, lines=1, interval_ms=60_000.0)
        self._survey: LagSurvey | None = None
        self._surveyed_ms = 0.0
        self._timer: Timer | None = None
        self._running: Running[LagSurvey] | None = None

    # The interval

    def start(self, delay_ms: float = 0.0) -> None:
        """Make a survey after this time, and then one an interval."""
        self._timer = self._tasks.scheduler.call_after(delay_ms, self._begin)

    def stop(self) -> None:
        """Begin no further survey."""
        if self._timer is not None:
            self._timer.cancel()
        if self._running is not None:
            self._running.cancel()

    def _begin(self) -> None:
        self._running = self._tasks.start_later(self._make(), self._ended)

    def _ended(self, result: LagSurvey | Exception) -> None:
        self._running = None
        if isinstance(result, Exception):
            self._log.error("survey", "the lag of groups cannot be measured, and is tried again: %s", result)
            logger.debug("the failed survey", exc_info=result)
        else:
            self._keep(result)
        self.start(self.interval_ms)

    def _keep(self, survey: LagSurvey) -> None:
        self._survey, self._surveyed_ms = survey, self._clock.monotonic_ms()

    @property
    def last(self) -> LagSurvey | None:
        """The last survey, if there was one."""
        return self._survey

    # Readings

    def survey(self) -> Steps[LagSurvey]:
        """The last survey; a new one if it is older than it should be."""
        survey = self._survey
        if survey is None or self._age_ms() > STALE_INTERVALS * self.interval_ms:
            survey = yield from self._survey_at_once()
            self._keep(survey)
        return survey

    def _age_ms(self) -> float:
        return self._clock.monotonic_ms() - self._surveyed_ms

    def _survey_at_once(self) -> Steps[LagSurvey]:
        """A survey of the groups that this broker coordinates, without other brokers, and without a wait."""
        readings = yield from read_groups(self._sources.groups)
        if self._sources.spark is not None:
            readings += self._sources.spark.unread()
        ends = self._new_ends()
        wanted = yield from unread_positions(readings, ends)
        # Of its own: a survey may be in progress
        times = UnreadTimes(self._partitions, self._tasks.scheduler)
        read_by_end = yield from times.look_up(wanted)
        return (yield from self._measure(readings, ends, times, read_by_end))

    # A survey

    def _make(self) -> Task[LagSurvey]:
        readings = yield from self._read()
        ends = self._new_ends()
        yield from find_ends(readings, ends)
        if ends.led_elsewhere:
            yield from ends.ask_leaders(self.requests)
        yield from note_windows(readings, ends, self._windows, self._clock.now_ms())
        wanted = yield from unread_positions(readings, ends)
        read_by_end = yield from self._find_times(wanted, ends)
        return (yield from self._measure(readings, ends, self._times, read_by_end))

    def _read(self) -> Task[list[GroupReading]]:
        """What all groups have committed: before the ends are known, so that no group seems to be beyond an end."""
        sources = self._sources
        readings = yield from read_groups(sources.groups)
        if sources.zookeeper is not None:
            readings += yield from sources.zookeeper.read({reading.name: reading for reading in readings})
        if sources.spark is not None:
            readings += yield from sources.spark.read()
        return readings

    def _new_ends(self) -> SurveyedEnds:
        return SurveyedEnds(self._brokers.metadata.image, self._brokers.node_id, self._partitions)

    def _find_times(
        self, wanted: Mapping[UnreadPosition, int], ends: SurveyedEnds
    ) -> Task[Mapping[UnreadPosition, int | None]]:
        """Find the times of positions; returns those without a record before the end."""
        times, found = self._times, dict[UnreadPosition, int | None]()
        times.begin(self._clock.monotonic_ms())
        left = wanted
        for _ in range(ROUNDS):
            found |= yield from times.look_up(left)
            left = {position: end for position, end in left.items() if self._is_missing(position, found)}
            if not left or not times.is_reading:
                break
            yield at_most(self._tasks.scheduler, READ_MS, times.when_read)
        elsewhere: dict[int, dict[UnreadPosition, int]] = {}
        for position, end in left.items():
            ends_there = ends.find(position.topic, position.partition)
            if ends_there is not None and not times.is_here(position):
                elsewhere.setdefault(ends_there.leader, {})[position] = end
        if elsewhere:
            told = yield from leader_times.ask_leaders(self.requests, self._brokers.metadata.image, elsewhere)
            for position, time_ms in told.items():
                if time_ms is None:
                    found[position] = None
                else:
                    times.note(position, time_ms)
        return found

    def _is_missing(self, position: UnreadPosition, found: Mapping[UnreadPosition, object]) -> bool:
        return position not in found and self._times.find(position) is None

    def _measure(
        self,
        readings: list[GroupReading],
        ends: SurveyedEnds,
        times: UnreadTimes,
        read_by_end: Mapping[UnreadPosition, int | None],
    ) -> Steps[LagSurvey]:
        now_ms = self._clock.now_ms()
        facts = SurveyFacts(ends, times, self._windows, read_by_end, now_ms, WINDOW_COMMITS * self.interval_ms)
        return LagSurvey(now_ms, (yield from measure_groups(readings, facts)))
