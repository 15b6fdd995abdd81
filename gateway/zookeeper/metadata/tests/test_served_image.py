"""What a broker serves of the topics and configs that it read."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from headgate.gateway.config import BrokerConfig
from headgate.gateway.metadata.image import Image, PartitionState, Topic
from headgate.gateway.zookeeper.layout.tree import ClusterTree, read_cluster
from headgate.gateway.zookeeper.metadata.served_image import served_image, served_topic
from headgate.gateway.zookeeper.unreadable import UnreadableNodes
from headgate.protocol.internal.metadata import GROUP_RESOURCE

CONFIG = BrokerConfig.load()
LED = PartitionState(0, 3, (0,), (0,), 4)
ZXID = 50
"""The transaction that has written every state."""


def topic(*states: PartitionState, **configs: str) -> Topic:
    return Topic("t", b"t" * 16, states, {name.replace("_", "."): value for name, value in configs.items()})


def cluster(found: Topic, **parts: object) -> ClusterTree:
    image = Image.empty()._replace(topics={"t": found}, **parts)  # type: ignore[arg-type]
    return read_cluster({}, bytes)._replace(image=image, state_zxids={"t": (ZXID,) * len(found.partitions)})


def served(found: Topic, before: Topic | None, broker_epochs: Mapping[int, int]) -> tuple[PartitionState, ...]:
    return served_topic(cluster(found), "t", before, CONFIG, UnreadableNodes(), broker_epochs).partitions


def test_a_start_leads_nothing_and_has_legal_configs(caplog: pytest.LogCaptureFixture) -> None:
    configs = {(GROUP_RESOURCE, "g"): {"consumer.session.timeout.ms": "x"}}
    found = cluster(topic(LED, retention_ms="x", segment_ms="9"), configs=configs)
    unreadable = UnreadableNodes()
    for _ in range(2):
        image = served_image(found, CONFIG, unreadable)
        assert image.topics == {"t": topic(LED._replace(leader=-1), segment_ms="9")}
        assert image.configs == {(GROUP_RESOURCE, "g"): {}}
    assert [line.split(" has")[0] for line in caplog.messages] == [
        "a config in ZooKeeper's /config/topics/t",
        "a config in ZooKeeper's /config/groups/g",
    ]


def test_a_partition_stays_led_by_this_broker() -> None:
    found = topic(LED, LED._replace(leader=7))
    assert served(found, topic(LED, LED), {}) == (LED, LED._replace(leader=-1))


def test_an_epoch_of_a_lost_state_goes_on() -> None:
    lost = PartitionState(-1, -1, (7, 0), (), -1)
    [state] = served(topic(lost), topic(LED._replace(isr=(7,))), {})
    assert (state.leader, state.leader_epoch, state.isr) == (-1, 3, (7,))


def test_only_a_broker_that_leads_since_its_start_keeps_its_lead() -> None:
    found = topic(*[LED._replace(leader=leader) for leader in (0, 7, 8, 9)])
    leaders = [state.leader for state in served(found, None, {0: ZXID - 1, 7: ZXID - 1, 8: ZXID + 1})]
    assert leaders == [0, 7, -1, -1]
