"""The settings of groups: the broker's, and a group's own within the broker's bounds."""

from headgate.gateway.config import BrokerConfig
from headgate.gateway.coordinator.groups.settings import GroupSettings


def test_defaults_are_those_of_the_broker() -> None:
    """All tests without a broker use the defaults of the class: they must not say something else than the table."""
    settings = GroupSettings.of(BrokerConfig.load())
    assert settings == GroupSettings(rebalance_protocols=settings.rebalance_protocols)
    assert set(settings.rebalance_protocols) >= {"classic", "consumer"}


def test_the_settings_of_a_broker() -> None:
    text = "group.max.size=7\noffsets.retention.minutes=2\ngroup.consumer.assignors=range\noffset.metadata.max.bytes=9"
    settings = GroupSettings.of(BrokerConfig.load(text))
    assert (settings.max_size, settings.offsets_retention_ms) == (7, 120_000)
    assert (settings.consumer_assignors, settings.offset_metadata_max_bytes) == (("range",), 9)


def test_a_group_has_its_own_settings_within_the_present_bounds() -> None:
    settings = GroupSettings()
    own = settings.with_group({"consumer.session.timeout.ms": "50000"})
    assert (own.consumer_session_timeout_ms, own.consumer_heartbeat_interval_ms) == (50_000, 5_000)
    out = settings.with_group({"consumer.session.timeout.ms": "1", "consumer.heartbeat.interval.ms": "60000"})
    assert (out.consumer_session_timeout_ms, out.consumer_heartbeat_interval_ms) == (45_000, 15_000)
    assert settings.with_group({}) is settings
