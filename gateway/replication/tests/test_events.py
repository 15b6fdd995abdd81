"""Events of partitions and log directories: who hears of them is in the wiring."""

from dataclasses import fields
from pathlib import Path

from headgate.gateway.app.broker import Broker
from headgate.gateway.config import BrokerConfig
from headgate.gateway.replication.events import ReplicationEvents
from headgate.gateway.tests.builders import UnsyncedFiles


def listeners(events: ReplicationEvents) -> dict[str, list[str]]:
    return {field.name: [one.__qualname__ for one in getattr(events, field.name)] for field in fields(events)}


def test_the_wiring_has_a_listener_for_each_event(tmp_path: Path) -> None:
    broker = Broker(BrokerConfig.load("", {"log.dirs": str(tmp_path)}), files=UnsyncedFiles())
    broker._upkeep()
    assert listeners(broker.services.partitions.events) == {
        "disk_failed": ["BrokerMaintenance.note_disk_error"],
        "disk_recovered": ["LogCleaner.disk_recovered"],
        "epoch_needed": ["LeaderEpochBumps.soon"],
        "online": ["CoordinatorRuntime.came_online"],
        "truncated": ["CoordinatorRuntime.log_was_truncated"],
    }
    broker._store.close()


def test_nobody_hears_of_the_events_of_another_broker() -> None:
    first, second = ReplicationEvents(), ReplicationEvents()
    first.epoch_needed.append(lambda: None)
    assert second.epoch_needed == []
