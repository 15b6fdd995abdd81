"""A round: clients write and read for some seconds while brokers are killed, paused, cut off, and requests are held."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from compat_tests.harness import client_jvm, wire
from compat_tests.harness.apache_kafka import ROOT
from compat_tests.harness.proxy import Proxy
from compat_tests.harness.waiting import Late, until
from compat_tests.histories.checker import Anomaly, check
from compat_tests.histories.confluent_worker import ConfluentWorker, Recorder
from compat_tests.histories.history import OK, load

KEPT: Final = ROOT / "build" / "histories"
PARTITIONS: Final = 4
WORKERS: Final = 2
TRANSACTION_TIMEOUT_MS: Final = 6_000
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "auto.create.topics.enable": "false",
}
# The requests that are held, or come late
HELD: Final = {
    wire.PRODUCE: "Produce",
    wire.FETCH: "Fetch",
    wire.OFFSET_FETCH: "OffsetFetch",
    wire.ADD_PARTITIONS_TO_TXN: "AddPartitionsToTxn",
    wire.END_TXN: "EndTxn",
    wire.TXN_OFFSET_COMMIT: "TxnOffsetCommit",
}
# After the last fault, until each client has written again; longer than the session of a broker and a transaction
BOUND_S: Final = 30.0
END_LIMIT_S: Final = 60.0
ANSWER_LIMIT_S: Final = 20.0


class Plan(NamedTuple):
    """Seconds with faults, the longest fault, the seconds from one to the next, and which faults there are."""

    faulty_s: float
    longest_s: float
    between_s: float
    faults: tuple[str, ...] = ("kill", "pause", "hold", "hold", "late", "late", "cut")
    apis: tuple[int, ...] = tuple(HELD)
    # A late EndTxn ends the next transaction, but for clients of the new protocol of transactions (KIP-890)
    late_for: str = "java"


@dataclass(frozen=True)
class Target:
    """The brokers of a round, by what may be done to one; `proxies` are the addresses that clients have."""

    proxies: list[Proxy]
    kill_and_start: Callable[[int], None]
    pause: Callable[[int], None]
    resume: Callable[[int], None]
    heal: Callable[[], None]

    @property
    def bootstrap(self) -> str:
        return ",".join(proxy.bootstrap for proxy in self.proxies)


class JavaWorkers:
    """A JVM with workers, which end with its input."""

    def __init__(self, recorder: Recorder, bootstrap: str, topic: str, seed: int, log: Path) -> None:
        words = (bootstrap, topic, PARTITIONS, seed, WORKERS, TRANSACTION_TIMEOUT_MS)
        program = client_jvm.command("HistoryWorker")
        self.recorder, self.log = recorder, log
        with log.open("wb") as errors:
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(
                [*program, *map(str, words)], stdin=pipe, stdout=pipe, stderr=errors, text=True
            )
        self._thread = threading.Thread(target=self._listen, name="java workers", daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.recorder.write(line)

    def is_over(self) -> bool:
        """Before its input ends, only a failure ends it."""
        return self.process.poll() is not None

    def ask_to_end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def finish(self, limit_s: float) -> None:
        """A JVM that does not end leaves operations without an outcome."""
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
        status = self.process.wait()
        self._thread.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        assert status <= 0, f"the Java workers ended with {status}: {self.log.read_text()[-3000:]}"


class Round:
    """One round, from its seed; the history is in `path`."""

    def __init__(self, target: Target, topic: str, seed: int, plan: Plan, path: Path) -> None:
        self.target, self.topic, self.seed, self.plan, self.path = target, topic, seed, plan, path
        self.chance = random.Random(seed)
        self.recorder = Recorder(path)
        self.java_log = path.with_suffix(".java.log")
        self.faults: list[str] = []

    def play(self) -> list[Anomaly]:
        """Run the clients and the faults, read all there is, and judge the history."""
        with ExitStack() as stack:
            stack.callback(self.recorder.close)
            of_all = self.recorder, self.target.bootstrap, self.topic
            java = JavaWorkers(*of_all, self.seed, self.java_log)
            stack.callback(java.process.kill)
            # In every second round librdkafka's workers are members of one group
            shared = f"shared-{self.seed}" if self.seed % 2 else None
            workers = [
                ConfluentWorker(*of_all, PARTITIONS, f"{number}-{self.seed}", TRANSACTION_TIMEOUT_MS, shared)
                for number in range(WORKERS)
            ]
            until(lambda: java.is_over() or self._writers() == 2 * WORKERS, "each client to write", END_LIMIT_S)
            self._disturb()
            self._recover()
            java.ask_to_end()
            for worker in workers:
                worker.ask_to_end()
            for worker in workers:
                worker.finish(END_LIMIT_S)
            java.finish(END_LIMIT_S)
            for worker in workers:
                if worker.failure is not None:
                    raise worker.failure
            # An operation that hangs is an anomaly of its own, and no other operation is unread for that
            self._read_all()
        return self.judge()

    def judge(self) -> list[Anomaly]:
        with self.path.open() as lines:
            return check(load(lines))

    def _writers(self) -> int:
        return len(self.recorder.acknowledged)

    def _disturb(self) -> None:
        ends_s = time.monotonic() + self.plan.faulty_s
        while time.monotonic() < ends_s:
            fault = getattr(self, f"_{self.chance.choice(self.plan.faults)}")
            note = self.recorder.invoke("faults", "fault")
            text = fault(self.chance.randrange(len(self.target.proxies)))
            self.faults.append(text)
            note(OK, text=text)
            time.sleep(self.chance.uniform(0, self.plan.between_s))

    def _kill(self, number: int) -> str:
        time.sleep(self.chance.uniform(0, 0.05))
        self.target.kill_and_start(number)
        return f"broker {number} was killed and started"

    def _pause(self, number: int) -> str:
        lasts_s = self.chance.uniform(0.1, self.plan.longest_s)
        self.target.pause(number)
        time.sleep(lasts_s)
        self.target.resume(number)
        return f"broker {number} stood still for {lasts_s:.1f} s"

    def _hold(self, number: int) -> str:
        return self._hold_one(number, None)

    def _late(self, number: int) -> str:
        return self._hold_one(number, self.plan.late_for)

    def _hold_one(self, number: int, late_for: str | None) -> str:
        key, lasts_s = self.chance.choice(self.plan.apis), self.chance.uniform(0.1, self.plan.longest_s)
        self.target.proxies[number].hold(key, lasts_s, late_for)
        time.sleep(lasts_s / 2)
        how = "held" if late_for is None else "delivered late, after its connection was cut,"
        return f"the next {HELD[key]} to broker {number} is {how} for {lasts_s:.1f} s"

    def _cut(self, number: int) -> str:
        self.target.proxies[number].cut()
        return f"connections to broker {number} were cut"

    def _recover(self) -> None:
        """All faults end; each client has to write again."""
        for proxy in self.target.proxies:
            proxy.let_go()
        self.target.heal()
        before = dict(self.recorder.acknowledged)
        self.recorder.invoke("faults", "heal")(OK, bound_s=BOUND_S)

        def have_written() -> bool:
            # The operation under way at the heal is not counted
            return all(count > before.get(process, 0) + 1 for process, count in self.recorder.acknowledged.items())

        try:
            until(have_written, "each client to write after the last fault", BOUND_S)
        except Late:
            return  # the checker names it

    def _read_all(self) -> None:
        """By a new consumer, to the last stable offsets, once no transaction is open any more."""
        note = self.recorder.invoke("final", "ends")
        stable, ends = self._ends("read_committed"), self._ends("read_uncommitted")
        waits_until_s = time.monotonic() + END_LIMIT_S
        while stable != ends and time.monotonic() < waits_until_s:
            time.sleep(0.1)
            stable, ends = self._ends("read_committed"), self._ends("read_uncommitted")
        note(OK, offsets=self._keys(stable), ends=self._keys(ends))
        with closing(self._reader("read_committed")) as consumer:
            note = self.recorder.invoke("final", "assign")
            consumer.assign([TopicPartition(self.topic, one, 0) for one in range(PARTITIONS)])
            note(OK, offsets=self._keys(dict.fromkeys(range(PARTITIONS), 0)))
            note = self.recorder.invoke("final", "poll")
            note(OK, reads=list(self._read_to_end(consumer)))

    def _read_to_end(self, consumer: Consumer) -> Iterator[tuple[str, int, str]]:
        """Until each partition says that this is its end; the checker names what is missing."""
        deadline_s = time.monotonic() + END_LIMIT_S
        left = set(range(PARTITIONS))
        while left and time.monotonic() < deadline_s:
            for message in consumer.consume(1000, 0.1):
                error, value, partition, offset = (
                    message.error(),
                    message.value(),
                    message.partition(),
                    message.offset(),
                )
                if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                    left.discard(partition if partition is not None else -1)
                elif error is None and value is not None and offset is not None:
                    yield f"{self.topic}-{partition}", offset, value.decode()

    def _reader(self, level: str) -> Consumer:
        settings = {
            "group.id": "final",
            "enable.auto.commit": False,
            "isolation.level": level,
            "log_level": 2,
            "enable.partition.eof": True,
        }
        return Consumer({"bootstrap.servers": self.target.bootstrap, **settings, "fetch.wait.max.ms": 50})

    def _ends(self, level: str) -> dict[int, int]:
        with closing(self._reader(level)) as consumer:
            asked = [TopicPartition(self.topic, one) for one in range(PARTITIONS)]
            return {one.partition: consumer.get_watermark_offsets(one, timeout=ANSWER_LIMIT_S)[1] for one in asked}

    def _keys(self, offsets: Mapping[int, int]) -> dict[str, int]:
        return {f"{self.topic}-{partition}": offset for partition, offset in offsets.items()}
