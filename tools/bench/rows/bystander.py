"""Rows of a bystander: the latency of a small producer beside a heavy load of other clients (docs/performance.md).

The bystander and the load are separate processes. Each leg measures the bystander alone first, then beside the load for
three times as long: some loads delay the bystander for seconds.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event
from typing import Final, Self

from headgate.tools.bench.measuring.figures import Figure, Sample
from headgate.tools.bench.measuring.generator import Bystander, Load, LoadResult, run_load
from headgate.tools.bench.measuring.many_topics import (
    MANY_TOPICS,
    check_errors,
    chunks,
    delete,
    many_topics,
    read_committed,
    read_created,
    served,
)
from headgate.tools.bench.measuring.target import Target, Topic
from headgate.tools.bench.requests import frames, many_frames
from headgate.tools.bench.requests.client import BenchError
from headgate.tools.bench.requests.templates import Template, template, write_templates
from headgate.tools.bench.rows.coordinators.groups import new_group, wait_until_served
from headgate.tools.bench.rows.row import BATCH_TINY, MEBIBYTE, Row, Run, produce_templates

INTERVAL_US: Final = 2000
_PRODUCE_VERSION: Final = 7
_STRETCH: Final = 3
_TAIL_SECONDS: Final = 0.5
"""The load runs on for this time after the end of the bystander."""
_GONE_WITHIN_SECONDS: Final = 120.0

FIGURES: Final = (
    Figure("p99 ms", lambda sample: sample.p99_us / 1000, mark=1.0, limit=10, unit="ms"),
    Figure("p50 ms", lambda sample: sample.p50_us / 1000),
    Figure("max ms", lambda sample: sample.max_us / 1000),
    Figure("p99 ms alone", lambda sample: sample.alone_p99_us / 1000),
    Figure("p50 ms alone", lambda sample: sample.alone_p50_us / 1000),
    Figure("load requests/s", lambda sample: sample.loads_per_second, more_is_better=True),
    Figure("broker CPU s/s", lambda sample: sample.server_cpu_seconds / sample.seconds),
)


@dataclass(frozen=True, slots=True)
class BystanderRow(Row):
    """One producer of a record every 2 ms. `connections` and `version` (of `api`) belong to the load beside it."""

    least_seconds: float = math.inf
    topics: int = MANY_TOPICS
    """The number of topics that the load names."""

    @abstractmethod
    def load(self, target: Target, topics: Sequence[Topic]) -> Load:
        """The load, with its requests written to a file."""

    def least_answer_bytes(self) -> int:
        """The smallest plausible mean of answer bytes: a broker that leaves something out must not look good."""
        return 0

    def clean_up(self, target: Target) -> None:
        """Remove after each leg what the load has created, so that the other broker has the machine alone."""

    @contextmanager
    def opened(self, target: Target) -> Iterator[Run]:
        topics = many_topics(target, self.topics)
        with target.topic(1) as own:
            load = self.load(target, topics)
            path = target.scratch_file("bystander.templates")
            write_templates(path, produce_templates(own, BATCH_TINY.build(), _PRODUCE_VERSION))
            bystander = Bystander(_PRODUCE_VERSION, path, INTERVAL_US, 1.0)

            def run(seconds: float) -> Sample:
                alone = target.run(replace(bystander, seconds=seconds))
                sample = self.beside(target, load, replace(bystander, seconds=seconds * _STRETCH))
                return replace(sample, alone_p50_us=alone.p50_us, alone_p99_us=alone.p99_us)

            yield run

    def beside(self, target: Target, load: Load, bystander: Bystander) -> Sample:
        """A sample of the bystander beside the load, with the rate of the load's answers."""
        with Background(target, replace(load, seconds=bystander.seconds + _TAIL_SECONDS)) as background:
            sample = target.sample(bystander, background.start)
        loaded = background.result()
        self.clean_up(target)
        self.check(target.name, loaded)
        return replace(sample, loads_per_second=loaded.requests / loaded.seconds)

    def check(self, broker: str, loaded: LoadResult) -> None:
        """Raise BenchError if the answers of the load were too small."""
        mean_bytes = loaded.bytes_received / loaded.requests
        if mean_bytes < self.least_answer_bytes():
            raise BenchError(
                f"{broker}: the load of {self.name} got {mean_bytes:.0f} bytes an answer, "
                f"at least {self.least_answer_bytes()} are expected: something is missing in the answers"
            )


class Background:
    """A load that starts after the bystander has connected, so that connecting is not measured.

    The process of the load lives as long as the block, so that its CPU time can be read.
    """

    def __init__(self, target: Target, load: Load) -> None:
        self.target, self.load = target, load
        self._is_ready, self._is_over = Event(), Event()
        self._process_ids: list[int] = []
        self._loading: Future[LoadResult] = Future()
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._is_over.set()
        self._pool.shutdown()
        if isinstance(error, OSError) and self._loading.done():
            self.result()  # the process of a failed load is gone; this raises the load's own error

    def start(self) -> int:
        """Start the load; return its process id when all its connections are open. Raises BenchError."""
        self._loading = self._pool.submit(self._run)
        self._loading.add_done_callback(lambda _: self._is_ready.set())  # also after a failure, else nothing sets it
        self._is_ready.wait()
        if not self._process_ids:
            self._loading.result()
        return self._process_ids[0]

    def result(self) -> LoadResult:
        """The result of the load; call after the block. Raises BenchError for a wrong answer."""
        return self._loading.result()

    def _run(self) -> LoadResult:
        port = self.target.broker.port
        return run_load(self.target.generators, self.load, port, self._begin, lambda _: self._is_over.wait())

    def _begin(self, process_id: int) -> None:
        self._process_ids.append(process_id)
        self._is_ready.set()


