"""The settings of transactions."""

from headgate.gateway.config import BrokerConfig
from headgate.gateway.coordinator.transactions.settings import TransactionSettings


def test_defaults_are_those_of_the_broker() -> None:
    """All tests without a broker use the defaults of the class: they must not say something else than the table."""
    assert TransactionSettings.of(BrokerConfig.load()) == TransactionSettings()


def test_the_settings_of_a_broker() -> None:
    text = "transaction.max.timeout.ms=7\ntransaction.abort.timed.out.transaction.cleanup.interval.ms=9"
    assert TransactionSettings.of(BrokerConfig.load(text)) == TransactionSettings(7, 9)
