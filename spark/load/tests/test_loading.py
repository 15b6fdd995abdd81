from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.loading import LoadRequest, load, plan_only
from headgate.spark.load.output.documents import Manifest
from headgate.spark.load.output.folder import FolderLocked, OutputFolder
from headgate.spark.load.output.load_log import LoadLog
from headgate.spark.load.output.planning import LoadRefused, TaskFailed
from headgate.spark.load.output.row_files import FileOptions
from headgate.spark.load.runners import SequentialRunner
from headgate.spark.load.tests.model_log import NOW_MS, TOPIC, ModelLog
from headgate.spark.load.verification import verify
from headgate.spark.reading.log_reader import OffsetRange

SMALL = LoadRequest((TOPIC,), most_offsets=7, files=FileOptions("zstd", 1, 1))
MODEST = LoadRequest((TOPIC,))


class Killed(BaseException):
    """The process ends here: no handler of an Exception runs."""


class Listener:
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def begin(self, ranges: Collection[OffsetRange]) -> None: ...

    def end(self, wanted: OffsetRange) -> None: ...


def run(log: ModelLog, output: OutputFolder, request: LoadRequest = MODEST) -> list[Manifest]:
    return load(request, log, output, SequentialRunner(output), Listener())


def visible(path: Path) -> dict[tuple[int, int], tuple[bytes | None, bytes | None]]:
    """What a plain reader of the folder meets; fails for a record that is there twice, or a half file."""
    found: dict[tuple[int, int], tuple[bytes | None, bytes | None]] = {}
    for file in sorted(path.glob("**/*.parquet")):
        for row in pq.ParquetFile(file).read(columns=["partition", "offset", "key", "value"]).to_pylist():
            place = row["partition"], row["offset"]
            assert place not in found, f"{place} is in the folder twice"
            found[place] = row["key"], row["value"]
    return found


def contents(log: ModelLog) -> dict[tuple[int, int], tuple[bytes | None, bytes | None]]:
    return {
        (number, offset): content
        for number, partition in enumerate(log.partitions)
        for offset, content in partition.expected(partition.start, partition.end).items()
    }


def assert_exact(log: ModelLog, output: OutputFolder) -> None:
    """The folder has all committed records once; verify finds nothing; gaps have their reasons."""
    assert visible(output.path) == contents(log)
    rows, findings = verify(output)
    assert findings == []
    latest = LoadLog(output).latest()
    assert latest is not None
    assert latest.positions == {TopicPartition(TOPIC, n): one.end for n, one in enumerate(log.partitions)}
    for row in rows:
        reasons = list(log.partitions[row["partition"]].reasons.values())
        assert row["gaps"] == {one: reasons.count(one) for one in sorted(set(reasons))}


@pytest.mark.parametrize("seed", range(3))
def test_loads_follow_each_other(tmp_path: Path, seed: int) -> None:
    log, output = ModelLog.random(seed), OutputFolder(tmp_path)
    request = SMALL if seed % 2 else MODEST
    for _ in range(3):
        published = run(log, output, request)
        assert len(published) == 1
        assert_exact(log, output)
        log.partitions[seed % 2].grow(Random(seed), 3)
    run(log, output, request)
    assert run(log, output, request) == [], "nothing is new"
    assert_exact(log, output)


def count_steps(log: ModelLog, path: Path) -> int:
    seen: list[str] = []
    run(log, OutputFolder(path, seen.append), SMALL)
    return len(seen)


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed, every", [(0, 12), pytest.param(0, 1, marks=pytest.mark.seeds), pytest.param(1, 1, marks=pytest.mark.seeds)]
)
def test_a_kill_at_any_step_loses_and_repeats_nothing(tmp_path: Path, seed: int, every: int) -> None:
    log = ModelLog.random(seed, partitions=2, batches=2)
    total = count_steps(log, tmp_path / "all")
    assert total > 40
    for at in range(0, total, every):
        path = tmp_path / str(at)
        left = at

        def step(what: str) -> None:
            nonlocal left
            if not left:
                raise Killed(what)
            left -= 1

        with pytest.raises(Killed):
            run(log, OutputFolder(path, step), SMALL)
        assert visible(path).items() <= contents(log).items()
        run(log, OutputFolder(path), SMALL)
        assert_exact(log, OutputFolder(path))
        hidden = [one.name for one in (path / "_headgate").glob("work/*/*")]
        assert hidden == [], f"killed at step {at}"


@pytest.mark.slow
def test_a_plain_reader_sees_nothing_twice_or_half(tmp_path: Path) -> None:
    log = ModelLog.random(3, batches=4)
    seen = -1

    def look(_: str) -> None:
        nonlocal seen
        found = visible(tmp_path)
        assert found.items() <= contents(log).items()
        assert len(found) >= seen, "rows disappear"
        seen = len(found)

    run(log, OutputFolder(tmp_path, look), SMALL)
    assert seen == len(contents(log))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.seeds) for seed in range(1, 20))])