@dataclass(frozen=True, slots=True)
class FetchSessionRow(BystanderRow):
    """Consumers, each with a fetch session (KIP-227) of all topics, in which nothing changes."""

    max_wait_ms: int = 0

    api = frames.FETCH

    def load(self, target: Target, topics: Sequence[Topic]) -> Load:
        return self.written(target, self.templates(topics), opening=True)

    def templates(self, topics: Sequence[Topic]) -> list[Template]:
        """The full fetch, which opens the session without waiting, and the incremental one, which names nothing."""
        opening = frames.FetchOptions(MEBIBYTE, 0, in_session=True)
        named = [(topic.name, topic.topic_id, [0]) for topic in topics]
        return [
            template(frames.fetch_of(self.version, named, opening))._replace(offset_position=0),
            template(frames.fetch_of(self.version, [], replace(opening, max_wait_ms=self.max_wait_ms))),
        ]


@dataclass(frozen=True, slots=True)
class DescribeConfigsRow(BystanderRow):
    """Clients that describe the configs of all topics in one request, again and again."""

    api = frames.DESCRIBE_CONFIGS

    def load(self, target: Target, topics: Sequence[Topic]) -> Load:
        return self.written(target, [template(many_frames.describe_configs([topic.name for topic in topics]))])

    def least_answer_bytes(self) -> int:
        return self.topics * 500  # a topic has about thirty settings in Kafka


@dataclass(frozen=True, slots=True)
class OffsetFetchRow(BystanderRow):
    """Clients that ask for the committed offsets of one group, with each topic `rows_a_topic` times in one request."""

    rows_a_topic: int = 10

    api = frames.OFFSET_FETCH

    def load(self, target: Target, topics: Sequence[Topic]) -> Load:
        client, group = target.broker.client, new_group(self.name)
        names = [topic.name for topic in topics]
        wait_until_served(client, [group])
        for chunk in chunks(names):
            check_errors(client, many_frames.offset_commit(group, chunk), read_committed)
        return self.written(target, [template(many_frames.offset_fetch(group, names, self.rows_a_topic))])

    def least_answer_bytes(self) -> int:
        return self.topics * self.rows_a_topic * 20


@dataclass(frozen=True, slots=True)
class ManyMetadataRow(BystanderRow):
    """Clients that ask for Metadata of many topics by name, each client of other topics."""

    named: int = 3200

    api = frames.METADATA

    def load(self, target: Target, topics: Sequence[Topic]) -> Load:
        names = [topic.name for topic in topics]
        return self.written(
            target, [template(frames.metadata(self.version, self.names(names, at))) for at in range(self.connections)]
        )

    def names(self, names: Sequence[str], number: int) -> list[str]:
        """The names for client `number`: from the client's own start on, around the end."""
        first = number * len(names) // self.connections
        return [*names[first:], *names[:first]][: self.named]

    def least_answer_bytes(self) -> int:
        return self.named * 50


@dataclass(frozen=True, slots=True)
class CreateTopicsRow(BystanderRow):
    """A client that creates topics in one request and deletes them in the next, twice.

    Only twice: Kafka creates and deletes the files after its answer, which takes ten times as long.
    """

    created: int = 1000
    requests: int = 4

    api = frames.CREATE_TOPICS

    def names(self) -> list[str]:
        return [f"created-{number:05}" for number in range(self.created)]

    def load(self, target: Target, topics: Sequence[Topic]) -> Load:
        pair = many_frames.create_topics(self.names()), many_frames.delete_topics(self.names())
        return self.written(target, [template(writer) for writer in pair], requests=self.requests, rotate=True)

    def least_answer_bytes(self) -> int:
        return self.created * 20

    def clean_up(self, target: Target) -> None:
        """Delete the topics. Kafka handles files in order, long after its answers: a last topic shows the end."""
        client, last = target.broker.client, "created-last"
        delete(client, self.names())
        check_errors(client, many_frames.create_topics([last]), read_created)
        served(client, [last])
        delete(client, [last])
        target.wait_until_gone("created", _GONE_WITHIN_SECONDS)


_FETCH_VERSION: Final = 13
_SESSION: Final = FetchSessionRow(
    "bystander-fetch-5000", FIGURES, 1, _FETCH_VERSION, topics=5000, in_flight=600, warm_up_share=0.5
)
_ROWS: Final[Sequence[BystanderRow]] = (
    _SESSION,
    replace(_SESSION, name="bystander-fetch-9000", topics=9000),
    replace(_SESSION, name="bystander-idle-9000", topics=9000, connections=4, in_flight=1, max_wait_ms=500),
    DescribeConfigsRow(
        "bystander-describe-configs", FIGURES, 1, many_frames.DESCRIBE_CONFIGS_VERSION, warm_up_share=0.5
    ),
    OffsetFetchRow("bystander-offset-fetch", FIGURES, 1, many_frames.OFFSET_FETCH_VERSION, warm_up_share=0.5),
    ManyMetadataRow("bystander-metadata", FIGURES, 100, version=12, warm_up_share=0.5),
    CreateTopicsRow(
        "bystander-create-topics", FIGURES, 1, many_frames.CREATE_TOPICS_VERSION, topics=0, warm_up_share=0.5
    ),
)
BYSTANDERS: Final[Mapping[str, BystanderRow]] = {row.name: row for row in _ROWS}
