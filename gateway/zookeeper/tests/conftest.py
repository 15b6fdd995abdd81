"""The two worlds of the scenarios: the model of ZooKeeper, and a real server with the real client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.harness import toolchain
from compat_tests.harness.zookeeper import ZooKeeper
from headgate.gateway.zookeeper.tests.worlds import ModelWorld, RealWorld, World


@pytest.fixture(scope="module")
def server() -> Iterator[ZooKeeper]:
    toolchain.jars("zookeeper")
    with ZooKeeper(tick_ms=100) as running:
        yield running


@pytest.fixture(params=["model", pytest.param("real", marks=[pytest.mark.sockets, pytest.mark.slow])])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made: World = ModelWorld() if request.param == "model" else RealWorld(request.getfixturevalue("server"))
    yield made
    made.close()
