"""SIGKILL of the broker and of clients that consume, transform and produce: each record is copied exactly once.

6 times each, or HEADGATE_KILLS times; `make soak` raises it to 200. The page cache stays: see storage. Groups
of four kinds of clients copy all the time, most of them with two members, so that a kill meets transactions in every
state; every fifth time a client and the broker are killed together. In the end each client is killed while its
transaction is open, nobody comes back, and the timeout has to abort these transactions.

This part of the soak by name: make soak ARGS="-k across_kills"
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from compat_tests.families.confluent import new_consumer
from compat_tests.groups import restless
from compat_tests.harness.broker import Broker, installed_command, running
from compat_tests.harness.soak import SOAK
from compat_tests.harness.waiting import Late, until
from compat_tests.transactions.copiers.committed_values import Follower, committed_values
from compat_tests.transactions.copiers.copier import FAST, KINDS, STEADY
from compat_tests.transactions.copiers.open_transactions import open_transactions
from compat_tests.transactions.copiers.pipeline import ENDED_S, Pipeline

KILLS = int(os.environ.get("HEADGATE_KILLS", "200" if SOAK else "6"))
EVERY_TOGETHER = 5
STUCK_S = 120.0
SETTINGS = {
    **restless.SETTINGS,
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    # The smallest segments that Kafka allows a topic, so that kills meet rolls
    "offsets.topic.segment.bytes": "1048576",
    "transaction.state.log.segment.bytes": "1048576",
}
ENDED = {"CompleteCommit", "CompleteAbort", "Empty"}
# What Headgate says of a transaction that it aborts, and what Kafka says
OVERDUE = re.compile(
    r"transaction of '(?P<ours>[^']+)' is aborted by the coordinator: it is open for longer|"
    r"transactionalId (?P<kafkas>\S+) due to timeout"
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running(tmp_path / "killed", SETTINGS) as broker:
        yield broker


class Pipelines:
    """The copiers of all kinds, and the consumer that follows their output."""

    def __init__(self, broker: Broker, directory: Path) -> None:
        directory.mkdir()
        self.broker = broker
        self.all = [Pipeline(broker.bootstrap, kind, directory) for kind in KINDS]
        self.places = [place for pipeline in self.all for place in pipeline.places]
        settings = {"enable.idempotence": True, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}
        self.producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 2, **settings})
        self.follower = Follower(broker.bootstrap, self.places)
        # The commits that a pipeline had when one of its clients was killed
        self.commits_when_killed: dict[Pipeline, int] = {}
        # The longest wait for the offsets of each kind to be stable
        self.unstable_s = {pipeline.kind.name: 0.0 for pipeline in self.all}

    def start(self) -> None:
        self.feed()
        for pipeline in self.all:
            pipeline.start(STEADY)
        self.wait_for_progress(self.all)

    def feed(self) -> None:
        for pipeline in self.all:
            pipeline.feed(self.producer)
        assert self.producer.flush(STUCK_S) == 0

    def wait_for_progress(self, pipelines: Iterable[Pipeline]) -> None:
        """Until each has committed a few times more."""
        wanted = {pipeline: pipeline.commits + 3 for pipeline in pipelines}

        def is_there() -> bool:
            self.check()
            return all(pipeline.commits >= commits for pipeline, commits in wanted.items())

        try:
            until(is_there, f"commits of {[pipeline.kind.name for pipeline in wanted]}", STUCK_S)
        except Late as late:
            raise Late(f"{late}: {[pipeline.state() for pipeline in self.all]}") from None

    def check(self) -> None:
        self.follower.check()
        for pipeline in self.all:
            pipeline.keep_alive(STEADY)

    def check_committed(self) -> None:
        for pipeline in self.all:
            began = time.monotonic()
            pipeline.check_committed()
            took_s = time.monotonic() - began
            self.unstable_s[pipeline.kind.name] = max(took_s, self.unstable_s[pipeline.kind.name])

    def kill_broker(self, meanwhile: Callable[[], None]) -> float:
        """The seconds until it is ready again."""
        self.broker.kill()
        for pipeline in self.all:
            pipeline.note_acknowledged()
        meanwhile()
        ready_s = self.broker.start()
        self.check_committed()
        return ready_s

    def kill_client(self, pipeline: Pipeline) -> None:
        pipeline.kill_next(STEADY)
        self.commits_when_killed[pipeline] = pipeline.commits

    def wait_before_kills(self, victim: Pipeline) -> None:
        """Until the victim has recovered from its last kill, and all others have gone on but those that recover yet.

        They wait for the session and the transaction of the client that was killed.
        """
        recovering = [one for one in self.all if one.commits <= self.commits_when_killed.get(one, -1)]
        self.wait_for_progress([one for one in self.all if one is victim or one not in recovering])

    def drain(self) -> None:
        """Copy all that is left, by new lives."""
        for pipeline in self.all:
            pipeline.start(FAST)
        for pipeline in self.all:
            until(functools.partial(self.is_drained, pipeline), f"{pipeline.kind.name} to copy the rest", STUCK_S, 0.1)

    def is_drained(self, pipeline: Pipeline) -> bool:
        """On a busy machine a transaction may be overdue here too: its copier ends, and starts again."""
        for one in self.all:
            one.keep_alive(FAST)
        return pipeline.is_drained()

    def kill_in_transactions(self) -> set[str]:
        """Kill each copier while its transaction is open; return the transactional ids.

        It is stopped first, so that it cannot end what is seen to be open.
        """
        self.check_committed()
        self.feed()
        running = {copier.name: copier for pipeline in self.all for copier in pipeline.copiers}
        names = set(running)

        def are_killed() -> bool:
            self.check()
            for copier in running.values():
                copier.pause()
            # Twice: what a copier had sent when it was stopped may be on its way at the first time
            still_open = open_transactions(self.broker.bootstrap)
            still_open &= open_transactions(self.broker.bootstrap)
            for name in still_open & set(running):
                running.pop(name).kill()
            for copier in running.values():
                copier.go_on()
            return not running

        until(are_killed, f"open transactions of {names}", STUCK_S, 0.03)
        for pipeline in self.all:
            pipeline.note_acknowledged()
        return names

    def kill(self) -> None:
        for pipeline in self.all:
            pipeline.kill()
            pipeline.note_acknowledged()

    def close(self) -> None:
        self.kill()
        self.follower.close()


@pytest.fixture
def pipelines(broker: Broker, tmp_path: Path) -> Iterator[Pipelines]:
    with contextlib.closing(Pipelines(broker, tmp_path / "copiers")) as pipelines:
        yield pipelines


def headgate_txn(bootstrap: str, *arguments: str) -> list[Any]:
    """The rows of `headgate txn`, which succeeds."""
    typed = [*installed_command(), "txn", *arguments, "--bootstrap-server", bootstrap]
    done = subprocess.run(typed, capture_output=True, text=True, timeout=STUCK_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def assert_protocols(pipelines: Pipelines) -> None:
    """With the new protocol the epoch is raised by each transaction, with the old one by each life."""
    epochs = {
        row["transactional_id"]: row["producer_epoch"] for row in headgate_txn(pipelines.broker.bootstrap, "describe")
    }
    for pipeline in pipelines.all:
        raised = [epochs[copier.name] for copier in pipeline.copiers if copier.commits and not copier.overdue]
        assert all((epoch > 0) == pipeline.kind.has_new_protocol for epoch in raised), (pipeline.kind.name, raised)


def assert_overdue(pipelines: Pipelines) -> None:
    """Nothing but its timeout has ended a transaction in the life of its copier."""
    matches = map(OVERDUE.search, pipelines.broker.error_lines())
    found = [match["ours"] or match["kafkas"] for match in matches if match]
    for copier in (copier for pipeline in pipelines.all for copier in pipeline.copiers):
        assert copier.overdue <= found.count(copier.name), f"{copier.name} was fenced {copier.overdue} times: {found}"


def wait_until_aborted(pipelines: Pipelines, names: set[str]) -> float:
    """Until the broker has aborted these open transactions, and no partition has an open one; the seconds that took."""
    bootstrap = pipelines.broker.bootstrap
    levels = [new_consumer(bootstrap, {"isolation.level": level}) for level in ("read_committed", "read_uncommitted")]

    def is_stable(topic: str, partition: int) -> bool:
        stable, end = (one.get_watermark_offsets(TopicPartition(topic, partition), STUCK_S) for one in levels)
        return bool(stable == end)

    def are_stable() -> bool:
        return all(is_stable(*place) for place in pipelines.places)

    def are_ended() -> bool:
        return are_stable() and {row["state"] for row in headgate_txn(bootstrap, "list")} <= ENDED

    assert not are_stable(), "no partition has an open transaction"
    waited_s = until(are_ended, "the end of all transactions", ENDED_S, 0.1)
    for consumer in levels:
        consumer.close()
    states = {row["transactional_id"]: row["state"] for row in headgate_txn(bootstrap, "list")}
    aborted = [name for name in names if states[name] == "CompleteAbort"]
    # A few may have been decided: an EndTxn that waits for its write is not seen in the state yet
    assert len(aborted) > len(names) // 2, f"the transactions of all but {aborted} were not open"
    assert headgate_txn(bootstrap, "hanging", "--max-transaction-timeout", "0s") == []
    return waited_s


def test_each_record_is_copied_exactly_once_across_kills(pipelines: Pipelines, figure: Callable[[str], None]) -> None:
    bootstrap = pipelines.broker.bootstrap
    pipelines.start()
    assert_protocols(pipelines)
    ready_s = []
    for number in range(KILLS):
        chance = random.Random(number)
        victim = pipelines.all[number % len(KINDS)]
        kill_client = functools.partial(pipelines.kill_client, victim)
        is_together = number % EVERY_TOGETHER == 0
        pipelines.feed()
        pipelines.wait_before_kills(victim)
        time.sleep(chance.uniform(0, 0.2))
        ready_s.append(pipelines.kill_broker(kill_client if is_together else pipelines.check))
        if not is_together:
            time.sleep(chance.uniform(0, 0.2))
            kill_client()
    pipelines.feed()  # while one recovered for long, the others may have copied all that there was
    pipelines.wait_for_progress(pipelines.all)

    ended_s = wait_until_aborted(pipelines, pipelines.kill_in_transactions())
    for pipeline in pipelines.all:
        pipeline.check_committed()
    found = committed_values(bootstrap, pipelines.places)
    for pipeline in pipelines.all:
        pipeline.assert_copied(found)

    pipelines.drain()
    pipelines.kill()
    found = committed_values(bootstrap, pipelines.places)
    for pipeline in pipelines.all:
        pipeline.assert_copied(found)
    until(lambda: pipelines.follower.values == found, "the follower to see the same", STUCK_S, 0.1)
    assert_overdue(pipelines)
    copied = {pipeline.kind.name: f"{sum(pipeline.least.values())} in {pipeline.commits}" for pipeline in pipelines.all}
    ready = f"ready again in at most {max(ready_s, default=0):.2f} s"
    figure(f"{KILLS} kills of broker and clients: {ready}, the last open transactions ended in {ended_s:.1f} s")
    unstable = {name: round(waited_s, 1) for name, waited_s in pipelines.unstable_s.items()}
    figure(f"the longest waits for stable offsets of a group, in seconds: {unstable}")
    figure(f"records copied, and transactions: {copied}")
