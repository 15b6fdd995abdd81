"""The sources of metadata: which one a broker has, and that the embedded one is alone."""

from __future__ import annotations

from pathlib import Path

from headgate.gateway.app.metadata_sources import EmbeddedSource
from headgate.gateway.tests.builders import HandlerBroker
from headgate.gateway.zookeeper.membership.source import ZooKeeperSource
from headgate.gateway.zookeeper.tests.model import ZooKeeperModel
from headgate.gateway.zookeeper.tests.whole_broker import WholeBroker


def test_zookeeper_is_the_source_where_it_is_configured(tmp_path: Path) -> None:
    with_zookeeper = WholeBroker(tmp_path / "a", ZooKeeperModel())
    assert isinstance(with_zookeeper.parts.source, ZooKeeperSource)
    with_zookeeper.stop()


def test_a_broker_with_its_own_metadata_is_alone(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path)
    source = node.parts.source
    assert isinstance(source, EmbeddedSource)
    assert (source.broker_epoch, source.is_registered) == (-1, True)
    answered: list[object] = []
    source.announce({}, answered.append)
    assert answered == [None]
    node.close()
