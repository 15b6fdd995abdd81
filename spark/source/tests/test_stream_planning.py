from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from headgate.spark.reading.log_reader import Bounds
from headgate.spark.source.options import parse
from headgate.spark.source.planning import DataLost
from headgate.spark.source.stream_planning import START, StreamPlan
from headgate.spark.source.tests.fake_log import T0, T1, FakeLog
from headgate.tools.output import UsageError

NEEDED = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}


class Query:
    """Spark, as it calls a Python stream: a new query asks for the end first, then for the start."""

    def __init__(self, log: FakeLog, **more: str) -> None:
        self.log, self.lost, self.slept, self.now = log, list[str](), list[float](), 0.0
        self.is_careful = more.get("failOnDataLoss") != "false"
        self.options = parse(NEEDED | {"startingOffsets": "earliest"} | more)
        self.committed: Any = None
        self.logged: Any = None
        self.start()

    def start(self) -> None:
        """A new process. Spark tells it the newest offset that was logged."""
        self.plan = StreamPlan(self.log, self.options, self.report, lambda: self.now, self.slept.append)
        if self.logged is not None:
            assert self.plan.plan(self.logged, self.logged) is not None

    def report(self, text: str) -> None:
        if self.is_careful:
            raise DataLost(text)
        self.lost.append(text)

    def batch(self, *, is_committed: bool = True) -> list[tuple[int, ...]]:
        """Run a batch: (partition, first, end) of each task. One that was logged and not committed is repeated."""
        if self.logged == self.committed:
            end = through_json(self.plan.latest())
            if end == self.committed:
                return []
            self.logged = end
        start = through_json(self.plan.initial()) if self.committed is None else self.committed
        tasks = self.plan.plan(start, self.logged)
        if is_committed:
            self.committed = self.logged
        return [(task.wanted.partition.number, *task.wanted[1:]) for task in tasks]

    def batches(self) -> Iterator[list[tuple[int, ...]]]:
        while found := self.batch():
            yield found


def through_json(offset: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(offset))


def log() -> FakeLog:
    return FakeLog({T0: (0, 100), T1: (0, 50)})


def test_new_records_make_a_batch() -> None:
    query = Query(log())
    assert query.batch() == [(0, 0, 100), (1, 0, 50)]
    assert query.batch() == []
    query.log.bounds_now[T1] = Bounds(0, 60)
    assert query.batch() == [(1, 50, 60)]
    assert query.logged == {"t": {"0": 100, "1": 60}}, "as `kafka` writes it"


def test_a_stream_starts_at_the_end_by_default() -> None:
    query = Query(log(), startingOffsets="latest")
    assert query.batch() == []
    query.log.bounds_now[T0] = Bounds(0, 130)
    assert query.batch() == [(0, 100, 130)]


def test_batches_within_a_limit_have_everything_once() -> None:
    query = Query(log(), maxOffsetsPerTrigger="40")
    batches = list(query.batches())
    assert batches[0] == [(0, 0, 26), (1, 0, 13)]
    assert all(sum(end - first for _, first, end in one) <= 42 for one in batches)
    found = sorted((number, offset) for one in batches for number, first, end in one for offset in range(first, end))
    assert found == [(0, n) for n in range(100)] + [(1, n) for n in range(50)]


@pytest.mark.parametrize("start", ["earliest", "latest", '{"t":{"0":-1,"1":-2}}'])
def test_the_first_batch_is_repeated_from_its_own_start(start: str) -> None:
    """Spark keeps no initial offset of a Python stream: meanwhile retention and producers went on."""
    query = Query(log(), startingOffsets=start)
    query.plan.initial()
    query.log.bounds_now = {T0: Bounds(0, 120), T1: Bounds(0, 50)}
    first = query.batch(is_committed=False)
    query.log.bounds_now = {T0: Bounds(70, 200), T1: Bounds(40, 60)}
    query.start()
    assert query.batch() == first
    assert query.batch() == [(0, 120, 200), (1, 50, 60)]


