"""The rows of conversions: what they send, and what they are measured beside."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.protocol.records import legacy
from headgate.protocol.records.batch import iterate, read_header
from headgate.tools.bench.__main__ import CONVERSION, CONVERTING_JARS, NEWEST_JARS, arguments, chosen_rows
from headgate.tools.bench.measuring.generator import Load
from headgate.tools.bench.measuring.target import Topic
from headgate.tools.bench.requests import frames
from headgate.tools.bench.rows.conversions import ConvertedFetchRow, ConvertedProduceRow, TextShape
from headgate.tools.bench.rows.table import CONVERSIONS, ROWS


class Broker:
    """Stands for a broker; remembers the topics that were asked of it."""

    def __init__(self, directory: Path, name: str = "headgate") -> None:
        self.name = name
        self.kept: dict[object, object] = {}
        self.loads: list[Load] = []
        self.configs: Mapping[str, str] | None = None
        self._directory = directory

    def scratch_file(self, name: str) -> Path:
        return self._directory / name

    def new_topic(self, partitions: int, configs: Mapping[str, str] | None = None) -> Topic:
        self.configs = configs
        return Topic("topic", bytes(16), partitions)

    @contextmanager
    def topic(self, partitions: int, configs: Mapping[str, str] | None = None) -> Iterator[Topic]:
        yield self.new_topic(partitions, configs)

    def run(self, load: Load) -> None:
        pass

    def sample(self, load: Load) -> Any:
        self.loads.append(load)
        return SimpleNamespace(record_bytes=1, seconds=1.0)

    def touch_pages(self, size: int) -> None:
        pass


@pytest.mark.parametrize("codec", [0, 1, 3, 4])
def test_values_are_text_and_the_same_each_time(codec: int) -> None:
    shape = TextShape(200, 100, codec)
    data = shape.build()
    assert read_header(data).compression == codec
    values = [record.value or b"" for record in iterate(data)]
    assert len(values) == 200
    assert len(set(values)) == 200
    assert {len(value) for value in values} == {100}
    assert sum(map(len, values)) == shape.record_bytes
    assert values == [record.value for record in iterate(shape.build())]
    if codec:
        assert 0.2 * shape.record_bytes < len(data) < 0.7 * shape.record_bytes


@pytest.mark.parametrize("name", CONVERSIONS)
def test_every_row_sends_what_its_name_says(name: str, tmp_path: Path) -> None:
    row, broker = ROWS[name], Broker(tmp_path)
    assert isinstance(row, ConvertedProduceRow | ConvertedFetchRow)
    with row.opened(broker) as run:  # type: ignore[arg-type]
        run(1.0)
    (load,) = broker.loads
    assert (load.version, load.seconds) == (row.version, 1.0)
    assert load.record_bytes == (0 if isinstance(row, ConvertedProduceRow) else 100)
    data = row.batch.build()
    assert name.startswith("up") == legacy.is_legacy(data)
    assert dict(broker.configs or {}) == ({"compression.type": "zstd"} if name == "recompress-produce" else {})


def test_what_kafka_refuses_is_measured_alone(tmp_path: Path) -> None:
    both = [Broker(tmp_path), Broker(tmp_path, "kafka")]
    with ExitStack() as stack:
        assert list(ROWS["recompress-fetch"].runs(both, stack)) == ["headgate"]  # type: ignore[arg-type]
        assert list(ROWS["down-gzip"].runs(both, stack)) == ["headgate", "kafka"]  # type: ignore[arg-type]


def test_one_name_selects_all_conversions_and_kafka_3_9() -> None:
    options = arguments([CONVERSION], {})
    assert chosen_rows(options.rows) == CONVERSIONS
    assert options.jars == CONVERTING_JARS
    assert arguments(["down-gzip"], {}).jars == CONVERTING_JARS
    assert arguments([], {"ROWS": "conversion metadata"}).jars == NEWEST_JARS
    assert arguments([], {}).jars == NEWEST_JARS
    assert arguments(["down-gzip"], {"JARS": "other"}).jars == Path("other")


def test_all_are_of_versions_in_which_something_is_to_be_done() -> None:
    versions = {name: ROWS[name].version for name in CONVERSIONS}
    assert versions == {
        "up-plain": 2, "up-gzip": 2, "down-plain": 2, "down-gzip": 2, "down-lz4": 2, "recompress-produce": 7,
        "recompress-fetch": 9,
    }  # fmt: skip
    assert all(ROWS[name].api in (frames.PRODUCE, frames.FETCH) for name in CONVERSIONS)
