"""Plans that change configs of topics, brokers and groups. Pure: an image in, records out. None removes a config."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.gateway.config import dynamic as dynamic_configs
from headgate.gateway.config import group_config as group_configs
from headgate.gateway.config import topic_config as topic_configs
from headgate.gateway.config.broker import BrokerConfig
from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.records import config_records
from headgate.protocol.internal.metadata import BROKER_RESOURCE, GROUP_RESOURCE, MetadataRecord

Changes = Mapping[str, str | None]


def change_topic_configs(image: Image, name: str, changes: Changes) -> list[MetadataRecord]:
    """The records that change configs of a topic. Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_CONFIG."""
    topic = image.topic(name)
    topic_configs.check(_without_removed(changes))
    topic_configs.check(_without_removed({**topic.configs, **changes}))
    return config_records(name, changes)


def change_group_configs(image: Image, config: BrokerConfig, group_id: str, changes: Changes) -> list[MetadataRecord]:
    """The records that change configs of a group, which need not exist. Raises KafkaError(INVALID_CONFIG)."""
    present = image.configs.get((GROUP_RESOURCE, group_id), {})
    group_configs.check(config, _without_removed({**present, **changes}))
    group_configs.check_change(group_id, present, changes)
    return config_records(group_id, changes, GROUP_RESOURCE)


def change_broker_configs(
    image: Image, config: BrokerConfig, node_id: int | None, changes: Changes
) -> list[MetadataRecord]:
    """The records that change configs of one broker, or with None of all brokers.

    `config` belongs to the broker that checks the change. Raises KafkaError: INVALID_REQUEST, INVALID_CONFIG.
    """
    records = _broker_records(node_id, changes)
    of_all, own = image.apply_all(records).broker_configs(config.node_id)
    dynamic_configs.check(config, changes, of_all, own, is_own=node_id is not None)
    return records


def changed_broker_config(image: Image, config: BrokerConfig, node_id: int | None, changes: Changes) -> BrokerConfig:
    """The configuration that a broker would have after such a change, unchecked."""
    return config.with_dynamic(*image.apply_all(_broker_records(node_id, changes)).broker_configs(config.node_id))


def _broker_records(node_id: int | None, changes: Changes) -> list[MetadataRecord]:
    return config_records("" if node_id is None else str(node_id), changes, BROKER_RESOURCE)


def _without_removed(configs: Changes) -> dict[str, str]:
    return {name: value for name, value in configs.items() if value is not None}
