"""The tests of franz-go's own suite that ask a broker, by name: each passes on Apache Kafka 4.1, and on ours.

The suite is that of the version which compat_tests/go/franz-go pins; `make install` builds it (`go test -c`). It runs
once for all the tests here, and in the long runs once more on three brokers, with three replicas. Three brokers of
Apache Kafka 3.9 with ZooKeeper pass the same tests, but for those of KIP-848, which skip themselves there. Whatever is
in the suite is listed here, is left out with its reason, or needs no broker.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from compat_tests.cluster.cluster import HEADGATE, Cluster
from compat_tests.harness import toolchain
from compat_tests.harness.broker import running
from compat_tests.harness.soak import SOAK

GROUPS = (
    "Test848RegexBrokerResolves",
    "TestGroupETL/cooperative-sticky",
    "TestGroupETL/cooperative-sticky/static",
    "TestGroupETL/range",
    "TestGroupETL/range/848",
    "TestGroupETL/sticky/848",
    "TestGroupETL/sticky/848/static",
    "TestGroupSimple/848",
    "TestGroupSimple/classic",
    "TestIssue1034",
    "TestIssue523/roundrobin",
    "TestIssue523/sticky",
    "TestUnknownGroupOffsetFetchPinned",
)
# From an offset, the start or the end; on with it, paused, purged, back again
OFFSETS = (
    "TestAddRemovePartitions",
    "TestConsumeMaxDecompressBatchBytes",
    "TestConsumeRegex",
    "TestDirectPartitionPurge",
    "TestHookPollStart/PollFetches",
    "TestHookPollStart/PollRecords",
    "TestIssue325",
    "TestIssue337",
    "TestIssue434",
    "TestIssue648",
    "TestIssue810",
    "TestIssue865",
    "TestIssueFetchLargerThanBrokerMaxReadBytes",
    "TestPauseIssue489",
    "TestPauseIssueOct2023",
    "TestPooling",
)
# Neither, but they ask a broker too
OTHERS = (
    "TestClient_Produce",
    "TestClient_ProduceLargeMessages/LargeMessage_FailureBroker",
    "TestClient_ProduceLargeMessages/LargeMessage_FailureClient",
    "TestIssue769",
    "TestIssue831",
    "TestIssueProduceSyncManualPartitionNegativeDoesNotPanic",
    "TestPing",
)
# Three groups in a row, of which each member consumes, produces and commits in transactions of its own
TRANSACTIONS = (
    "TestTxnEtl/cooperative-sticky",
    "TestTxnEtl/cooperative-sticky/static",
    "TestTxnEtl/range",
    "TestTxnEtl/range/848",
    "TestTxnEtl/sticky/848",
    "TestTxnEtl/sticky/848/static",
)
TESTS = (*GROUPS, *OFFSETS, *OTHERS, *TRANSACTIONS)
SHARE = "of share groups, which it skips before Apache Kafka 4.2"
SCRAM = "wants a listener with SASL"
LEFT_OUT = {
    "TestConsumeRegexShareSkipsInternal": SHARE,
    "TestShareGroup": SHARE,
    "TestShareGroupAckOnClose": SHARE,
    "TestShareGroupETL": SHARE,
    "TestShareGroupOffsetsAdmin": SHARE,
    "TestSCRAMAuth": SCRAM,
    "TestSCRAMAuthBadCredentials": SCRAM,
    "TestIssueProduceBrokerTooOldFailsRecords": "skips itself on a broker that takes Produce v2, as Apache Kafka 4.1",
    "TestOptValuesCoversEveryOption": "asks no broker: it reads the source of the suite",
}

# TestGroupETL and TestTxnEtl send so many records through three groups in a row, six times each
RECORDS = 500_000 if SOAK else 30_000
AT_ONCE = 6
LIMIT_S = 900
# Members of the newer protocol are told of each change by a heartbeat: five seconds apart, TestGroupETL only waits
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
}
ONE, THREE = "one-broker", "three-brokers"
PLACES = [ONE, pytest.param(THREE, marks=pytest.mark.soak)]
# Each broker is the coordinator of some groups and of some transactional ids
SPREAD = {"offsets.topic.num.partitions": "6", "transaction.state.log.num.partitions": "6"}

RESULT = re.compile(r"^ *--- (PASS|FAIL|SKIP): (\S+) \(", re.MULTILINE)
# What follows is printed by this test, until the next such line
SPEAKER = re.compile(r"^(?:=== \w+ +| *--- \w+: )(\S+)")
# TestGroupETL says this where it compares no further: a commit crossed a heartbeat that gave the member its next epoch
UNCOMPARED = "stale commit encountered, skipping validation"


@dataclass(frozen=True)
class Run:
    """A run of the suite that is over: what it printed, and how it went."""

    output: str
    status: int
    took_s: float

    @property
    def results(self) -> dict[str, str]:
        """PASS, FAIL or SKIP for each test that ended; a function with tests within it is not one itself."""
        found = {name: result for result, name in RESULT.findall(self.output)}
        functions = {name.partition("/")[0] for name in found if "/" in name}
        return {name: result for name, result in found.items() if name not in functions}

    def said_by(self, test: str) -> str:
        """The lines of one test, and how the whole of it ended."""
        lines, speaker = [], ""
        for line in self.output.splitlines():
            if found := SPEAKER.match(line):
                speaker = found[1]
            if speaker == test:
                lines.append(line)
        return "\n".join([*lines[-60:], "...", *self.output.splitlines()[-30:]])


class Brokers(NamedTuple):
    """Where a suite runs, and the number of replicas of its topics."""

    bootstrap: str
    replicas: int = 1


@contextmanager
def brokers(place: str, directory: Path) -> Iterator[Brokers]:
    """One broker, or three."""
    if place == ONE:
        with running(directory, SETTINGS) as broker:
            yield Brokers(broker.bootstrap)
    else:
        with Cluster(directory, HEADGATE, SETTINGS | SPREAD) as cluster:
            yield Brokers(cluster.bootstrap, len(cluster.brokers))


def run(wanted: Brokers, *arguments: str, **more: str) -> Run:
    """The suite, with nothing of our environment that would configure it, but for what is given."""
    command = [toolchain.go_program("kgo.test"), "-test.v", f"-test.timeout={LIMIT_S}s", *arguments]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KGO_")}
    given = {"KGO_SEEDS": wanted.bootstrap, "KGO_TEST_RF": str(wanted.replicas), "KGO_TEST_RECORDS": str(RECORDS)}
    began = time.monotonic()
    done = subprocess.run(
        command,
        env={**clean, **given, "KGO_LOG_LEVEL": "none", **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=LIMIT_S + 30,
        check=False,
    )
    return Run(done.stdout, done.returncode, time.monotonic() - began)


def whole(names: Collection[str]) -> list[str]:
    """The functions that tests are in."""
    return sorted({name.partition("/")[0] for name in names})


def only(names: Collection[str]) -> str:
    return f"^({'|'.join(names)})$"


@pytest.fixture(scope="module", params=PLACES)
def suite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run of every listed test."""
    assert TESTS, "no test is listed"
    directory: Path = tmp_path_factory.mktemp("kgo")
    with brokers(request.param, directory) as wanted:
        done = run(wanted, f"-test.run={only(whole(TESTS))}", f"-test.parallel={AT_ONCE}")
    (directory / "kgo.log").write_text(done.output)
    return done


