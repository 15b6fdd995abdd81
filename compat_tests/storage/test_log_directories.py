"""Several log directories of one broker, and one of them gone for a while."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.harness.broker import TARGET, Broker, HeadgateBroker
from compat_tests.harness.leaders import leaders
from compat_tests.harness.steady import create_topics, produce_request, record_batch
from compat_tests.harness.wire import Reader, ask, connect, receive_frame

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="the broker is configured as only Headgate's is here")

DESCRIBE_LOG_DIRS, STORAGE_ERROR = 35, 56
PARTITIONS = 6


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = HeadgateBroker(tmp_path, {"log.dirs": f"{tmp_path}/a,{tmp_path}/b"})
    broker.start()
    yield broker
    broker.stop()


def described(bootstrap: str) -> dict[str, tuple[int, set[tuple[str, int]]]]:
    """Name of the directory -> error code, partitions. DescribeLogDirs v1."""
    with connect(bootstrap) as stream:
        reader = Reader(ask(stream, DESCRIBE_LOG_DIRS, 1, struct.pack(">i", -1)))
    reader.number("i")
    found = {}
    for _ in range(reader.number("i")):
        code, path = reader.number("h"), reader.string()
        inside = set()
        for _ in range(reader.number("i")):
            topic = reader.string()
            for _ in range(reader.number("i")):
                inside.add((topic, reader.number("i")))
                reader.number("q"), reader.number("q"), reader.number("b")
        found[Path(path).name] = code, inside
    return found


def test_a_directory_that_is_gone_for_a_while(broker: Broker, tmp_path: Path) -> None:
    create_topics(broker.bootstrap, ["t"], PARTITIONS)
    with connect(broker.bootstrap) as stream:
        stream.sendall(produce_request("t", PARTITIONS, record_batch(b"here")))
        receive_frame(stream)
    whole = described(broker.bootstrap)
    everything = {("t", index) for index in range(PARTITIONS)}
    in_a, in_b = whole["a"][1], whole["b"][1]
    assert (in_a | in_b, whole["a"][0], whole["b"][0]) == (everything, 0, 0)
    assert {len(in_a), len(in_b)} <= {2, 3, 4}
    assert all((tmp_path / name / f"{topic}-{index}").is_dir() for name in "ab" for topic, index in whole[name][1])

    broker.stop()
    (tmp_path / "b").rename(tmp_path / "elsewhere")
    (tmp_path / "b").write_text("not a directory")
    broker.start()
    assert described(broker.bootstrap) == {"a": (0, in_a), "b": (STORAGE_ERROR, set())}
    assert leaders(broker.bootstrap) == {key: 0 if key in in_a else -1 for key in everything}
    assert any(f"the log directory {tmp_path}/b cannot be used" in line for line in broker.error_lines())
    create_topics(broker.bootstrap, ["new"], 2)
    assert leaders(broker.bootstrap)["new", 1] == 0

    broker.stop()
    (tmp_path / "b").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "b")
    broker.start()
    assert described(broker.bootstrap) == {"a": (0, in_a | {("new", 0), ("new", 1)}), "b": (0, in_b)}
    assert set(leaders(broker.bootstrap).values()) == {0}
