"""Transactions, producers and indexes beside what Apache Kafka 3.9's own recovery makes of the same `.log` files."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from headgate.protocol.records.tests import kafka39
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.log.log import Log
from headgate.storage.log.producers import Producers
from headgate.storage.tests.builders import (
    NOW_MS,
    SMALL,
    TOPIC_ID,
    append,
    append_own,
    batch,
    marker,
    numbered,
    open_store,
    transactional,
)
from headgate.storage.tests.crashing_files import CrashingFiles

pytestmark = [pytest.mark.sockets, pytest.mark.slow]  # a child process
STEP = 7
HISTORIES = 8


class History(NamedTuple):
    """A log that was written and closed, and what Kafka makes of a copy of its segments."""

    files: CrashingFiles
    log: Log
    directory: Path
    told: list[str]


def written(random: Random, store: LogDirectory) -> Log:
    """A log of all that producers and coordinators do."""
    log = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    epochs, sequences, open_ones = [0] * 6, [0] * 6, set[int]()
    for _ in range(random.randint(60, 160)):
        who, count, time = random.randrange(6), random.randint(1, 4), NOW_MS + random.randint(-500, 500)
        size = random.choice([5, 60, 300])
        if who == 5:
            append(log, batch(count, timestamp=time, size=size))
        elif who == 4:
            data = numbered(sequences[4], count, producer_id=4, timestamp=time, size=size)
            append(log, data)
            sequences[4] += count
        elif random.random() < 0.6 or (who not in open_ones and random.random() < 0.7):
            sequence = -1 if who == 3 else sequences[who]  # as a group's coordinator writes offsets
            data = transactional(sequence, count, producer_id=who, epoch=epochs[who], timestamp=time, size=size)
            append_own(log, data)
            sequences[who] += count
            open_ones.add(who)
        else:
            if random.random() < 0.4:  # as since KIP-890, or when a producer is fenced
                epochs[who], sequences[who] = epochs[who] + 1, 0
            ended = marker(
                random.random() < 0.5, producer_id=who, epoch=epochs[who], coordinator_epoch=len(log.segments)
            )
            append_own(log, ended)
            open_ones.discard(who)
    return log


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> list[History]:
    made = []
    for seed in range(HISTORIES):
        files = CrashingFiles()
        store = open_store(files)
        log = written(Random(seed), store)
        store.close()
        directory = tmp_path_factory.mktemp("kafka")
        for segment in log.segments:
            (directory / segment.path.rpartition("/")[2]).write_bytes(files.read(segment.path))
        made.append((files, log, directory))
    settings = (str(SMALL.index_interval_bytes), str(STEP))
    lines = kafka39.run("LogRecovery", *settings, *(str(directory) for _, _, directory in made))
    return [History(*one, line.split(" ")) for one, line in zip(made, lines, strict=True)]


def content(files: CrashingFiles, name: str) -> bytes:
    path = f"/data/t-0/{name}"
    return files.read(path) if files.exists(path) else b""


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_the_indexes_are_kafkas(histories: list[History], suffix: str) -> None:
    sizes = 0
    for history in histories:
        for segment in history.log.segments:
            name = f"{segment.base_offset:020d}{suffix}"
            theirs = history.directory / name
            ours = content(history.files, name)
            assert ours == (theirs.read_bytes() if theirs.exists() else b""), name
            sizes += len(ours)
    assert sizes > 100 * HISTORIES


def test_the_snapshots_are_kafkas(histories: list[History]) -> None:
    for history in histories:
        names = sorted(path.name for path in history.directory.glob("*.snapshot"))
        assert len(names) >= len(history.log.segments)
        for name in names:
            theirs = Producers.from_snapshot((history.directory / name).read_bytes())
            ours = Producers.from_snapshot(content(history.files, name))
            assert ours.by_id == theirs.by_id, name
            assert ours.transactions == theirs.transactions


def test_a_fetch_is_told_of_the_same_aborted_transactions(histories: list[History]) -> None:
    found = 0
    for history in histories:
        log = history.log
        first = next(iter(log.producers.transactions.open.values()), -1)
        assert history.told[0] == str(first)
        for one in history.told[1:]:
            bounds, _, theirs = one.partition(":")
            start, end = map(int, bounds.split("-"))
            assert ",".join(f"{who}/{offset}" for who, offset in log.aborted(start, end)) == theirs, bounds
            found += bool(theirs)
    assert found > 100
