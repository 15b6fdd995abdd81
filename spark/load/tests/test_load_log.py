from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.output.documents import DamagedDocument, LoadedFile, LoadPlan, RangeResult
from headgate.spark.load.output.folder import OutputFolder
from headgate.spark.load.output.load_log import LoadLog, work_folder
from headgate.spark.load.output.planning import LoadRefused
from headgate.spark.reading.log_reader import OffsetRange
from headgate.tools.log.offset_gaps import Gap

WANTED = OffsetRange(TopicPartition("t", 0), 0, 3)
OPTIONS = {"codec": "zstd"}
PLAN = LoadPlan(1, {"t": None}, [WANTED], [], OPTIONS)


def result(output: OutputFolder) -> RangeResult:
    """A file with two rows, one rejected record."""
    names = ("part-a", "part-b")
    for name in names:
        (output.path / work_folder(1) / name).write_bytes(name.encode())
    files = [LoadedFile(name, f"{work_folder(1)}/{name}", 0, 1, 2, 1, "") for name in names]
    return RangeResult(WANTED, 2, files[:1], [Gap(2, 2, "rejected")], files[1:])


@pytest.fixture
def log(tmp_path: Path) -> LoadLog:
    return LoadLog(OutputFolder(tmp_path / "out"))


def test_a_load_from_plan_to_visible_files(log: LoadLog) -> None:
    assert log.latest() is None
    with log.lock():
        log.begin(PLAN)
        with pytest.raises(LoadRefused, match="another load has taken number 1"):
            log.begin(PLAN)
        assert log.unfinished(None) == PLAN
        log.prepare(PLAN)
        found = result(log.output)
        assert log.record(1, 0, found)
        assert not log.record(1, 0, found)
        assert log.finished(1) == {0}
        assert log.result(PLAN, 0) == found
        assert log.result(PLAN, 1) is None
        manifest = log.publish(PLAN, [found], None)
        assert log.latest() == manifest
        assert not (log.output.path / "part-a").exists()
        log.complete(manifest)
    assert (log.output.path / "part-a").read_bytes() == b"part-a"
    assert (log.output.path / "../out_rejected/part-b").read_bytes() == b"part-b"
    assert log.output.list("_headgate/work") == log.output.list("_headgate/plans") == []
    assert log.unfinished(manifest) is None
    assert list(log.manifests()) == [manifest]


def kill_in_a_change(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """The process ends once the temporary file is written."""

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(os, "link", die)
        killed.setattr(Path, "replace", die)
        killed.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(KeyboardInterrupt):
            change()


def test_the_next_load_removes_what_kills_have_left(log: LoadLog, monkeypatch: pytest.MonkeyPatch) -> None:
    root = log.output.path / "_headgate"
    with log.lock():
        kill_in_a_change(monkeypatch, log.identity)
        kill_in_a_change(monkeypatch, lambda: log.begin(PLAN))
        log.begin(PLAN)
        log.prepare(PLAN)
        found = result(log.output)
        kill_in_a_change(monkeypatch, lambda: log.publish(PLAN, [found], None))
        manifest = log.publish(PLAN, [found], None)
        kill_in_a_change(monkeypatch, lambda: log.complete(manifest))
    assert len(list(root.rglob(".*.tmp"))) == 4
    (other := root / "plans" / ".notes.tmp").touch()
    log.latest()
    assert len(list(root.rglob(".*.tmp"))) == 5, "a reader removes nothing"
    with log.lock():
        log.recover()
    assert list(root.rglob(".*.tmp")) == [other]


def test_a_restart_lists_no_folder_that_grows(log: LoadLog, monkeypatch: pytest.MonkeyPatch) -> None:
    with log.lock():
        log.begin(PLAN)
        log.complete(log.publish(PLAN, [], None))
        listed: list[str] = []
        monkeypatch.setattr(OutputFolder, "remove_temporary", lambda _, name: listed.append(name))
        monkeypatch.setattr(OutputFolder, "list", lambda *_: pytest.fail("a folder is listed"))
        assert log.recover() is not None
        assert listed == ["_headgate", "_headgate/plans"]


def test_a_damaged_hint_costs_only_time(log: LoadLog) -> None:
    with log.lock():
        log.begin(PLAN)
        manifest = log.publish(PLAN, [], None)
        log.complete(manifest)
        for hint in (b"", b"x", b"9" * 30):
            log.output.replace("_headgate/latest", hint)
            assert log.recover() == manifest
        assert log.output.read("_headgate/latest") == b"1"


def test_a_lost_file_is_named(log: LoadLog) -> None:
    with log.lock():
        log.begin(PLAN)
        log.prepare(PLAN)
        manifest = log.publish(PLAN, [result(log.output)], None)
        (log.output.path / work_folder(1) / "part-a").unlink()
        with pytest.raises(LoadRefused, match="part-a is lost, with records of t-0 from 0 to 2"):
            log.complete(manifest)


def test_a_result_of_another_range_is_damage(log: LoadLog) -> None:
    with log.lock():
        log.prepare(PLAN)
        log.record(1, 0, RangeResult(WANTED._replace(end_offset=9), 9, [], []))
        with pytest.raises(DamagedDocument, match="this is the result of"):
            log.result(PLAN, 0)
        log.reset(1)
        assert log.finished(1) == set()


def test_the_name_of_a_folder_stays(log: LoadLog) -> None:
    with log.lock():
        assert log.identity() == log.identity() != ""
