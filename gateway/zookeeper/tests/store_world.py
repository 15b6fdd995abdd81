"""The metadata of a broker of one over the model of ZooKeeper: started as a broker starts, with a tool beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from itertools import count
from random import Random
from typing import Any

from headgate.gateway.config import BrokerConfig
from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.store import Change
from headgate.gateway.runtime.broker_links import BrokerLink, BrokerLinks
from headgate.gateway.runtime.tasks import Task, Tasks, run
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.zookeeper.layout.tree import ClusterTree, ZNode, read_cluster
from headgate.gateway.zookeeper.metadata import plans
from headgate.gateway.zookeeper.metadata.acl_watcher import ensure_acl_paths, read_acls, reads_acls
from headgate.gateway.zookeeper.metadata.cluster_nodes import ClusterNodes
from headgate.gateway.zookeeper.metadata.plans import Multi
from headgate.gateway.zookeeper.metadata.reading import Watches, ensure_paths, read_tree
from headgate.gateway.zookeeper.metadata.token_watcher import ensure_token_paths, read_tokens, reads_tokens
from headgate.gateway.zookeeper.requests import multi
from headgate.gateway.zookeeper.session import Create, Delete, Operation, Refused, SessionEvent, SetData
from headgate.gateway.zookeeper.store.metadata_store import LIST_EVERY_MS, ZooKeeperMetadataStore, first_image
from headgate.gateway.zookeeper.tests.model import ModelSession, ZooKeeperModel
from headgate.gateway.zookeeper.unreadable import UnreadableNodes

TOOL = 777
"""The session of tools."""


class NoLinks:
    """No other broker lives."""

    def open(self, node_id: int, host: str, port: int, client_id: str, *, timeout_ms: float) -> BrokerLink:
        raise AssertionError(f"{client_id} wants to send orders to broker {node_id} at {host}:{port}")


class Tool:
    """Writes as Kafka's old tools write, without asking anybody."""

    def __init__(self, keeper: ZooKeeperModel) -> None:
        self.keeper = keeper

    def do(self, *operations: Operation) -> None:
        results = self.keeper.transact(TOOL, operations)
        assert not isinstance(results, Refused), (results, operations[results.place])

    def put(self, path: str, data: bytes | None) -> None:
        exists = path in self.keeper.tree.nodes
        self.do(SetData(path, data) if exists else Create(path, data))

    def delete(self, path: str) -> None:
        self.do(Delete(path))

    def write_topic(self, name: str, *replicas: Sequence[int], version: int = 1) -> None:
        """Create a topic, or change its assignment."""
        partitions = {str(index): list(one) for index, one in enumerate(replicas)}
        self.put(f"/brokers/topics/{name}", _json({"version": version, "partitions": partitions}))

    def write_configs(self, entity_path: str, configs: dict[str, str], notification: object = None) -> None:
        """Write configs and notify: by default in the present form."""
        self.put(f"/config/{entity_path}", _json({"version": 1, "config": configs}))
        told = {"version": 2, "entity_path": entity_path} if notification is None else notification
        self.do(Create("/config/changes/config_change_", _json(told), is_sequential=True))

    def delete_topic(self, name: str) -> None:
        self.put(f"/admin/delete_topics/{name}", b"")