@pytest.mark.parametrize("name", TESTS)
def test_passes(suite: Run, name: str) -> None:
    result = suite.results.get(name, "not run, or not to its end")
    assert result == "PASS", f"{name}: {result}\n{suite.said_by(name)}"


def test_what_ran_is_what_is_listed(suite: Run, figure: Callable[[str], None]) -> None:
    """Also within a test: one that is new there would else run without a name here."""
    assert sorted(suite.results) == sorted(TESTS)
    assert suite.status == 0, suite.output[-5000:]
    uncompared = suite.output.count(UNCOMPARED)
    figure(
        f"kgo suite: {len(TESTS)} tests in {suite.took_s:.0f} s, groups of {RECORDS} records; "
        f"{uncompared} of 3 TestGroupETL/.../848 not compared to the end"
    )


@pytest.mark.soak
@pytest.mark.parametrize("place", [ONE, THREE])
def test_groups_of_clients_whose_connections_die(tmp_path: Path, place: str) -> None:
    """The suite has this for its own sake: no connection of TestGroupETL lives longer than 1.5 s."""
    with brokers(place, tmp_path) as wanted:
        done = run(wanted, "-test.run=^TestGroupETL$", KGO_TEST_CHAOS="1")
    assert done.results == {name: "PASS" for name in GROUPS if name.startswith("TestGroupETL/")}
    assert done.status == 0, done.output[-5000:]


def test_what_is_not_listed_needs_no_broker() -> None:
    """A test of a newer suite that asks a broker fails here, until it is listed or left out with a reason."""
    listed, left_out = set(whole(TESTS)), set(LEFT_OUT)
    assert not listed & left_out
    program = toolchain.go_program("kgo.test")
    there = subprocess.run([program, "-test.list=."], capture_output=True, text=True, timeout=60, check=True).stdout
    assert (listed | left_out) - set(there.split()) == set(), "the suite has no such tests"
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        host, port = nobody.getsockname()
        done = run(Brokers(f"{host}:{port}"), f"-test.skip={only(sorted(listed | left_out))}")
    assert done.results
    failed = [name for name, result in done.results.items() if result != "PASS"]
    assert not failed
    assert done.status == 0, done.output[-5000:]
