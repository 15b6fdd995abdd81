"""When a segment ends: against a transcription of Kafka's rule, and one case of each reason."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.storage.config import LogConfig
from headgate.storage.disk.pool import Pool
from headgate.storage.log import rolling
from headgate.storage.log.rolling import is_due, longest_ms
from headgate.storage.segment.index import MAX_RELATIVE_OFFSET
from headgate.storage.segment.segment import Segment
from headgate.storage.tests.builders import TOPIC_ID, append, batch, new_log, open_store
from headgate.storage.tests.crashing_files import CrashingFiles

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000


class Fields(Segment):
    """A segment as its fields say."""

    __slots__ = ()

    def __init__(self, size: int, first_timestamp: int, created_ms: int, entries: int, time_entries: int) -> None:
        super().__init__(Pool(CrashingFiles()), "/d", 1000, created_ms=created_ms)
        self.size = size
        self._first_timestamp = first_timestamp
        self.offsets.entries, self.times.entries = entries, time_entries


def kafkas(
    active: Segment, config: LogConfig, jitter_ms: int, size: int, max_timestamp: int, last_offset: int, now_ms: int
) -> bool:
    """`LogSegment.shouldRoll`, with `timeWaitedForRoll`, `AbstractIndex.isFull` and `TimeIndex.isFull`."""
    stamp = active.first_timestamp
    waited_ms = max_timestamp - stamp if stamp >= 0 else now_ms - active.created_ms
    longest = config.segment_ms
    if "compact" in config.cleanup_policy and config.max_compaction_lag_ms > 0:
        longest = min(config.max_compaction_lag_ms, config.segment_ms)
    reached_roll_ms = waited_ms > longest - jitter_ms
    return (
        active.size > config.segment_bytes - size
        or (active.size > 0 and reached_roll_ms)
        or active.offsets.entries >= config.segment_index_bytes // 8
        or active.times.entries >= config.segment_index_bytes // 12 - 1
        or last_offset - active.base_offset > MAX_RELATIVE_OFFSET
    )


@given(st.data())
def test_a_segment_ends_where_kafkas_does(data: st.DataObject) -> None:
    few = st.integers(0, 40)
    config = LogConfig(
        cleanup_policy=data.draw(st.sampled_from([("delete",), ("compact",), ("compact", "delete")])),
        segment_bytes=data.draw(st.integers(20, 60)),
        segment_ms=data.draw(st.integers(1, 40)),
        max_compaction_lag_ms=data.draw(st.integers(1, 40)),
        segment_index_bytes=data.draw(st.integers(4, 100)),
        segment_jitter_ms=data.draw(few),
    )
    active = Fields(
        data.draw(st.integers(1, 40)), data.draw(st.integers(-1, 40)), data.draw(few), data.draw(st.integers(0, 13)),
        data.draw(st.integers(0, 9)),
    )  # fmt: skip
    jitter = data.draw(st.floats(0, 1))
    last_offset = active.base_offset + data.draw(st.sampled_from([5, MAX_RELATIVE_OFFSET - 1]))
    size, max_timestamp, now_ms = data.draw(st.integers(1, 20)), data.draw(few), data.draw(few)
    jitter_ms = int(jitter * min(config.segment_jitter_ms, config.max_segment_ms))
    expected = kafkas(active, config, jitter_ms, size, max_timestamp, last_offset, now_ms)
    assert is_due(active, config, longest_ms(config, jitter), size, max_timestamp, last_offset, now_ms) == expected


def test_the_jitter_is_a_share_of_what_is_configured_now() -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=100)
    assert [longest_ms(config, jitter) for jitter in (0.0, 0.5, 1.0)] == [1000, 950, 900]
    assert longest_ms(LogConfig(segment_ms=1000, segment_jitter_ms=5000), 0.5) == 500
    assert longest_ms(LogConfig(segment_ms=1000), 0.9) == 1000


def test_each_segment_has_its_own_jitter_the_first_one_too() -> None:
    """As in Kafka: partitions that begin together, or start together, do not roll together."""
    store = open_store(CrashingFiles())
    config = LogConfig(segment_ms=1000, segment_jitter_ms=1000)
    ages = []
    for partition in range(5):
        log = store.create("t", partition, TOPIC_ID, config, NOW_MS)
        for _ in range(2):
            append(log, batch(timestamp=NOW_MS))
            begun_ms = log.segments[-1].created_ms
            ages.append(next(age for age in range(1002) if rolling.is_aged(log, begun_ms + age)))
            rolling.roll(log, begun_ms + ages[-1])
    assert len(set(ages)) == 10


def test_a_stream_of_old_records_does_not_roll_at_each_look() -> None:
    """Kafka rolls by the time between records, not between them and now."""
    log = new_log(config=LogConfig(segment_ms=7 * DAY_MS))
    for look in range(1, 20):
        append(log, batch(timestamp=NOW_MS - 365 * DAY_MS + look))
        assert not rolling.is_aged(log, NOW_MS + 300_000 * look)
    assert len(log.segments) == 1
    assert rolling.is_aged(log, NOW_MS + 7 * DAY_MS + 1), "an idle one is rolled by its own age"
