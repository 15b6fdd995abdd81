"""Random pipelining over both drivers, against a whole broker: nothing hangs, and what is acknowledged is there.

A failure names its seed; `HEADGATE_BURSTS_SEED=... pytest gateway/network/tests/test_bursts.py` runs the bursts of
that one.
"""

import os
from pathlib import Path

import pytest

from headgate.gateway.network import sockets
from headgate.gateway.network.tests.bursts import fresh_seed, run_bursts
from headgate.protocol.tests.examples import first_in_unit

BURSTS = 25  # on one broker
SEED = int(os.environ.get("HEADGATE_BURSTS_SEED", "1"))
BROKERS = int(os.environ.get("HEADGATE_BURSTS_BROKERS", "6"))

over = pytest.mark.parametrize(
    "over_streams",
    [
        pytest.param(True, id="streams"),
        pytest.param(
            False, id="engine", marks=pytest.mark.skipif(not sockets.AVAILABLE, reason="there is no epoll here")
        ),
    ],
)


def hung(directory: Path, seed: int, brokers: int, over_streams: bool) -> list[str]:
    return [
        f"seed {each}, {line}"
        for each in range(seed, seed + brokers)
        for line in run_bursts(directory / str(each), each, BURSTS, over_streams)
    ]


@pytest.mark.slow
@over
@pytest.mark.parametrize("seed", list(first_in_unit(range(SEED, SEED + BROKERS))))
def test_no_request_of_a_burst_waits_beyond_its_time(tmp_path: Path, seed: int, over_streams: bool) -> None:
    assert hung(tmp_path, seed, 1, over_streams) == []


@pytest.mark.soak
@pytest.mark.slow
@over
def test_no_request_of_many_bursts_waits_beyond_its_time(tmp_path: Path, over_streams: bool) -> None:
    assert hung(tmp_path, fresh_seed(), 400, over_streams) == []
