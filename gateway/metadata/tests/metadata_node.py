"""The metadata of one broker over a disk that may crash, with its snapshots, and threads that a test runs."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from random import Random
from typing import Any

from headgate.gateway.app.metadata_sources import EmbeddedSource, Foundation
from headgate.gateway.config import BrokerConfig
from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.new_topics import METADATA_TOPIC
from headgate.gateway.metadata.snapshot import load
from headgate.gateway.metadata.snapshot_generator import RETRY_MS, START_DELAY_MS
from headgate.gateway.metadata.store import Change, Prepare, prepare_nothing
from headgate.gateway.runtime.stall_watch import StallWatch
from headgate.gateway.runtime.tasks import Task, Tasks
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.log.log import Log
from headgate.storage.tests.crashing_files import CrashingFiles

DATA = "/data"
DIRECTORY = f"{DATA}/{METADATA_TOPIC}-0"


class MetadataNode:
    """Metadata, opened as a broker opens it. Changes and snapshots wait for `threads`."""

    def __init__(self, files: CrashingFiles, *paths: str) -> None:
        self.files = files
        self.config = BrokerConfig.load("", {"log.dirs": ",".join(paths or (DATA,))})
        self.time = ManualTime()
        self.threads = self.time.scheduler.hold()
        plain = self.config.log_config({})
        self.stores = LogManager.take(paths or (DATA,), files=files, node_id=0, config=plain, random=Random(1))
        self.prepare: Prepare = prepare_nothing
        self._source = EmbeddedSource(
            Foundation(self.config, self.time.clock, Random(2), self.time.scheduler, self.stores)
        )
        self._source.begin()
        self.metadata = self._source.build(self._prepare)
        self._submit, self.metadata.submit = self.metadata.submit, self._note  # type: ignore[method-assign]
        self.changes: list[Change] = []
        self.generator = self._source.generator
        self.metadata.on_change(self._source.follow)
        self._numbers = itertools.count(self.log.end_offset)

    def _prepare(self, old: Image, new: Image, names: Collection[str]) -> Task[None]:
        yield from self.prepare(old, new, names)

    def _note(self, *arguments: Any, **named: Any) -> Change:
        self.changes.append(self._submit(*arguments, **named))
        return self.changes[-1]

    @property
    def log(self) -> Log:
        return self.metadata.metadata_log.log

    @property
    def records_read(self) -> int:
        """How many records a start reads."""
        return load(self.log).records_read

    @property
    def image(self) -> Image:
        """What everybody sees."""
        return self.metadata.image

    def start(self) -> None:
        """Have snapshots written from now on, and those that are due."""
        self._source.start(StallWatch(Tasks(self.time.clock, self.time.scheduler)))
        self.time.advance(START_DELAY_MS)
        self.threads.run_all()

    def retry(self) -> None:
        """As if a minute passed."""
        self.time.advance(RETRY_MS)
        self.threads.run_all()

    def churn(self, count: int) -> None:
        """Make so many topics, and delete them; each change is on the disk, or refused, at the end."""
        for _ in range(count):
            name = f"churned{next(self._numbers)}"
            self.metadata.create_topic(name, 2)
            self.threads.run_all()
            self.metadata.delete_topic(name)
            self.threads.run_all()

    def snapshots(self) -> list[str]:
        """The names of what is, or will be, a snapshot."""
        return sorted(name for name in self.files.list(DIRECTORY) if ".checkpoint" in name and "epoch" not in name)


def recorded_state(image: Image) -> tuple[object, ...]:
    """What of an image the metadata log tells."""
    configs = {key: dict(values) for key, values in image.configs.items() if values}
    return image.topics, image.topic_names, image.features, configs, image.next_producer_id


def hangs(*_: object) -> Task[None]:
    """The `Prepare` of a hung disk."""
    yield lambda _: None
