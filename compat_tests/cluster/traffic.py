"""Load on a cluster: an idempotent producer of librdkafka, one of Java, and a group of both that reads and commits.

    with Traffic(cluster, placement) as traffic:
        traffic.flow()          # more of everything is acknowledged, read and committed
    traffic.check()             # none lost, none twice, in order; no offset has gone back; all replicas are equal

librdkafka writes to a topic of its own, which the group reads, and so does Java. Both topics are placed alike.
"""

from __future__ import annotations

import atexit
import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.replicas import assert_equal
from compat_tests.families.confluent import Confluent
from compat_tests.families.family import FromStart
from compat_tests.families.java_client import JavaClient
from compat_tests.groups.member import Kind, Member
from compat_tests.harness.records import Received, Sent
from compat_tests.harness.soak import SOAK
from compat_tests.harness.topics import placed_topic
from compat_tests.harness.waiting import until
from compat_tests.storage.load import Load, Pace

CONFIGS: Final = {"min.insync.replicas": "2"}
MEMBERS: Final = (Kind("confluent-kafka", "range"), Kind("java-4.4", "range"))
# A member that a busy machine holds up stays a member: a rebalance would read records again
MEMBER_SESSION_MS: Final = 20_000
# A hundred records a second or more, in pieces of the buffer before the Java program
JAVA_PAUSE_S: Final = 0.04
JAVA_FILL: Final = b"." * 1200
COMMIT_PAUSE_S: Final = 0.2
ASK_LIMIT_S: Final = 10.0
FLOW: Final = 300 if SOAK else 150
# Of librdkafka: a few hundred records a second, as every one is dumped from three logs, to every leader all the time.
# With a short linger, an idempotent producer that waits for replicas takes a tenth of a core
PACE: Final = Pace(3) if SOAK else Pace(3, pause_s=0.008, linger_ms=20)
JAVA_END_LIMIT_S: Final = 120.0
_NUMBERS: Final = itertools.count()
# Its JVM serves one test after the other
_JAVA: Final = JavaClient()
atexit.register(_JAVA.close)


class JavaProducer:
    """The Java producer in a thread: numbered records to each partition in turn, until `finish`; acks=all."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.bootstrap, self.topic, self.partitions = bootstrap, topic, partitions
        self.sent = 0
        self.failure: BaseException | None = None
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="java producer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            _JAVA.produce(self.bootstrap, self.topic, self._records(), "none")
        except BaseException as failure:  # noqa: BLE001  raised again by finish()
            self.failure = failure

    def _records(self) -> Iterator[Sent]:
        while not self._is_ending.is_set():
            for partition in range(self.partitions):
                value = b"%d %b" % (self.sent // self.partitions, JAVA_FILL)
                yield Sent(partition, round(time.time() * 1000), None, value, ())
                self.sent += 1
            time.sleep(JAVA_PAUSE_S)

    def end(self) -> None:
        """Send no more."""
        self._is_ending.set()

    def finish(self) -> None:
        """Send no more, and wait until all is acknowledged."""
        self.end()
        self._thread.join(JAVA_END_LIMIT_S)
        assert not self._thread.is_alive(), "records of the Java producer were never answered"
        if self.failure is not None:
            raise self.failure

    def assert_stored(self, partition: int, records: Sequence[Received]) -> None:
        """Every record is there, once and in its order."""
        numbers = [int((record.value or b"").split(b" ")[0]) for record in records]
        assert numbers == list(range(self.sent // self.partitions)), (
            f"{self.topic}-{partition}: {len(numbers)} records for {self.sent // self.partitions}, "
            f"{len(set(numbers))} different ones"
        )


class Group:
    """Two members that commit all the time, in a thread, and the committed offsets, which never go back."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.bootstrap, self.topic, self.partitions = bootstrap, topic, partitions
        self.name = f"readers-{next(_NUMBERS)}"
        self.members = [Member(kind, bootstrap, topic, self.name, MEMBER_SESSION_MS) for kind in MEMBERS]
        self.committed = dict.fromkeys(range(partitions), 0)
        self.commits = 0
        self.failure: BaseException | None = None
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def begin(self) -> None:
        """Commit from now on, as soon as each member has its partitions."""
        share = self.partitions // len(self.members)
        until(lambda: all(len(member.owned) == share for member in self.members), f"{self.name} to share {self.topic}")
        self._thread.start()

    def _run(self) -> None:
        settings = {"bootstrap.servers": self.bootstrap, "group.id": self.name, "log_level": 2}
        # Answers take milliseconds; a broker that stands still is asked again and again, as it keeps its connections
        settings |= {"socket.timeout.ms": 3_000}
        try:
            with closing(Consumer(settings)) as consumer:
                while not self._is_ending.is_set():
                    self._commit(consumer)
                    time.sleep(COMMIT_PAUSE_S)
        except BaseException as failure:  # noqa: BLE001  raised again by check()
            self.failure = failure

    def _commit(self, consumer: Consumer) -> None:
        for member in self.members:
            member.commit()
        asked = [TopicPartition(self.topic, partition) for partition in self.committed]
        try:
            answers = consumer.committed(asked, timeout=ASK_LIMIT_S)
        except KafkaException:  # the coordinator is gone, or moves
            return
        for found in answers:
            offset = max(found.offset, 0)
            assert found.error is None, found.error
            assert offset >= self.committed[found.partition], f"{self.name} went back: {found}, {self.committed}"
            self.committed[found.partition] = offset
        self.commits += 1

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def finish(self, ends: dict[int, int]) -> None:
        """Wait until everything is read and committed."""

        def is_done() -> bool:
            self.check()
            return self.committed == ends

        until(is_done, f"{self.name} to commit {ends}, not {self.committed}")
        self._is_ending.set()
        self._thread.join()
        self.check()

    def close(self) -> None:
        """End the members, and with them a commit that is not done."""
        self._is_ending.set()
        for member in self.members:
            member.end()
        if self._thread.ident is not None:
            self._thread.join()

    def given(self) -> list[tuple[int, int]]:
        """(partition, offset) of every record that a member was given."""
        return sorted(record for member in self.members for record in member.records)