class StoreWorld:
    """A broker's metadata, from start to start; `settings` as in server.properties."""

    links: BrokerLinks = NoLinks()

    def __init__(self, keeper: ZooKeeperModel | None = None, settings: str = "", seed: int = 0) -> None:
        self.keeper = ZooKeeperModel(now_ms=self._now_ms) if keeper is None else keeper
        self.tool = Tool(self.keeper)
        self.config = BrokerConfig.load(settings)
        self.random = Random(seed)
        self.seen: list[tuple[Image, Image, Collection[str]]] = []
        self.events: list[SessionEvent] = []
        self.time = ManualTime()
        self.start()

    def start(self) -> None:
        """Start the broker; the one before has ended."""
        self.time = ManualTime()
        self.session: ModelSession = self.keeper.session(self._follow)
        self.session.start()
        self.keeper.run()
        self.finish(ensure_paths(self.session))
        watches = Watches()
        tree = self.finish(read_tree(self.session, watches.note))
        if reads_acls(self.config):
            self.finish(ensure_acl_paths(self.session))
            tree |= self.finish(read_acls(self.session, watches.note))
        if reads_tokens(self.config):
            self.finish(ensure_token_paths(self.session))
            tree |= self.finish(read_tokens(self.session, watches.note))
        cluster = read_cluster(tree, self._topic_id)
        unreadable = UnreadableNodes()
        self.nodes = ClusterNodes(cluster, unreadable)
        self._do(plans.become_controller(cluster, self.config.node_id, 5))
        for one in plans.give_topic_ids(self.nodes.tree(cluster.image)):
            self._do(one)
        self.metadata = ZooKeeperMetadataStore(
            self.session,
            watches,
            self.nodes,
            first_image(cluster, self.config, unreadable)._replace(controller_id=self.config.node_id),
            self.config,
            self.time.clock,
            self.random,
            Tasks(self.time.clock, self.time.scheduler),
            self.links,
        )
        self.metadata.on_change(lambda old, new, names: self.seen.append((old, new, names)))
        self.build()
        self.metadata.start()

    def build(self) -> None:
        """Build what else listens to the metadata; nothing runs yet."""

    def kill(self) -> None:
        """End the broker; ZooKeeper ends its session."""
        self.metadata.stop()
        self.keeper.expire(self.session.session_id)
        self.keeper.sessions.remove(self.session)

    def settle(self, milliseconds: float = 0.0) -> None:
        """Let everything happen that time does not hold back."""
        self.time.advance(milliseconds)
        for _ in range(4):
            while self.keeper.step():
                self.time.advance()
            self.time.advance(LIST_EVERY_MS)

    @property
    def image(self) -> Image:
        return self.metadata.image

    @property
    def nodes_there(self) -> dict[str, Any]:
        return self.keeper.tree.nodes

    def read(self) -> ClusterTree:
        """The cluster as it is in ZooKeeper."""
        ids = count(1)
        tree = {path: ZNode(node.data, node.version, node.czxid, node.mzxid) for path, node in self.nodes_there.items()}
        return read_cluster(tree, lambda: next(ids).to_bytes(16, "big"))

    def check(self) -> None:
        """What everybody sees is what is in ZooKeeper, and the versions are known."""
        found = self.read()
        image, cluster = self.image, self.nodes.tree(self.image)
        assert image.topics == found.image.topics
        assert image.topic_names == found.image.topic_names
        assert {key: one for key, one in image.configs.items() if one} == found.image.configs
        assert image.features == found.image.features
        if reads_acls(self.config):
            assert image.acls.ids == found.image.acls.ids
            assert image.acls.acl_index == found.image.acls.acl_index
            assert cluster.acls == found.acls
        if reads_tokens(self.config):
            assert cluster.token_versions == found.token_versions
        assert image.next_producer_id <= found.image.next_producer_id  # what others take is seen when it is needed
        assert cluster.topics == found.topics
        assert cluster.controller_epoch_version == found.controller_epoch_version
        for entity, node in found.configs.items():  # those that no topic has are read when a topic gets them
            assert cluster.configs.get(entity, node) == node or entity.name not in image.topics

    def change(self, begin: Callable[[], Change]) -> Change:
        """Begin a change, and let it end."""
        change = begin()
        self.settle()
        assert change.is_settled
        return change

    def finish(self, steps: Task[Any]) -> Any:
        results: list[Any] = []
        run(steps, results.append)
        self.keeper.run()
        (result,) = results
        if isinstance(result, Exception):
            raise result
        return result

    def _do(self, one: Multi) -> None:
        results = self.finish(multi(self.session, one))
        assert not isinstance(results, Refused)
        self.nodes.apply(one, results)

    def _now_ms(self) -> int:
        return self.time.clock.now_ms()

    def _topic_id(self) -> bytes:
        return self.random.randbytes(16)

    def _follow(self, event: SessionEvent) -> None:
        self.events.append(event)
        if event in {SessionEvent.CONNECTED, SessionEvent.RECONNECTED} and len(self.events) > 1:
            self.metadata.resume()


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
