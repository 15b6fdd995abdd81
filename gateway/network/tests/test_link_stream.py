"""A link over a trio stream; what it shares with the other transport is in `test_links.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from headgate.gateway.network.links import Link
from headgate.gateway.network.tests.link_conformance import SimulatedStream, run
from headgate.gateway.runtime.broker_links import LinkLost
from headgate.gateway.runtime.tasks import Task
from headgate.gateway.tests.harness import MemoryBroker, run_broker
from headgate.protocol.messages.metadata import MetadataRequest


@pytest.mark.slow
def test_a_broker_makes_its_links_through_its_seam(tmp_path: Path) -> None:
    async def scenario(memory: MemoryBroker) -> None:
        parts = memory.broker.parts
        ended, results = trio.Event(), list[Any]()

        def task() -> Task[None]:
            link = parts.links.open(0, "broker", 9092, "broker-1")
            results.append((yield link.ask(MetadataRequest(topics=[]))))
            ended.set()

        parts.tasks.start(task())
        await ended.wait()
        (response,) = results
        assert response.brokers[0].node_id == response.controller_id == 0

    run_broker(tmp_path, scenario)


def test_a_stream_is_closed_with_its_link() -> None:
    async def scenario(linked: SimulatedStream) -> None:
        await linked.connect()
        linked.link.close()
        await trio.testing.wait_all_tasks_blocked()
        assert linked.kernel.opened[0].is_closed

    run(SimulatedStream, scenario)


def test_a_fault_of_ours_loses_the_connection_and_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(linked: SimulatedStream) -> None:
        await linked.connect()

        def fail(*_: Any) -> None:
            raise ZeroDivisionError("ours")

        monkeypatch.setattr(Link, "take", fail)
        error = await linked.ask().result()
        assert isinstance(error, LinkLost)
        assert "this broker failed to serve the connection" in str(error)
        assert "the connection to broker 2 at 127.0.0.1:9092 failed" in caplog.text
        monkeypatch.undo()
        linked.skip(1)
        await linked.connect()

    run(SimulatedStream, scenario)


def test_a_link_that_is_closed_while_it_sends_closes_its_stream() -> None:
    async def scenario(linked: SimulatedStream) -> None:
        await linked.connect()
        linked.kernel.opened[0].room = 1
        asked = linked.ask()
        await trio.testing.wait_all_tasks_blocked()
        linked.link.close()
        assert isinstance(await asked.result(), LinkLost)
        assert linked.kernel.opened[0].is_closed

    run(SimulatedStream, scenario)


def test_a_broken_stream_in_mid_send_is_the_end_of_the_connection() -> None:
    async def scenario(linked: SimulatedStream) -> None:
        peer = await linked.connect()
        linked.kernel.opened[0].room = 1
        asked = linked.ask()
        await trio.testing.wait_all_tasks_blocked()
        await peer.client.reset()
        assert "the connection failed" in str(await asked.result())

    run(SimulatedStream, scenario)
