"""What a broker serves of the topics and configs that it read."""

from __future__ import annotations

import pytest

from headgate.gateway.config import BrokerConfig
from headgate.gateway.metadata.image import Image, PartitionState, Topic
from headgate.gateway.zookeeper.metadata.served_image import served_image, served_topic
from headgate.gateway.zookeeper.unreadable import UnreadableNodes
from headgate.protocol.internal.metadata import GROUP_RESOURCE

CONFIG = BrokerConfig.load()
LED = PartitionState(0, 3, (0,), (0,), 4)


def topic(*states: PartitionState, **configs: str) -> Topic:
    return Topic("t", b"t" * 16, states, {name.replace("_", "."): value for name, value in configs.items()})


def test_a_start_leads_nothing_and_has_legal_configs(caplog: pytest.LogCaptureFixture) -> None:
    configs = {(GROUP_RESOURCE, "g"): {"consumer.session.timeout.ms": "x"}}
    found = Image.empty()._replace(topics={"t": topic(LED, retention_ms="x", segment_ms="9")}, configs=configs)
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
    before = topic(LED, LED)
    found = topic(LED, LED._replace(leader=7))
    states = served_topic(found, before, CONFIG, UnreadableNodes()).partitions
    assert states == (LED, LED._replace(leader=-1))


def test_an_epoch_of_a_lost_state_goes_on() -> None:
    lost = PartitionState(-1, -1, (0,), (), -1)
    [state] = served_topic(topic(lost), topic(LED), CONFIG, UnreadableNodes()).partitions
    assert (state.leader, state.leader_epoch, state.isr) == (-1, 3, (0,))


def test_another_live_broker_keeps_its_lead() -> None:
    found = topic(LED._replace(leader=7), LED._replace(leader=8))
    states = served_topic(found, None, CONFIG, UnreadableNodes(), {0, 7}).partitions
    assert [state.leader for state in states] == [7, -1]
