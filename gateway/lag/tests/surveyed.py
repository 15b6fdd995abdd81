"""A broker whose lag is measured when a test says so, and the leaders of other partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headgate.gateway.coordinator.broker_requests import OtherBrokers
from headgate.gateway.coordinator.tests.fake_links import FakeLinks
from headgate.gateway.lag.lag_collector import LagCollector, LagSources
from headgate.gateway.lag.readers import GroupLag, GroupPartitionLag, LagSurvey
from headgate.gateway.lag.spark_queries import SparkQueries
from headgate.gateway.tests.builders import NOW_MS, HandlerBroker
from headgate.gateway.tests.requests import commit_request, produce_request
from headgate.protocol.records.batch import Record, build
from headgate.protocol.steps import finish

INTERVAL_MS = 1_000


class SurveyedBroker(HandlerBroker):
    """Its clock stands still between the surveys."""

    def __init__(self, directory: Path, **settings: str) -> None:
        super().__init__(directory, **settings)
        self.links = FakeLinks()
        others = OtherBrokers(0, "PLAINTEXT", self.services.metadata, self.services.tasks, self.links, 30_000.0)
        self.collector = self.make_collector(others)
        self.is_measuring = False
        self.commit("warm", {0: 0}, "no-such-topic")  # creates __consumer_offsets
        self.time.advance()

    def make_collector(self, others: OtherBrokers, spark: SparkQueries | None = None) -> LagCollector:
        sources = LagSources(self.services.groups, None, spark)
        partitions = self.services.partitions
        return LagCollector(sources, partitions, others, self.time.clock, INTERVAL_MS)

    def produce(self, *ages_ms: int, topic: str = "t", index: int = 0, **options: Any) -> None:
        """One batch, of records of these ages."""
        now_ms = self.time.clock.now_ms()
        batch = build([Record(timestamp=now_ms - age_ms, value=b"v") for age_ms in ages_ms], **options)
        answer = self.ask(produce_request(batch, topic, index), 9)
        assert not answer.responses[0].partition_responses[0].error_code

    def commit(self, group: str, offsets: dict[int, int], topic: str = "t") -> None:
        self.ask(commit_request(group, offsets, topic), 8)
        self.time.advance()

    def survey(self, after_ms: int = 0) -> LagSurvey:
        """The survey of an interval."""
        self.time.advance(after_ms)
        if not self.is_measuring:
            self.is_measuring = True
            self.collector.start()
        found = self.collector.last
        while self.collector.last is found:
            self.time.advance(INTERVAL_MS)
        return self.present()

    def present(self) -> LagSurvey:
        """What a reading finds."""
        return finish(self.collector.survey())


def group_of(survey: LagSurvey, name: str) -> GroupLag:
    return next(group for group in survey.groups if group.name == name)


def row_of(survey: LagSurvey, name: str, topic: str = "t", partition: int = 0) -> GroupPartitionLag:
    return next(row for row in group_of(survey, name).partitions if row[:2] == (topic, partition))


__all__ = ["INTERVAL_MS", "NOW_MS", "SurveyedBroker", "group_of", "row_of"]
