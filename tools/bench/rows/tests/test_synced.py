"""The rows of producers that wait for the disk: what each broker is asked for."""

from pathlib import Path
from typing import Any

import pytest

from headgate.protocol.messages.produce import ProduceRequest
from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.tests.test_frames import read_with_kio
from headgate.tools.bench.rows.synced import ACKS_ALL
from headgate.tools.bench.rows.table import ALL_ROWS, ROWS, SYNCED
from headgate.tools.bench.rows.tests.test_conversions import Broker


@pytest.mark.parametrize("name", SYNCED)
@pytest.mark.parametrize("broker, policy", [("headgate", "headgate.flush=commit"), ("kafka", "flush.messages=1")])
def test_both_brokers_are_set_to_sync_before_they_acknowledge(
    tmp_path: Path, name: str, broker: str, policy: str
) -> None:
    row, target = ROWS[name], Broker(tmp_path, broker)
    any_target: Any = target
    with row.opened(any_target) as run:
        run(1.0)
    assert target.configs is not None
    assert [f"{key}={value}" for key, value in target.configs.items()] == [policy]
    (load,) = target.loads
    assert (load.connections, load.in_flight, load.api) == (row.connections, 1, frames.PRODUCE)


def test_the_producers_want_all_replicas() -> None:
    _, request = read_with_kio(frames.produce(7, "t", 0, b"x" * 70, acks=ACKS_ALL).frame())
    assert request.acks == ACKS_ALL
    _, request = read_with_kio(frames.produce(7, "t", 0, b"x" * 70).frame())
    assert request.acks == 1


def test_they_are_measured_only_by_name() -> None:
    assert SYNCED
    assert not set(SYNCED) & set(ALL_ROWS)
    assert ProduceRequest.api_key == frames.PRODUCE
