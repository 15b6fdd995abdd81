"""The connections to other brokers: what a task gets from the links that the network makes."""

from __future__ import annotations

import pytest

from headgate.gateway.network.links import Link, Links, Transport
from headgate.gateway.runtime.broker_links import BrokerLinks, LinkLost
from headgate.gateway.runtime.tasks import Task, Tasks
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.protocol.messages.metadata import MetadataRequest


def no_transport(_link: Link) -> Transport:
    raise AssertionError("a closed link does not connect")


def test_a_task_learns_that_its_link_is_closed() -> None:
    time = ManualTime()
    links: BrokerLinks = Links(time.clock, time.scheduler, no_transport)
    link = links.open(2, "broker-2", 9092, "broker-1-fetcher-0", timeout_ms=30_000)
    errors: list[str] = []

    def asks() -> Task[None]:
        for ask in (link.ask(MetadataRequest()), link.versions()):
            with pytest.raises(LinkLost) as error:
                yield ask
            errors.append(str(error.value))

    link.close()
    Tasks(time.clock, time.scheduler).start(asks())
    time.advance()
    assert errors == ["broker 2 at broker-2:9092: this broker has closed the link"] * 2
