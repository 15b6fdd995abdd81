"""Events of partitions and log directories."""

from headgate.gateway.replication.events import ReplicationEvents


def test_nobody_hears_of_the_events_of_another_broker() -> None:
    first, second = ReplicationEvents(), ReplicationEvents()
    first.epoch_needed.append(lambda: None)
    assert second.epoch_needed == []
