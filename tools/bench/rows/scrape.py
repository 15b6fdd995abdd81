"""The row `scrape`: what a reading of the metrics costs, with partitions and groups, beside Kafka's JMX exporter.

Both brokers are started for this row. Kafka's has the exporter as an agent, as Strimzi's images have it, and shows its
own metrics of partitions; Headgate shows the same partitions, and the lag of the groups, which it measures ten times a
second here: about once a reading.
"""

import http.client
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Final

from headgate.tools.bench.measuring.brokers import Launcher, free_port
from headgate.tools.bench.measuring.figures import Figure, Sample
from headgate.tools.bench.measuring.generator import LoadResult
from headgate.tools.bench.measuring.many_topics import check_errors, read_committed
from headgate.tools.bench.measuring.target import Target
from headgate.tools.bench.requests import frames, many_frames
from headgate.tools.bench.requests.client import BenchError
from headgate.tools.bench.rows.coordinators.groups import new_group, wait_until_served
from headgate.tools.bench.rows.row import BATCH_TINY, Row, Run

SCRAPE: Final = "scrape"
_PRODUCE_VERSION: Final = 7
_ANSWERED_WITHIN_SECONDS: Final = 60.0
_SIZE_OF: Final = re.compile(rb'^kafka_log_log_size\{.*topic="bench-.*$', re.MULTILINE)

FIGURES: Final = (
    Figure("CPU ms/scrape", lambda sample: sample.server_cpu_seconds * 1e3 / sample.requests, mark=0.5),
    Figure("ms/scrape", lambda sample: sample.seconds * 1e3 / sample.requests),
    Figure("MB/scrape", lambda sample: sample.record_bytes / 1e6 / sample.requests),
)


@dataclass(frozen=True, slots=True)
class ScrapeRow(Row):
    """One reading of the metrics after the other. Each group has committed offsets of one topic."""

    topics: int = 100
    partitions: int = 10
    """Of each topic."""
    groups: int = 100

    def runs(self, targets: Sequence[Target], stack: ExitStack) -> Mapping[str, Run]:
        return {target.name: stack.enter_context(self.opened(target)) for target in targets if target.launcher}

    def opened(self, target: Target) -> AbstractContextManager[Run]:
        if target.launcher is None:
            raise BenchError(f"{target.name} cannot be started again")
        return self._opened(target, target.launcher)

    @contextmanager
    def _opened(self, target: Target, launcher: Launcher) -> Iterator[Run]:
        port = free_port()
        broker = launcher.with_metrics(port).start(target.scratch / self.name / target.name)
        try:
            measured = replace(target, broker=broker, kept={}, many=[])
            self.fill(measured)
            self._wait_for_partitions(port)

            def run(seconds: float) -> Sample:
                return measured.measure(lambda: read_again_and_again(port, seconds))

            yield run
        finally:
            broker.stop()

    def fill(self, target: Target) -> None:
        """Create the topics, a record in each partition, and the offsets of the groups."""
        client = target.broker.client
        topics = [target.new_topic(self.partitions) for _ in range(self.topics)]
        for topic in topics:
            client.call(
                frames.produce_each(
                    _PRODUCE_VERSION, topic.name, range(self.partitions), BATCH_TINY.build(), topic.topic_id
                )
            )
        groups = [new_group(self.name) for _ in range(self.groups)]
        wait_until_served(client, groups)
        for number, group in enumerate(groups):
            named = [topics[number % self.topics].name]
            check_errors(client, many_frames.offset_commit(group, named, range(self.partitions)), read_committed)

    def _wait_for_partitions(self, port: int) -> None:
        """Wait until the metrics have all partitions. Raises BenchError."""
        wanted, deadline = self.topics * self.partitions, time.monotonic() + _ANSWERED_WITHIN_SECONDS
        while (found := len(_SIZE_OF.findall(read_metrics(port)))) != wanted:
            if time.monotonic() > deadline:
                raise BenchError(f"the metrics have {found} of {wanted} partitions")
            time.sleep(0.1)


def read_again_and_again(port: int, seconds: float) -> LoadResult:
    """Readings, one after the other; `record_bytes` are those of their texts."""
    began, count, size = time.perf_counter(), 0, 0
    while time.perf_counter() < began + seconds:
        size += len(read_metrics(port))
        count += 1
    return LoadResult(count, size, time.perf_counter() - began)


def read_metrics(port: int) -> bytes:
    """The text of the metrics. Raises OSError, BenchError."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWERED_WITHIN_SECONDS)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        text = answer.read()
    except http.client.HTTPException as error:
        raise BenchError(f"the metrics are not readable: {error!r}") from error
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise BenchError(f"the metrics are answered with {answer.status}: {text[:200]!r}")
    return text


ROW: Final = ScrapeRow(SCRAPE, FIGURES, 1, version=0, warm_up_share=6.0, least_seconds=2.0)