class Traffic:
    """For the length of a with-block; all is acknowledged, read and committed at its end."""

    def __init__(self, cluster: Cluster, placement: Sequence[Sequence[int]]) -> None:
        self.cluster = cluster
        self.partitions = len(placement)
        self.topic, self.java_topic = (placed_topic(cluster.bootstrap, placement, CONFIGS) for _ in range(2))
        for topic in (self.topic, self.java_topic):
            cluster.wait_for_topic(topic, self.partitions)
        self.load = Load(cluster.bootstrap, self.topic, self.partitions, producers=1, pace=PACE)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.group = Group(self.cluster.bootstrap, self.topic, self.partitions)
            stack.callback(self.group.close)
            self.java = JavaProducer(self.cluster.bootstrap, self.java_topic, self.partitions)
            stack.callback(self.java.end)
            self.group.begin()
            stack.enter_context(self.load)
            self.flow()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as stack:
            # Ends the producers, whatever happened; the group reads what they wrote
            stack.callback(self.group.close)
            self._stack.pop_all().__exit__(kind, error, trace) if error else self._finish()

    def _finish(self) -> None:
        self.load.__exit__(None, None, None)
        self.java.finish()
        self.load.assert_no_failure()
        self.group.finish(ends(self.cluster.bootstrap, self.topic, self.partitions))

    def flow(self) -> float:
        """Wait for more records acknowledged in every partition, and for commits of the group; the seconds."""
        began_s = time.monotonic()
        commits = self.group.commits
        self.load.wait_for_each(FLOW // self.partitions)
        until(lambda: self.group.commits > commits + 1 or self.group.failure is not None, "commits of the group")
        self.check_so_far()
        return time.monotonic() - began_s

    def check_so_far(self) -> None:
        self.load.assert_no_failure()
        self.group.check()
        assert self.java.failure is None, self.java.failure

    def check(self) -> int:
        """What was acknowledged is there: once, in order, the same in all replicas; the number of records."""
        for partition, records in self._read(self.topic).items():
            self.load.assert_stored(partition, records)
        for partition, records in self._read(self.java_topic).items():
            self.java.assert_stored(partition, records)
        return sum(assert_equal(self.cluster, topic) for topic in (self.topic, self.java_topic))

    def _read(self, topic: str) -> dict[int, list[Received]]:
        limits = ends(self.cluster.bootstrap, topic, self.partitions)
        found: dict[int, list[Received]] = {partition: [] for partition in limits}
        for record in Confluent().consume(self.cluster.bootstrap, topic, FromStart(), limits):
            found[record.partition].append(record)
        return found

    def assert_undisturbed(self, placement: Sequence[Sequence[int]]) -> None:
        """The first replicas lead, and every record was given to one member, once: the group had no rebalance."""
        assert [state.leader for state in self.cluster.states(self.topic)] == [replicas[0] for replicas in placement]
        wanted = ends(self.cluster.bootstrap, self.topic, self.partitions)
        assert self.group.given() == [(one, offset) for one, end in sorted(wanted.items()) for offset in range(end)]


def ends(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    """The high watermark of each partition."""
    with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "log_level": 2})) as consumer:
        asked = [TopicPartition(topic, partition) for partition in range(partitions)]
        return {one.partition: consumer.get_watermark_offsets(one, timeout=60)[1] for one in asked}
