"""The survey of all groups: lag, times and verdicts, once an interval, and before a reading of an old one."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.gateway.lag.lag_collector import STALE_INTERVALS
from headgate.gateway.lag.tests.surveyed import INTERVAL_MS, SurveyedBroker, group_of, row_of
from headgate.protocol.lag.measurement import OffsetStatus
from headgate.protocol.lag.verdicts import WINDOW_COMMITS, Verdict


@pytest.fixture
def node(tmp_path: Path) -> SurveyedBroker:
    node = SurveyedBroker(tmp_path)
    node.services.metadata.create_topic("t", 2)
    node.time.advance()
    return node


def test_lag_in_records_and_in_seconds(node: SurveyedBroker) -> None:
    """The second of three records is the next one; its age counts at the time of the survey."""
    node.produce(5_000, 4_000, 3_000)
    node.commit("g", {0: 1, 1: 0})
    survey = node.present()
    assert row_of(survey, "g")[2:8] == ((1, node.time.clock.wall_ms), 0, 3, 2, 4.0, "ok")
    assert row_of(survey, "g", partition=1)[3:8] == (0, 0, 0, 0.0, "ok"), "an empty partition"
    group = group_of(survey, "g")
    assert (group.kind, group.state, group.members, group.records, group.seconds) == ("classic", "Empty", 0, 2, 4.0)


def test_a_group_at_the_end_has_no_lag(node: SurveyedBroker) -> None:
    node.produce(5_000)
    node.commit("g", {0: 1})
    assert row_of(node.present(), "g")[5:7] == (0, 0.0)


def test_offsets_out_of_range_are_named(node: SurveyedBroker) -> None:
    node.produce(5_000, 4_000)
    node.commit("beyond", {0: 9})
    node.commit("below", {0: 0})
    node.services.partitions.get("t", 0).log.advance_start(1)
    survey = node.present()
    assert row_of(survey, "beyond")[5:8] == (0, 0.0, OffsetStatus.BEYOND_END.value)
    assert row_of(survey, "below")[5:8] == (2, 4.0, OffsetStatus.BELOW_START.value)


def test_a_time_on_a_cold_disk_is_shown_by_the_next_survey(
    node: SurveyedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reading waits for no thread; the survey of an interval does."""
    from headgate.storage.segment.file_slice import FileSlice

    node.produce(5_000, 4_000)
    node.commit("g", {0: 0})
    read_cached, warmed = FileSlice.read_cached, list[int]()
    monkeypatch.setattr(FileSlice, "read_cached", lambda self, *at: read_cached(self, *at) if warmed else None)
    monkeypatch.setattr(FileSlice, "warm", lambda *_: warmed.append(1))
    monkeypatch.setattr(FileSlice, "is_cached", lambda *_: bool(warmed))
    held = node.time.scheduler.hold()
    assert row_of(node.present(), "g")[5:7] == (2, None), "a reading has no time yet"
    held.run_all()
    warmed.clear()
    node.collector.start()
    node.time.advance()
    held.run_all()
    node.time.advance()
    assert row_of(node.present(), "g")[5:7] == (2, 5.0)


def test_a_hanging_disk_stops_no_survey(node: SurveyedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    from headgate.storage.segment.file_slice import FileSlice

    node.produce(5_000)
    node.commit("g", {0: 0})
    monkeypatch.setattr(FileSlice, "read_cached", lambda *_: None)
    held = node.time.scheduler.hold()
    for _ in range(3):
        assert row_of(node.survey(), "g")[5:7] == (1, None)
    assert len(held.waiting) == 1, "one thread hangs, whatever the number of surveys"


def test_a_large_batch_is_decoded_by_a_thread(node: SurveyedBroker) -> None:
    node.produce(*range(9_000, 1_000, -10))
    node.commit("g", {0: 300})
    held = node.time.scheduler.hold_slices()
    node.collector.start()
    node.time.advance()
    assert len(held.waiting) == 1
    held.run_all()
    assert row_of(node.present(), "g")[5:7] == (500, 6.0)


def test_verdicts_follow_the_commits(node: SurveyedBroker) -> None:
    """Four groups commit once an interval, and one does not."""
    node.produce(*[1_000] * 100)
    for number in range(WINDOW_COMMITS + 1):
        node.produce(*[0] * 5)
        node.commit("ok", {0: 8 * number})
        node.commit("warn", {0: number})
        node.commit("stall", {0: 7})
        node.commit("rewind", {0: 50 - number})
        if number == 0:
            node.commit("stop", {0: 5})
        survey = node.survey()
    found = {group.name: group.verdict for group in survey.groups}
    assert found == {name: Verdict(name.upper()) for name in ("ok", "warn", "stall", "rewind", "stop")}


def test_a_reading_has_the_last_survey(node: SurveyedBroker) -> None:
    """Until it is older than it should be: a survey has failed, or takes too long."""
    node.produce(1_000)
    node.commit("g", {0: 0})
    first = node.present()
    node.time.advance(STALE_INTERVALS * INTERVAL_MS)
    assert node.present() is first
    node.time.advance(1)
    assert node.present().measured_ms == first.measured_ms + STALE_INTERVALS * INTERVAL_MS + 1


def test_a_failed_survey_is_tried_again(
    node: SurveyedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node.survey()
    with monkeypatch.context() as patched:
        patched.setattr(node.services.groups, "loaded_shards", lambda: 1 / 0)
        node.time.advance(INTERVAL_MS)
        node.time.advance(INTERVAL_MS)
    assert [record.levelname for record in caplog.records if record.name == "headgate.lag"] == ["ERROR"]
    before = node.present()
    assert node.survey().measured_ms > before.measured_ms


def test_a_stopped_collector_makes_no_survey(node: SurveyedBroker) -> None:
    node.survey()
    before = node.collector.last
    node.collector.stop()
    node.time.advance(10 * INTERVAL_MS)
    assert node.collector.last is before


def test_a_survey_has_short_steps(node: SurveyedBroker) -> None:
    """Many groups are read, measured and looked up in many steps."""
    node.produce(1_000, 900)
    for number in range(300):
        node.commit(f"g{number}", {0: 1})
    assert len(list(node.collector.survey())) >= 10
