"""The table, the JSON lines, and a later run beside them."""

import io
import json
from pathlib import Path

import pytest

from headgate.tools.bench.measuring.figures import (
    Figure,
    Sample,
    cpu_seconds_per_gigabyte,
    megabytes_per_second,
    requests_per_second,
)
from headgate.tools.bench.report import (
    Journal,
    Line,
    Progress,
    Turns,
    busiest,
    fallen,
    gears,
    not_compared,
    read_ratios,
    table,
    unlike,
    verdict,
)
from headgate.tools.bench.requests.client import BenchError

CPU = Figure("CPU s/GB", cpu_seconds_per_gigabyte, mark=0.5)
REQUESTS = Figure("requests/s", requests_per_second, more_is_better=True, mark=0.55)
AT = ["at", "the", "mark"]
TURNS = Turns(4, 3, [0, 1, 3])
REST = ["2%", "3", "of", "4"]
RATE = Figure("MB/s", megabytes_per_second, more_is_better=True, mark=2)


def lines(cpu: float = 1.2, rate: float = 800.0) -> list[Line]:
    return [
        Line.of("produce-16k", CPU, {"headgate": [cpu] * 3, "kafka": [4.0] * 3}, 0.02, TURNS),
        Line.of("produce-16k", RATE, {"headgate": [rate] * 3, "kafka": [200.0, 100.0, 400.0]}, 0.02, TURNS),
    ]


def test_columns_are_aligned_and_a_row_is_named_once() -> None:
    heading, first, second = table(lines()).splitlines()
    assert first.split() == ["produce-16k", "CPU", "s/GB", "1.2", "4", "0.300", "0.300-0.300", "<=", "0.5", *AT, *REST]
    assert second.split() == ["MB/s", "800", "200", "4.000", "2.000-8.000", ">=", "2", *AT, *REST]
    assert len(heading) == len(first) == len(second)


def test_what_is_beside_and_is_not_kafka_says_its_name() -> None:
    line = Line.of("floor", REQUESTS, {"headgate": [30_000.0], "echo": [120_000.0]}, 0.0)
    assert line.cells()[2:5] == ["30,000", "120,000 echo", "0.250"]
    assert (line.as_json()["beside"], line.as_json()["echo"], line.is_reached) == ("echo", 120_000.0, False)


def test_a_limit_is_kept_with_and_without_kafka_and_is_none_of_kafkas() -> None:
    memory = Figure("resident MB", lambda _: 0.0, limit=64, unit="MB")
    assert Line.of("memory", memory, {"headgate": [35.0], "kafka": [400.0]}, 0.0).is_reached is True
    assert Line.of("memory", memory, {"headgate": [65.0]}, 0.0).is_reached is False
    assert Line.of("memory", memory, {"kafka": [400.0]}, 0.0).is_reached is None


def test_the_verdict_counts_the_marks_and_names_what_is_short() -> None:
    assert verdict(lines()) == "2 of 2 marks reached"
    assert verdict(lines(rate=300)) == "1 of 2 marks reached; short of it: produce-16k (MB/s)"
    alone = Line.of("produce-16k", CPU, {"headgate": [1.0]}, 0.0)
    assert verdict([alone]) == "0 of 0 marks reached"


def test_one_broker_alone_has_figures_and_no_ratio() -> None:
    (line,) = table([Line.of("fetch-1m", CPU, {"kafka": [0.25, 0.2, 0.3]}, 0.0)]).splitlines()[1:]
    assert line.split() == ["fetch-1m", "CPU", "s/GB", "0.25", "<=", "0.5", "0%"]


def write_journal(path: Path) -> None:
    journal = Journal(path)
    journal.open_with(cores=2)
    for line in lines():
        journal.figure(line)


