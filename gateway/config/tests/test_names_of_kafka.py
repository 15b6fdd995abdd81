"""Every setting of Apache Kafka's releases, and of plug-ins that come with it, is known here by name.

`names_of_kafka.txt` has the names: of 2.8, 3.9 and 4.1 as `compat_tests/java/broker/src/ConfigNames.java` prints them,
with internal ones; of 0.8.2 those in its class KafkaConfig; settings that plug-ins read (authorizers, JmxReporter,
tiered storage, providers of secrets, Cruise Control's reporter); and the forms of a listener's own settings.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.gateway.config import catalogue, group_config, topic_config
from headgate.gateway.config.broker import BrokerConfig
from headgate.gateway.config.loading import ConfigError

BROKER_KINDS = ("broker", "plug-in", "listener")


def recorded() -> dict[str, list[str]]:
    lists: dict[str, list[str]] = {}
    label = ""
    for line in (Path(__file__).parent / "names_of_kafka.txt").read_text().splitlines():
        if line.startswith(" "):
            lists[label] += line.split()
        else:
            label = line.removesuffix(":")
            lists[label] = []
    return lists


NAMES = recorded()


@pytest.mark.parametrize("label", [label for label in NAMES if label.endswith(BROKER_KINDS)])
def test_every_broker_setting_of_kafka_is_known(label: str) -> None:
    assert [name for name in NAMES[label] if catalogue.find(name) is None] == []


@pytest.mark.parametrize("label", [label for label in NAMES if label.endswith(BROKER_KINDS)])
def test_no_setting_of_kafka_is_called_unknown_in_a_file(label: str) -> None:
    with pytest.raises(ConfigError) as refused:  # 0 is no value of some
        BrokerConfig.load("".join(f"{name}=0\n" for name in NAMES[label]) + "num.partitions=x")
    unknown = [problem for problem in refused.value.problems if "unknown setting" in problem]
    assert unknown == []


@pytest.mark.parametrize("label", [label for label in NAMES if label.endswith("topic")])
def test_every_topic_setting_of_kafka_is_known(label: str) -> None:
    own = {*catalogue.TOPIC, *catalogue.UNSUPPORTED_TOPIC}
    assert [name for name in NAMES[label] if name not in own and topic_config.other_definition(name) is None] == []
    for name in NAMES[label]:
        assert "it is a setting of topics" in catalogue.nearest_broker_setting(name) or catalogue.find(name)


def test_every_group_setting_of_kafka_is_known() -> None:
    described = {entry.name for entry in group_config.describe(BrokerConfig.load(), {})}
    assert described == set(NAMES["4.1.2 group"])


def test_an_invented_name_is_said_to_be_no_setting() -> None:
    with pytest.raises(ConfigError, match=r"no Apache Kafka .* and no plug-in known here has it"):
        BrokerConfig.load("something.else.entirely=1")
