"""Events of partitions and log directories."""

from headgate.gateway.replication.events import ReplicationEvents


def test_nobody_hears_of_the_events_of_another_broker() -> None:
    first, second = ReplicationEvents(), ReplicationEvents()
    first.replicas_failed.append(lambda: None)
    assert second.replicas_failed == []
