"""The parts of a broker: the listeners of each event, and a start that fails."""

from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from unittest import mock
from unittest.mock import NonCallableMock

import pytest

from headgate.gateway.api.authorization import Authorizer
from headgate.gateway.app.composition import BrokerParts, Seams
from headgate.gateway.app.metadata_sources import Foundation, MetadataSource
from headgate.gateway.config import BrokerConfig
from headgate.gateway.maintenance.log_loading import LogLoader
from headgate.gateway.metadata.store import MetadataStore
from headgate.gateway.runtime.tests.fake_scheduler import ManualClock
from headgate.gateway.tests.builders import HandlerBroker, UnsyncedFiles
from headgate.storage.directory.log_directory import CLEAN_SHUTDOWN
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.errors import StorageError


@pytest.fixture
def config(tmp_path: Path) -> BrokerConfig:
    return BrokerConfig.load("", {"log.dirs": str(tmp_path / "data")})


@pytest.fixture
def parts(config: BrokerConfig) -> Iterator[BrokerParts]:
    parts = BrokerParts(config, Seams(files=UnsyncedFiles()))
    yield parts
    parts.close()


def test_each_event_has_its_listener(parts: BrokerParts) -> None:
    events = parts.partitions.events
    assert {field.name: [one.__qualname__ for one in getattr(events, field.name)] for field in fields(events)} == {
        "disk_failed": ["BrokerMaintenance.note_disk_error"],
        "disk_recovered": ["LogCleaner.disk_recovered"],
        "space_recovered": ["EmbeddedSource.space_recovered"],
        "replicas_failed": ["LeaderEpochBumps.soon"],
        "online": ["CoordinatorRuntime.came_online"] * 2,
        "truncated": ["CoordinatorRuntime.log_was_truncated"] * 2,
    }


def test_coordinators_follow_the_metadata_behind_partitions(config: BrokerConfig) -> None:
    listeners: list[str] = []
    with mock.patch.object(MetadataStore, "on_change", lambda _, listener: listeners.append(listener.__qualname__)):
        BrokerParts(config, Seams(files=UnsyncedFiles())).close()
    first, *coordinators, _, _, _, _, last = listeners
    assert (first, last) == ("ReplicaManager.follow", "EmbeddedSource.follow")
    assert coordinators
    assert all(name.endswith(".follow") for name in coordinators)


def test_services_are_built_of_the_seams(config: BrokerConfig) -> None:
    authorizer = NonCallableMock(Authorizer)
    seams = Seams(clock=ManualClock(5), files=UnsyncedFiles(), authorizer=authorizer)
    parts = BrokerParts(config, seams)
    services, dispatcher = parts.services, parts.dispatcher
    assert (services.clock, services.random, parts.log_manager.files) == (seams.clock, seams.random, seams.files)
    assert (dispatcher.authorizer, dispatcher.quotas) == (authorizer, parts.quotas)
    parts.close()


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_start_that_fails_leaves_the_directory_as_it_was(config: BrokerConfig, is_clean: bool) -> None:
    def refuse(what: str, *_: object) -> None:
        raise StorageError(what)

    (directory,) = config.log_directories
    BrokerParts(config, Seams()).close()
    mark = Path(directory, CLEAN_SHUTDOWN)
    if not is_clean:
        mark.unlink()
    with pytest.raises(StorageError, match="refused"):
        BrokerParts(config, Seams(open_logs=partial(refuse, "refused")))
    assert mark.exists() == is_clean
    BrokerParts(config, Seams()).close()


def test_the_metadata_are_read_before_logs_are_opened(config: BrokerConfig, tmp_path: Path) -> None:
    node, told = HandlerBroker(tmp_path / "data"), list[str]()
    node.services.metadata.create_topic("t", 1)
    node.close()

    def open_logs(log_manager: LogManager, log_loader: LogLoader, _: int) -> None:
        told.append(f"{len(log_manager.unopened)} logs")
        log_loader.open_few()

    def source(base: Foundation) -> MetadataSource:
        made = Seams().metadata(base)
        told.extend(made.image.topics)
        return made

    BrokerParts(config, Seams(metadata=source, open_logs=open_logs)).close()
    assert told == ["t", "1 logs"]