def test_a_failed_batch_is_repeated_with_its_offsets() -> None:
    query = Query(log(), maxOffsetsPerTrigger="30")
    query.batch()
    failed = query.batch(is_committed=False)
    query.log.bounds_now[T0] = Bounds(0, 1000)
    query.start()
    assert query.batch() == failed


def test_nothing_new_after_a_restart_is_no_batch() -> None:
    query = Query(log())
    query.batch()
    query.start()
    assert query.batch() == []


def test_a_checkpoint_of_the_kafka_format_goes_on() -> None:
    query = Query(log())
    query.committed = query.logged = {"t": {"0": 90, "1": 50}}
    query.start()
    assert query.batch() == [(0, 90, 100)]


def test_added_partitions_are_read_from_their_start() -> None:
    query = Query(FakeLog({T0: (0, 10)}), startingOffsets="latest")
    query.batch()
    query.log.bounds_now[T1] = Bounds(0, 5)
    assert query.batch() == [(1, 0, 5)]


def test_added_partitions_that_lost_records() -> None:
    query = Query(FakeLog({T0: (0, 10)}))
    query.batch()
    query.log.bounds_now[T1] = Bounds(3, 5)
    with pytest.raises(DataLost, match="t-1: the new partition starts at 3"):
        query.batch()


def test_a_shorter_partition_fails_or_is_left_out() -> None:
    query = Query(log())
    query.batch()
    query.log.bounds_now[T0] = Bounds(0, 7)
    with pytest.raises(DataLost, match="t-0: the offset was 100 and is now 7"):
        query.batch()
    assert query.slept == [1.0, 1.0], "the end is asked for three times"
    careless = Query(log(), failOnDataLoss="false")
    careless.batch()
    careless.log.bounds_now = {T0: Bounds(0, 7), T1: Bounds(0, 60)}
    assert careless.batch() == [(1, 50, 60)]
    careless.log.bounds_now = {T0: Bounds(0, 9), T1: Bounds(0, 60)}
    assert careless.batch() == [(0, 7, 9)], "it goes on from there"


def test_a_topic_made_anew_while_the_stream_runs() -> None:
    """With as many records as before: only its id tells."""
    query = Query(log())
    query.log.topic_id = b"first"
    query.batch()
    query.log.topic_id = b"second"
    with pytest.raises(DataLost, match="the topic t was deleted and made anew"):
        query.batch()


def test_partitions_that_are_gone() -> None:
    query = Query(FakeLog({T0: (0, 10), T1: (0, 5)}))
    query.batch()
    del query.log.bounds_now[T1]
    with pytest.raises(DataLost, match="t-1: the partitions are gone"):
        query.batch()


def test_a_topic_that_is_gone_is_named() -> None:
    query = Query(log())
    query.batch()
    query.log.bounds_now.clear()
    with pytest.raises(UsageError, match="no topic t"):
        query.batch()


def test_small_batches_wait_for_more() -> None:
    query = Query(log(), minOffsetsPerTrigger="20", maxTriggerDelay="60s")
    assert query.batch(), "the first batch does not wait"
    query.log.bounds_now[T0] = Bounds(0, 110)
    query.now = 59.0
    assert query.batch() == []
    query.now = 60.0
    assert query.batch() == [(0, 100, 110)]
    query.log.bounds_now[T0] = Bounds(0, 130)
    assert query.batch() == [(0, 110, 130)]


def test_tasks_of_a_batch_are_split() -> None:
    assert len(Query(log(), minPartitions="6").batch()) == 6
    assert len(Query(log(), maxRecordsPerPartition="10").batch()) == 15


def test_a_run_of_one_batch_that_the_limit_cuts_short() -> None:
    query = Query(log(), maxOffsetsPerTrigger="40")
    query.batch()
    assert query.plan.is_cut_short
    query.batch()
    assert not query.plan.is_cut_short
    whole = Query(log())
    whole.batch()
    assert not whole.plan.is_cut_short


def test_the_start_is_noted_in_the_first_batch_only() -> None:
    query = Query(log(), maxOffsetsPerTrigger="40")
    query.batch()
    assert START in query.logged
    query.batch()
    assert START not in query.logged
    query.plan.close()
    assert query.log.is_closed
