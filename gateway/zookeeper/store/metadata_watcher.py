"""External changes in ZooKeeper, applied to the store: topics, configs, and the orders of tools.

A fired watch names a path. The watcher reads the path again, with a new watch, and passes the differences to the store.
Every broker reads configs; only the controller reads topics and orders, during its term (`controller_term.py`).

An unreadable node (by name or content) is logged once and skipped; the last known state stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from headgate.gateway.metadata.image import Image
from headgate.gateway.runtime.tasks import Task, gather
from headgate.gateway.zookeeper.controller.controller_term import TERM_PATHS, ControllerTerm
from headgate.gateway.zookeeper.controller.live_brokers import LiveBrokers
from headgate.gateway.zookeeper.controller.topic_watcher import TOPIC_CONFIGS
from headgate.gateway.zookeeper.layout.brokers import BROKER_IDS_PATH
from headgate.gateway.zookeeper.layout.cluster import CONTROLLER_PATH, PRODUCER_IDS_PATH
from headgate.gateway.zookeeper.layout.configs import CONFIG_CHANGES_PATH, CONFIG_PATH, TOPICS, ConfigEntity
from headgate.gateway.zookeeper.layout.tokens import TOKENS_PATH
from headgate.gateway.zookeeper.layout.topics import TOPICS_PATH
from headgate.gateway.zookeeper.metadata.acl_watcher import AclWatcher, acl_paths
from headgate.gateway.zookeeper.metadata.config_watcher import SINGLES, ConfigWatcher, config_paths, entities
from headgate.gateway.zookeeper.metadata.differences import Touched
from headgate.gateway.zookeeper.metadata.reading import CONFIGURED, StoreParts
from headgate.gateway.zookeeper.metadata.token_watcher import TokenWatcher, token_paths

PUBLISHED_AT_ONCE: Final = 64
"""About the largest number of partitions, or other entities, in one published change."""
_DIRECTORIES: Final = (CONFIG_CHANGES_PATH, TOPICS_PATH, *CONFIGURED)


class MetadataWatcher:
    """Keeps the store's image and the known nodes up to date with ZooKeeper."""

    def __init__(self, parts: StoreParts) -> None:
        self.configs = ConfigWatcher(parts)
        self.acls = AclWatcher(parts)
        self.tokens = TokenWatcher(parts)
        self.brokers = LiveBrokers(parts)
        self.term: ControllerTerm | None = None
        """The term of this broker as the controller; None while another broker is the controller."""
        self._parts = parts
        self._watches = parts.watches
        self._nodes = parts.nodes
        self._store = parts.store

    def begin_term(self, *, others_wrote: bool) -> ControllerTerm:
        """Begin to read topics and orders."""
        self.term = ControllerTerm(self._parts, self.configs, self.brokers, others_wrote=others_wrote)
        return self.term

    def end_term(self) -> None:
        """End the reads of topics, and forget their nodes. The image keeps the topics."""
        if self.term is not None:
            self.term.end()
        self.term = None
        self._nodes.forget_topics()

    # Scheduling of refreshes

    def schedule_full_refresh(self, *, with_states: bool = False) -> None:
        """Schedule a read of every path, as all watches are lost. `with_states`: states of partitions included."""
        directories = (*_DIRECTORIES, *self.acls.directories, *self.tokens.directories)
        for path in (CONTROLLER_PATH, BROKER_IDS_PATH, *SINGLES, *directories, *TERM_PATHS):
            self._watches.note(path)
        if self.term is None:
            self.schedule_topic_configs(self._store.written_image.topics)
        else:
            self._watches.note(BROKER_IDS_PATH)
            self.term.topics.schedule_full_refresh(with_states=with_states)

    def schedule_topic_configs(self, names: Iterable[str]) -> None:
        """Schedule a read of the configs of these topics."""
        for name in names:
            self._watches.note(f"{TOPIC_CONFIGS}{name}")

    def schedule_refresh(self, subjects: Touched) -> None:
        """Schedule a read of these subjects: a change of them may be in ZooKeeper, in full or in part."""
        if self.term is None:
            self.schedule_topic_configs(subjects.topics)
        else:
            self.term.topics.schedule_refresh(subjects.topics)
        for path in (*config_paths(entities(subjects)), *acl_paths(subjects.acls), *token_paths(subjects.tokens)):
            self._watches.note(path)
        for path in SINGLES if subjects.has_others else ():
            self._watches.note(path)

    def read_subjects(self, image: Image, subjects: Touched) -> Task[Image]:
        """The image with the present state of these subjects in ZooKeeper, leaders included.

        The differences are published later, by a scheduled refresh. An unreadable subject keeps its known state. Raises
        InvalidNode for an unreadable topic that the image does not have.
        """
        self.schedule_refresh(subjects)
        for name in sorted(subjects.topics):
            if self.term is None:
                image = yield from self.configs.read_into(image, ConfigEntity(TOPICS, name))
            else:
                image = yield from self.term.topics.read_into(image, name)
        for entity in entities(subjects):
            image = yield from self.configs.read_into(image, entity)
        for pattern in sorted(subjects.acls):
            image = yield from self.acls.read_into(image, pattern)
        for token_id in sorted(subjects.tokens):
            image = yield from self.tokens.read_into(image, token_id)
        if subjects.has_others:
            image = yield from self.configs.read_singles_into(image)
        return image

    # Refreshes

    def refresh(self, paths: Collection[str]) -> Task[None]:
        """Read these paths again, publish the differences, and carry out orders."""
        attempt, term, has_brokers = self._nodes.unreadable.attempt, self.term, False
        if BROKER_IDS_PATH in paths and term is not None:
            has_brokers = (yield from attempt(BROKER_IDS_PATH, self._refresh_brokers())) is not None
        subjects = {path: None for path in paths if path not in (*TERM_PATHS, *SINGLES, BROKER_IDS_PATH)}
        if term is None:
            subjects = {path: None for path in subjects if not f"{path}/".startswith(f"{TOPICS_PATH}/")}
        directories = {*_DIRECTORIES, *self.acls.directories, *self.tokens.directories}
        for path in [path for path in subjects if path in directories]:
            del subjects[path]
            subjects |= dict.fromkeys((yield from attempt(path, self._changed_below(path))) or ())
        # A topic and its configs are one subject: they must be published together
        if term is not None:
            subjects = dict.fromkeys([path.replace(TOPIC_CONFIGS, f"{TOPICS_PATH}/") for path in subjects])
        for chunk in self._chunks(subjects):
            try:
                yield from gather([attempt(path, self._refresh(path)) for path in chunk])
            finally:
                self._publish()  # `_nodes` has the nodes that were read before an error
        if any(path in SINGLES for path in paths):
            yield from attempt(PRODUCER_IDS_PATH, self.configs.refresh_singles())
        if term is not None:
            if TOPICS_PATH in paths and has_brokers:
                term.everything_was_read()
                self._store.note_topics_known()
            for path in [path for path in paths if path in TERM_PATHS]:
                yield from attempt(path, term.carry_out(path))

    def know_notification(self, path: str) -> None:
        """Skip a notification that this broker has written."""
        for watcher in (self.acls, self.tokens):
            if path.startswith(tuple(f"{directory}/" for directory in watcher.directories)):
                watcher.notifications.know(path)
                return
        self.configs.notifications.know(path)

    def _refresh_brokers(self) -> Task[bool]:
        yield from self.brokers.refresh()
        if self.term is not None:
            self.term.brokers_changed()
        return True

    def _changed_below(self, path: str) -> Task[Iterable[str]]:
        """The paths below a directory that may have changed."""
        if path == TOPICS_PATH and self.term is not None:
            return (yield from self.term.topics.new_paths())
        if path == CONFIG_CHANGES_PATH:
            return (yield from self.configs.changed())
        if path in self.acls.directories:
            return (yield from self.acls.changed_below(path))
        if path in self.tokens.directories:
            return (yield from self.tokens.changed_below(path))
        return (yield from self.configs.all_paths(path))

    def _chunks(self, subjects: Iterable[str]) -> Iterator[list[str]]:
        """Paths in chunks of about PUBLISHED_AT_ONCE partitions."""
        topics, chunk, size = self._store.written_image.topics, list[str](), 0
        for path in subjects:
            topic = topics.get(path.removeprefix(f"{TOPICS_PATH}/"))
            chunk.append(path)
            size += 1 if topic is None else len(topic.partitions)
            if size >= PUBLISHED_AT_ONCE:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk

    def _refresh(self, path: str) -> Task[None]:
        if path.startswith(f"{TOPICS_PATH}/") and self.term is not None:
            yield from self.term.topics.refresh(path.removeprefix(f"{TOPICS_PATH}/"))
        elif path.startswith(f"{CONFIG_PATH}/"):
            yield from self.configs.refresh(path)
        elif path.startswith(f"{TOKENS_PATH}/"):
            yield from self.tokens.refresh(path)
        else:
            yield from self.acls.refresh(path)

    def _publish(self) -> None:
        """Publish all differences as one change: each change copies the names of all topics."""
        term = self.term
        found = self.configs.take_records() + self.acls.take_records() + self.tokens.take_records()
        found += [] if term is None else term.topics.take_records()
        if found:
            self._store.apply_external(found)
        if term is not None:
            term.topics.published(found)
