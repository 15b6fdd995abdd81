"""What rows hand to the load generator, and how rows are chosen."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from headgate.tools.bench.__main__ import arguments, chosen_rows, settings_of
from headgate.tools.bench.measuring.brokers import HeadgateLauncher
from headgate.tools.bench.measuring.figures import Sample
from headgate.tools.bench.measuring.generator import Load
from headgate.tools.bench.measuring.target import Topic
from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.client import BenchError
from headgate.tools.bench.requests.templates import Template, write_templates
from headgate.tools.bench.rows.row import NEWEST, FetchRow, ProduceRow, produce_templates
from headgate.tools.bench.rows.table import ALL_ROWS, BY_NAME_ONLY, ROWS
from headgate.tools.bench.run import QUICK, Settings

TOPIC = Topic("topic", bytes(16), 4)


def test_a_produce_template_for_each_partition() -> None:
    batch = frames.batch([b"0123456789"], timestamp_ms=0)
    templates = produce_templates(TOPIC, batch, 7)
    assert len(templates) == 4
    assert {template.load_bytes for template in templates} == {len(batch)}
    assert all(template.frame.endswith(batch) for template in templates)


def test_consumers_of_a_partition_begin_apart() -> None:
    row = ROWS["fetch-1m"]
    assert isinstance(row, FetchRow)
    templates = row.templates(TOPIC, end_offset=1000)
    assert [template.first_offset for template in templates] == [0] * 4 + [500] * 4
    assert all(template.offset_position and not template.session_position for template in templates)
    assert templates[1].frame == templates[5].frame != templates[2].frame


def test_verification_goes_round_once() -> None:
    row = ROWS["fetch-1m"]
    assert isinstance(row, FetchRow)
    assert row.requests_for(64 * 1024 * 1024, 16 * 1024) == 66
    assert replace(row, max_bytes=4096).requests_for(40_000, 4_000) == 11


def test_the_newest_version_fetches_in_a_session() -> None:
    row = replace(ROWS["fetch-1m"], version=18)
    assert isinstance(row, FetchRow)
    assert all(template.session_position for template in row.templates(TOPIC, 1000))


def test_newest_is_what_all_serve_and_the_bench_can_build() -> None:
    ours, theirs = {frames.PRODUCE: (0, 11), frames.FETCH: (4, 18)}, {frames.PRODUCE: (0, 13), frames.FETCH: (4, 99)}
    assert ROWS["produce-16k-newest"].at_version_of([ours, theirs]).version == 11
    assert ROWS["produce-16k-newest"].at_version_of([theirs]).version == 13
    assert ROWS["fetch-1m-newest"].at_version_of([theirs]).version == 18
    assert ROWS["fetch-1m"].at_version_of([ours, theirs]).version == 11
    assert ROWS["fetch-1m-newest"].version == NEWEST


def test_template_file_layout(tmp_path: Path) -> None:
    path = tmp_path / "templates"
    write_templates(path, [Template(b"frame", 1, 2, 3, 4), Template(b"another", first_offset=-1)])
    data = path.read_bytes()
    assert (struct.unpack_from("<IIIIq", data), data[24:29]) == ((5, 1, 2, 3, 4), b"frame")
    assert (struct.unpack_from("<IIIIq", data, 29), data[53:]) == ((7, 0, 0, 0, -1), b"another")


def test_settings_of_the_generator() -> None:
    load = Load(frames.FETCH, 11, Path("t"), connections=8, seconds=3.0, wrap=True, expected=Path("e"))
    words = load.arguments(9092)
    assert {"api=1", "version=11", "port=9092", "connections=8", "in_flight=1", "wrap=1", "expected=e"} <= set(words)


def test_rows_come_in_the_order_of_the_table() -> None:
    assert chosen_rows([]) == ALL_ROWS
    assert chosen_rows(["all"]) == ALL_ROWS
    assert chosen_rows(["memory", "fetch-1m", "produce-16k"]) == ("produce-16k", "fetch-1m", "memory")
    assert chosen_rows(["memory", "coordinator-load"]) == ("coordinator-load", "memory")
    assert not set(BY_NAME_ONLY) & set(ALL_ROWS)
    with pytest.raises(BenchError, match=r"no row produce-16m; there are: coordinator-load .* memory$"):
        chosen_rows(["produce-16m"])


def test_options_come_from_make_or_from_arguments() -> None:
    settings = settings_of(arguments([], {"QUICK": "1", "REPEAT": "7", "ROWS": "metadata fetch-64k"}))
    assert (settings.rows, settings.repetitions, settings.seconds) == (("fetch-64k", "metadata"), 7, QUICK.seconds)
    assert settings_of(arguments(["--repeat", "2"], {"QUICK": "0", "REPEAT": "7"})).repetitions == 2
    assert settings_of(arguments([], {})).repetitions == 5
    assert (arguments([], {"ONLY": ""}).only, arguments([], {"ONLY": "kafka"}).only) == (None, "kafka")


def test_one_broker_alone_has_to_be_one_of_the_two(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments([], {"ONLY": "headgat"})
    assert "ONLY=headgat: there are headgate and kafka" in capsys.readouterr().err


def test_a_missing_program_is_named_before_measuring(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"there is no program .*/other/headgate to measure"):
        HeadgateLauncher(tmp_path / "other" / "headgate")


def test_progress_counts_warm_ups() -> None:
    settings = Settings(("start", "produce-16k", "fetch-1m", "memory"), repetitions=3)
    assert settings.steps(["headgate"]) == 3 + 2 * (15 + 1)
    assert settings.steps(["headgate", "kafka"]) == 2 * (3 + 2 * (15 + 1)) + 2
    assert Settings(("idle-connections",)).steps(["headgate", "kafka"]) == 2
    assert Settings(("memory",)).steps(["kafka"]) == 0
    assert Settings(("coordinator-load",)).steps(["headgate", "kafka"]) == 2 * 5


@pytest.mark.parametrize("settings", [Settings(()), QUICK])
def test_short_turns_measure_as_much_as_long_ones(settings: Settings) -> None:
    """The gears of a machine last for seconds: where nothing has to start or to end first, legs are shorter."""
    number, seconds = settings.turns_of(ROWS["produce-tiny"])
    assert number * seconds == pytest.approx(settings.repetitions * settings.seconds, rel=0.05)
    assert number >= 5
    for name in ("end-to-end-1k", "java-end-to-end", "java-produce-16k", "librdkafka-fetch"):
        assert settings.turns_of(ROWS[name]) == (settings.repetitions, settings.seconds)
        assert settings.most_turns_of(ROWS[name]) == settings.repetitions


def test_a_long_poll_has_time_to_expire() -> None:
    assert Settings(()).turns_of(ROWS["long-poll"]) == (10, 1.0)


@pytest.mark.parametrize("settings, turns", [(Settings(()), (5, 2, 2)), (QUICK, (1, 1, 1))])
def test_rows_of_groups_have_a_part_of_the_turns(settings: Settings, turns: tuple[int, ...]) -> None:
    names = ("offset-commit", "java-consume", "group-500")
    assert tuple(settings.turns_of(ROWS[name])[0] for name in names) == turns


def test_a_repetition_below_a_turn_is_not_made_longer() -> None:
    settings = Settings((), repetitions=2, seconds=0.1)
    assert settings.turns_of(ROWS["metadata"]) == (2, 0.1)


@dataclass
class Topics:
    """A target that counts topics, and answers each load with 40 bytes."""

    open: int = 0
    made: int = 0
    touched: list[int] = field(default_factory=list)

    @contextmanager
    def topic(self, partitions: int) -> Iterator[Topic]:
        self.open, self.made = self.open + 1, self.made + 1
        yield replace(TOPIC, partitions=partitions)
        self.open -= 1

    def touch_pages(self, size: int) -> None:
        self.touched.append(size)

    def sample(self, load: Load) -> Sample:
        return Sample(4, 40, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0)


def test_a_topic_serves_turns_until_it_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """And it is gone before the next turn, also after the last one."""
    monkeypatch.setattr("headgate.tools.bench.rows.row.write_disk_budget", lambda: 320)
    monkeypatch.setattr(ProduceRow, "load", lambda *_: None)
    row, topics = ROWS["produce-tiny"], Topics()
    with row.opened(topics) as run:  # type: ignore[arg-type]
        counts = []
        for _ in range(5):
            run(1.0)
            counts.append((topics.made, topics.open))
    assert counts == [(1, 1), (1, 0), (2, 1), (2, 0), (3, 1)]
    assert topics.open == 0


def test_as_many_pages_are_touched_as_the_next_leg_may_fill(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the leg before wrote in its second, and no more than any leg may write."""
    monkeypatch.setattr("headgate.tools.bench.rows.row.write_disk_budget", lambda: 120)
    monkeypatch.setattr(ProduceRow, "load", lambda *_: None)
    topics = Topics()
    with ROWS["produce-tiny"].opened(topics) as run:  # type: ignore[arg-type]
        for seconds in (1.0, 1.0, 2.0, 4.0):
            run(seconds)
    assert topics.touched == [0, 50, 100, 120]