def test_kills_one_after_another(tmp_path: Path, seed: int) -> None:
    """Each run is killed somewhere, and the log grows between the runs; the last run completes everything."""
    random = Random(seed)
    log, output = ModelLog.random(seed, batches=3), OutputFolder(tmp_path)
    for _ in range(12):
        left = random.randrange(60)

        def step(what: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed(what)

        try:
            run(log, OutputFolder(tmp_path, step), SMALL)
        except Killed:
            assert visible(tmp_path).items() <= contents(log).items()
        if random.random() < 0.3:
            log.partitions[0].grow(random, 2)
    run(log, output, SMALL)
    assert_exact(log, output)


def test_an_interrupted_plan_keeps_its_offsets(tmp_path: Path) -> None:
    log = ModelLog.random(5)
    before = [one.end for one in log.partitions]

    def step(what: str) -> None:
        if what.startswith("before create _headgate/manifests"):
            raise Killed

    with pytest.raises(Killed):
        run(log, OutputFolder(tmp_path, step))
    log.partitions[0].grow(Random(1), 3)
    first, second = run(log, OutputFolder(tmp_path))
    assert sorted(first.positions.values()) == sorted(before)
    assert second.positions[TopicPartition(TOPIC, 0)] == log.partitions[0].end
    assert_exact(log, OutputFolder(tmp_path))


def test_of_two_loads_at_once_one_is_refused(tmp_path: Path) -> None:
    log, output = ModelLog.random(1), OutputFolder(tmp_path)
    with LoadLog(output).lock(), pytest.raises(FolderLocked, match=r"another load is at work on .*: process"):
        run(log, OutputFolder(tmp_path))
    assert len(run(log, output)) == 1


@pytest.mark.parametrize("moment", ["before create _headgate/plans", "before create _headgate/manifests"])
def test_a_load_without_its_lock_publishes_nothing(tmp_path: Path, moment: str) -> None:
    """A driver that was stopped for long, on a file system that took its lock away, finds the other one's load."""
    log = ModelLog.random(2)
    has_run = False

    def step(what: str) -> None:
        nonlocal has_run
        if what.startswith(moment) and not has_run:
            has_run = True
            (tmp_path / "_headgate/lock").unlink()
            run(log, OutputFolder(tmp_path))

    with pytest.raises(LoadRefused, match="another load has taken number 1"):
        run(log, OutputFolder(tmp_path, step))
    assert_exact(log, OutputFolder(tmp_path))


def test_the_second_attempt_of_a_task_leaves_nothing(tmp_path: Path) -> None:
    """Two attempts of a task end: the result of the first counts, the files of the second go."""
    log = ModelLog.random(4)
    output = OutputFolder(tmp_path)

    class Twice(SequentialRunner):
        def run(self, *arguments: object) -> None:
            super().run(*arguments)  # type: ignore[arg-type]
            super().run(*arguments)  # type: ignore[arg-type]

    load(SMALL, log, output, Twice(output), Listener())
    assert_exact(log, output)


def test_what_retention_took_stops_the_load(tmp_path: Path) -> None:
    log, output = ModelLog.random(6), OutputFolder(tmp_path)
    run(log, output)
    partition = log.partitions[0]
    loaded_to = partition.end
    partition.grow(Random(2), 4)
    partition.start = loaded_to + 3
    with pytest.raises(LoadRefused, match=f"orders-0 from {loaded_to} to {loaded_to + 2}.*--fail-on-data-loss false"):
        run(log, output)
    (manifest,) = run(log, output, MODEST._replace(fails_on_data_loss=False))
    assert [tuple(one) for one in manifest.lost] == [(TopicPartition(TOPIC, 0), loaded_to, loaded_to + 3)]
    rows, findings = verify(output)
    assert findings == []
    assert rows[0]["gaps"]["deleted"] == 3


@pytest.mark.parametrize("accepts", [False, True])
def test_what_retention_takes_from_a_plan(tmp_path: Path, accepts: bool) -> None:
    """Retention runs between the plan and its tasks."""
    log = ModelLog.random(7)

    def step(what: str) -> None:
        if what.startswith("after create _headgate/plans"):
            log.partitions[1].start = 4

    request = MODEST._replace(fails_on_data_loss=not accepts)
    if not accepts:
        with pytest.raises(TaskFailed, match="orders-1: the offsets"):
            run(log, OutputFolder(tmp_path, step), request)
        return
    run(log, OutputFolder(tmp_path, step), request)
    rows, findings = verify(OutputFolder(tmp_path))
    assert findings == []
    assert rows[1]["gaps"]["deleted"] == 4
    assert visible(tmp_path) == contents(log)


def test_a_topic_made_anew_is_refused(tmp_path: Path) -> None:
    log, output = ModelLog.random(8), OutputFolder(tmp_path)
    run(log, output)
    log.topic_id = bytes(16)[:-1] + b"\1"
    with pytest.raises(LoadRefused, match="deleted and made anew"):
        run(log, output)
    log.topic_id = None
    log.partitions[0].end -= 3
    with pytest.raises(LoadRefused, match="orders-0 ends before"):
        run(log, output)


def test_a_backfill_takes_what_the_folder_lacks(tmp_path: Path) -> None:
    log, output = ModelLog.random(9, partitions=1, batches=30), OutputFolder(tmp_path)
    offsets = sorted(log.partitions[0].committed)
    middle, late = offsets[len(offsets) // 3], offsets[len(offsets) // 2]
    (first,) = run(log, output, MODEST._replace(from_ms=NOW_MS + middle, to_ms=NOW_MS + late))
    assert first.covered[TopicPartition(TOPIC, 0)] == ((middle, late),)
    run(log, output)
    run(log, output, MODEST._replace(from_ms=0))
    assert visible(tmp_path) == contents(log)
    assert run(log, output, MODEST._replace(from_ms=0)) == []
    assert verify(output)[1] == []


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    log = ModelLog.random(10)
    path = tmp_path / "none"
    plan = plan_only(MODEST, log, OutputFolder(path))
    assert len(plan.ranges) == 2
    assert not path.exists()
