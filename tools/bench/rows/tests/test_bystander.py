"""Rows of a bystander: what their loads ask for, and what is not believed."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.tools.bench.measuring.figures import Sample
from headgate.tools.bench.measuring.generator import Load, LoadResult
from headgate.tools.bench.measuring.target import Topic
from headgate.tools.bench.requests import frames, many_frames
from headgate.tools.bench.requests.client import BenchError
from headgate.tools.bench.requests.tests.test_frames import read_with_kio
from headgate.tools.bench.rows.bystander import BYSTANDERS, FIGURES, CreateTopicsRow, FetchSessionRow, ManyMetadataRow
from headgate.tools.bench.rows.table import ALL_ROWS, BY_NAME_ONLY, ROWS
from headgate.tools.bench.run import QUICK, Settings

MANY = [Topic(f"many-{number:05}", number.to_bytes(16, "big"), 1) for number in range(10_000)]


def target(directory: Path) -> Any:
    return SimpleNamespace(scratch_file=lambda name: directory / name)


def test_they_are_measured_only_by_name() -> None:
    assert BYSTANDERS
    assert set(BYSTANDERS) <= set(BY_NAME_ONLY) & set(ROWS)
    assert not set(BYSTANDERS) & set(ALL_ROWS)


@pytest.mark.parametrize("name", BYSTANDERS)
@pytest.mark.parametrize("settings", [Settings(()), QUICK])
def test_as_many_turns_as_repetitions(name: str, settings: Settings) -> None:
    """Each long enough for a wait of seconds."""
    assert settings.turns_of(ROWS[name]) == (settings.repetitions, settings.seconds)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, connections, in_flight, partitions, max_wait_ms",
    [
        ("bystander-fetch-5000", 1, 600, 5000, 0),
        ("bystander-fetch-9000", 1, 600, 9000, 0),
        ("bystander-idle-9000", 4, 1, 9000, 500),
    ],
)
def test_a_session_is_opened_and_then_names_nothing(
    tmp_path: Path, name: str, connections: int, in_flight: int, partitions: int, max_wait_ms: int
) -> None:
    row = BYSTANDERS[name]
    assert isinstance(row, FetchSessionRow)
    load = row.load(target(tmp_path), MANY[: row.topics])
    assert (load.connections, load.in_flight, load.opening) == (connections, in_flight, True)
    opening, incremental = row.templates(MANY[: row.topics])
    assert opening.session_position == incremental.session_position > 0
    assert (opening.offset_position, incremental.offset_position) == (0, 0)  # nothing but the session changes
    _, first = read_with_kio(opening.frame)
    assert len({topic.topic_id for topic in first.topics}) == len(first.topics) == partitions
    _, next_one = read_with_kio(incremental.frame)
    assert next_one.topics == ()
    assert next_one.max_wait.total_seconds() == max_wait_ms / 1000
    assert next_one.min_bytes == 1


def test_each_client_of_metadata_names_other_topics() -> None:
    row = BYSTANDERS["bystander-metadata"]
    assert isinstance(row, ManyMetadataRow)
    names = [topic.name for topic in MANY]
    asked = [tuple(row.names(names, number)) for number in range(row.connections)]
    assert len(set(asked)) == row.connections == 100
    assert {len(set(each)) for each in asked} == {3200}


def test_topics_are_created_and_deleted_in_turn(tmp_path: Path) -> None:
    row = BYSTANDERS["bystander-create-topics"]
    assert isinstance(row, CreateTopicsRow)
    load = row.load(target(tmp_path), [])
    assert (load.rotate, load.in_flight, load.connections, load.requests) == (True, 1, 1, 4)
    data = load.templates.read_bytes()
    assert data.count(b"created-00000") == data.count(b"created-00999") == 2
    pair = many_frames.create_topics(row.names()), many_frames.delete_topics(row.names())
    assert [writer.key for writer in pair] == [frames.CREATE_TOPICS, frames.DELETE_TOPICS]
    assert all(writer.frame() in data for writer in pair)


def loaded(requests: int, bytes_received: int) -> LoadResult:
    return LoadResult(requests, 0, 1.0, bytes_received=bytes_received)


def test_answers_that_lack_something_have_no_figure() -> None:
    row = BYSTANDERS["bystander-offset-fetch"]
    least = row.least_answer_bytes()
    assert least == 100_000 * 20
    row.check("headgate", loaded(3, 3 * least))
    with pytest.raises(BenchError, match=r"headgate: the load of bystander-offset-fetch got 1000 bytes an answer"):
        row.check("headgate", loaded(3, 3000))
    BYSTANDERS["bystander-idle-9000"].check("headgate", loaded(3, 60))


def sample(p99_us: float) -> Sample:
    return Sample(500, 0, 1.0, 0.5, 0.1, 0.0, 100.0, p99_us)


@pytest.mark.parametrize("p99_us, kafka_us, reached", [(9e3, 1e3, True), (5e4, 6e4, True), (5e4, 4e4, False)])
def test_ten_milliseconds_or_what_kafka_takes(p99_us: float, kafka_us: float, reached: bool) -> None:
    figure = FIGURES[0]
    ours, theirs = figure.of(sample(p99_us)), figure.of(sample(kafka_us))
    assert figure.is_reached(ours, ours / theirs) is reached
    assert figure.mark_text() == "<= 10 ms or <= 1"


def test_a_load_keeps_its_settings_in_the_background() -> None:
    words = Load(frames.FETCH, 13, Path("t"), 4, opening=True).arguments(1)
    assert {"opening=1", "rotate=0"} <= set(words)
