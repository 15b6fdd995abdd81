"""Times of unread records in logs: which batch is looked at, by whom, and how long a time is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.gateway.lag.tests.surveyed import SurveyedBroker
from headgate.gateway.lag.unread_times import KEPT_MS, UnreadPosition, UnreadTimes
from headgate.protocol.lag.measurement import UNKNOWN_TIMESTAMP
from headgate.protocol.records.compression import ZSTD
from headgate.protocol.steps import finish
from headgate.storage.files import WouldBlock
from headgate.storage.log.log import Log

NOW_MS = 1_700_000_000_000


@pytest.fixture
def node(tmp_path: Path) -> SurveyedBroker:
    node = SurveyedBroker(tmp_path)
    node.services.metadata.create_topic("t", 1)
    node.time.advance()
    return node


@pytest.fixture
def times(node: SurveyedBroker) -> UnreadTimes:
    return UnreadTimes(node.services.partitions, node.time.scheduler)


def ages(times: UnreadTimes, *offsets: int, end: int = 1 << 40) -> list[int | None]:
    """The ages in ms at offsets of t-0; None: no record, or not known."""
    wanted = {UnreadPosition("t", 0, offset): end for offset in offsets}
    times.begin(0.0)
    finish(times.look_up(wanted))
    found = [times.find(position) for position in wanted]
    return [None if time_ms is None else NOW_MS - time_ms for time_ms in found]


def test_every_record_of_a_log_has_its_own_time(node: SurveyedBroker, times: UnreadTimes) -> None:
    """In small and large batches, plain and compressed."""
    node.produce(900, 800, 700)
    node.produce(650)
    node.produce(600, 500, compression=ZSTD)
    assert ages(times, 0, 1, 2, 3, 4, 5) == [900, 800, 700, 650, 600, 500]


def test_a_position_at_the_end_has_no_record(node: SurveyedBroker, times: UnreadTimes) -> None:
    node.produce(900)
    assert ages(times, 1) == [None]
    assert ages(times, 0, end=0) == [None]


def test_a_time_stays_known_for_a_minute(
    node: SurveyedBroker, times: UnreadTimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without another look, while a group stays there."""
    node.produce(900, 800)
    ages(times, 0)
    looked: list[int] = []
    read = Log.read

    def count(log: Log, offset: int, *rest: object, **named: object) -> object:
        looked.append(offset)
        return read(log, offset, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Log, "read", count)
    assert ages(times, 0) == [900]
    assert not looked
    times.begin(KEPT_MS)
    finish(times.look_up({UnreadPosition("t", 0, 0): 2}))
    assert looked == [0]


def test_a_cold_index_is_read_by_a_thread(
    node: SurveyedBroker, times: UnreadTimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.produce(900)
    log = node.services.partitions.get("t", 0).log
    piece = log.read(0, 1, 1, at_least_one=True)
    assert piece is not None
    with monkeypatch.context() as patched:
        cold = WouldBlock(node.services.partitions.get("t", 0).log.segments.active.file, "index", 8, 0)

        def refuse(*_: object, **__: object) -> None:
            raise cold

        patched.setattr(Log, "read", refuse)
        held = node.time.scheduler.hold()
        assert ages(times, 0) == [None]
    assert times.is_reading
    held.run_all()
    assert not times.is_reading
    assert ages(times, 0) == [900]


def test_damage_is_no_time_and_no_failure(
    node: SurveyedBroker, times: UnreadTimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headgate.storage.segment.file_slice import FileSlice

    node.produce(900)
    monkeypatch.setattr(FileSlice, "read_cached", lambda *_: bytes(61))
    times.begin(0.0)
    finish(times.look_up({UnreadPosition("t", 0, 0): 1}))
    assert times.find(UnreadPosition("t", 0, 0)) == UNKNOWN_TIMESTAMP


def test_a_partition_without_a_replica_here_is_left_out(times: UnreadTimes) -> None:
    position = UnreadPosition("elsewhere", 0, 0)
    assert finish(times.look_up({position: 5})) == {}
    assert times.find(position) is None
    assert not times.is_here(position)


def test_files_are_released(node: SurveyedBroker, times: UnreadTimes) -> None:
    node.produce(*range(9_000, 1_000, -10))
    ages(times, 0, 300, 800)
    assert node.services.partitions.held.count == 0