def test_every_line_of_the_journal_is_json_with_a_kind(tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "run.json"
    write_journal(path)
    entries = [json.loads(text) for text in path.read_text().splitlines()]
    assert [entry["kind"] for entry in entries] == ["run", "figure", "figure"]
    assert (entries[1]["ratio"], entries[1]["better"]) == (0.3, "less")


def test_a_later_run_names_what_fell(tmp_path: Path) -> None:
    write_journal(tmp_path / "run.json")
    base = read_ratios(tmp_path / "run.json")
    assert fallen(lines(), base) == []
    assert fallen(lines(cpu=1.1, rate=900), base) == []
    assert fallen(lines(cpu=1.6), base) == ["produce-16k: CPU s/GB is 0.400 (0.400-0.400) of Kafka's, was 0.300"]
    assert fallen(lines(rate=600), base) == ["produce-16k: MB/s is 3.000 (1.500-6.000) of Kafka's, was 4.000"]


def test_what_only_one_of_two_runs_has_is_named(tmp_path: Path) -> None:
    write_journal(tmp_path / "run.json")
    base = read_ratios(tmp_path / "run.json")
    floor = Line.of("floor", REQUESTS, {"headgate": [30_000.0], "echo": [100_000.0]}, 0.0)
    assert not_compared(lines(), base) == []
    assert not_compared([*lines()[:1], floor], base) == [
        "not compared, only in the base: produce-16k (MB/s)",
        "not compared, only in this run: floor",
    ]
    assert fallen([floor], base) == []
    assert fallen([floor], {("floor", "requests/s"): 0.5}) == [
        "floor: requests/s is 0.300 (0.300-0.300) of echo's, was 0.500"
    ]


@pytest.mark.parametrize("content", [None, "no JSON", "[]", '{"row": "start"}'])
def test_a_base_that_is_none_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "run.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(BenchError, match=r"run\.json is no file of an earlier run"):
        read_ratios(path)


def test_a_figure_without_a_ratio_is_left_out_of_the_base(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "run.json")
    journal.figure(Line.of("java-end-to-end", CPU, {"headgate": [1.0], "kafka": [0.0]}, 0.0))
    journal.figure(Line.of("memory", CPU, {"headgate": [35.0]}, 0.0))
    assert read_ratios(journal.path) == {}


def test_a_busy_machine_is_named() -> None:
    assert busiest(lines()) is None
    assert busiest([]) is None
    warning = busiest([*lines(), Line.of("fetch-1m", CPU, {"kafka": [0.25]}, 0.42)])
    assert warning is not None
    assert "42%" in warning


def test_progress_is_json_where_nobody_looks() -> None:
    stream = io.StringIO()
    progress = Progress(2, stream)
    progress.step("produce-16k 1 kafka")
    progress.end()
    entry = json.loads(stream.getvalue())
    assert (entry["done"], entry["of"], entry["what"]) == (1, 2, "produce-16k 1 kafka")


def test_turns_that_do_not_count_are_shown() -> None:
    line, _ = lines()
    assert {name: line.as_json()[name] for name in ("turns", "alike", "counted")} == {
        "turns": 4,
        "alike": 3,
        "counted": [0, 1, 3],
    }
    assert unlike([line]) is None


def test_rows_with_too_few_like_turns_are_named_once() -> None:
    turns = Turns(7, 2, [0, 1, 3, 4, 5])
    both = [Line.of("produce-16k", figure, {"headgate": [1.2], "kafka": [4.0]}, 0.0, turns) for figure in (CPU, RATE)]
    sentence = unlike([*both, *lines()])
    assert (
        sentence
        == "too few turns in which both brokers met the same machine, the likest were counted: produce-16k (2 of 5)"
    )


def test_every_leg_has_its_gear_beside_the_fastest_so_far(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "run.json")
    for number, gauge_us in enumerate([60.0, 90.0, None, 50.0, 100.0]):
        journal.repetition("metadata", "kafka", number, Sample(1, 1, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, gauge_us=gauge_us))
    entries = [json.loads(text) for text in journal.path.read_text().splitlines()]
    assert [entry["gear"] for entry in entries] == [1.0, 1.5, None, 1.0, 2.0]
    assert (
        gears(journal.gauges_us)
        == "gears: the gauge took 1.50 times as long as in the fastest leg, 2.00 in the slowest"
    )
    assert gears([]) is None
