"""Plans are carried out by the model of ZooKeeper; what is there then is read, and is what was wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, count
from typing import Any

import pytest

from headgate.gateway.controller.elections import next_state
from headgate.gateway.metadata.image import Image, PartitionState, Topic, raised_by
from headgate.gateway.zookeeper.layout.tests.recordings import MIDDLE, NEW, OLD, steps
from headgate.gateway.zookeeper.layout.topics import DELETED_TOPICS_PATH
from headgate.gateway.zookeeper.layout.tree import ClusterTree, ZNode, read_cluster
from headgate.gateway.zookeeper.metadata import plans
from headgate.gateway.zookeeper.metadata.plans import Multi
from headgate.gateway.zookeeper.session import Check, Create, Delete, Operation, Refused, Results, SetData
from headgate.gateway.zookeeper.tests.model import ZooKeeperModel
from headgate.protocol.internal.metadata import BROKER_RESOURCE

SESSION = 7
U = Topic("u", b"u" * 16, (PartitionState(0, 0, (0,), (0,), 0),) * 3, {"retention.ms": "5"})


def raise_leader_epochs(cluster: ClusterTree, node_id: int) -> list[Multi]:
    """Multis of the elections after a start of this broker. The image must have the leaders of ZooKeeper."""
    alive = {node_id, *cluster.image.brokers}
    wanted = []
    for name, topic in cluster.image.topics.items():
        for index, state in enumerate(topic.partitions):
            served = state._replace(leader=-1) if state.leader == node_id else state
            elected = next_state(served, alive, (), is_unclean=False)
            if elected is not None and elected.leader == node_id:
                wanted.append(plans.write_state(cluster, name, index, elected))
    return plans.guarded(cluster, chain.from_iterable(wanted))


class RecordedTree:
    """A tree that Kafka left, whose sessions have ended."""

    def __init__(self, version: str, scene: str = "topics") -> None:
        self.model = ZooKeeperModel()
        for write in (write for writes in steps(version, scene).values() for write in writes):
            operations: dict[str, Operation] = {
                "create": Create(write.path, write.data),
                "set": SetData(write.path, write.data),
                "delete": Delete(write.path),
            }
            if write.verb in operations:
                self.do((operations[write.verb],))
        if "/controller" in self.nodes:
            self.do((Delete("/controller"),))
        for path in ("/headgate", DELETED_TOPICS_PATH):
            if path not in self.nodes:
                self.do((Create(path),))

    @property
    def nodes(self) -> Mapping[str, Any]:
        return self.model.tree.nodes

    def attempt(self, multi: Multi) -> Results | Refused:
        return self.model.transact(SESSION, multi)

    def do(self, *multis: Multi) -> None:
        for multi in multis:
            results = self.attempt(multi)
            assert not isinstance(results, Refused), (results, multi[results.place])

    def read(self) -> ClusterTree:
        ids = count(1)
        nodes = {path: ZNode(node.data, node.version) for path, node in self.nodes.items()}
        return read_cluster(nodes, lambda: next(ids).to_bytes(16, "big"))

    def lead(self) -> ClusterTree:
        """Become the controller."""
        self.do(plans.become_controller(self.read(), 0, 5))
        return self.read()

    def change(self, new: Image, names: Iterable[str] = ()) -> Image:
        """Carry out a change, and return what is there then."""
        self.do(*plans.change_image(self.read(), new, names))
        return self.read().image


@pytest.fixture(params=[OLD, MIDDLE, NEW])
def recorded(request: pytest.FixtureRequest) -> RecordedTree:
    return RecordedTree(request.param)


def test_the_controllers_epoch_goes_on(recorded: RecordedTree) -> None:
    cluster = recorded.lead()
    assert (cluster.controller_epoch, cluster.image.controller_id) == (2, 0)


@pytest.mark.parametrize("lost", [Delete("/controller_epoch"), SetData("/controller_epoch", b"many")])
def test_a_lost_epoch_goes_on_behind_those_of_states(lost: Operation) -> None:
    recorded = RecordedTree(NEW)
    recorded.do((lost,))
    assert recorded.lead().controller_epoch == 2


def test_only_one_becomes_the_controller(recorded: RecordedTree) -> None:
    first, second = plans.become_controller(recorded.read(), 0, 5), plans.become_controller(recorded.read(), 1, 5)
    recorded.do(first)
    assert isinstance(recorded.attempt(second), Refused)


def test_topics_without_an_id_get_one(recorded: RecordedTree) -> None:
    cluster = recorded.lead()
    recorded.do(*plans.give_topic_ids(cluster))
    again = recorded.read()
    assert again.without_id == frozenset()
    assert again.image == cluster.image


def test_leader_epochs_rise_at_a_start(recorded: RecordedTree) -> None:
    cluster = recorded.lead()
    recorded.do(*raise_leader_epochs(cluster, 0))
    old, new = cluster.image.topic("t"), recorded.read().image.topic("t")
    for before, after in zip(old.partitions, new.partitions, strict=True):
        assert after == (raised_by(before, 1) if before.leader == 0 else before)


def test_who_is_in_sync_leads_once_the_leader_is_gone(recorded: RecordedTree) -> None:
    recorded.do((Delete("/brokers/ids/1"),))
    recorded.do(*raise_leader_epochs(recorded.lead(), 0))
    for state in recorded.read().image.topic("t").partitions:
        assert state == PartitionState(0, 1, state.replicas, (0,), 1)


def test_a_topic_of_an_old_tool_is_taken_up() -> None:
    recorded = RecordedTree(OLD)
    recorded.do((Create("/brokers/topics/v", b'{"version":1,"partitions":{"0":[0],"1":[1]}}'),))
    recorded.do(*raise_leader_epochs(recorded.lead(), 0))
    first, second = recorded.read().image.topic("v").partitions
    assert first == PartitionState(0, 0, (0,), (0,), 0)
    assert second.leader == -1


def test_a_topic_is_created_and_deleted(recorded: RecordedTree) -> None:
    image = recorded.lead().image
    with_u = image._replace(topics={**image.topics, "u": U}, topic_names={**image.topic_names, U.topic_id: "u"})
    assert recorded.change(with_u, ["u"]).topics["u"] == U
    assert recorded.change(image, ["u"]) == image
    assert [path for path in recorded.nodes if path.endswith("/u") or "/u/" in path] == []


def test_directories_have_null_data_as_kafkas() -> None:
    recorded = RecordedTree(NEW)
    image = recorded.lead().image
    recorded.change(image._replace(topics={**image.topics, "u": U}), ["u"])
    for path in ("/brokers/topics/u/partitions", "/brokers/topics/u/partitions/0"):
        assert recorded.nodes[path].data is None


def test_an_order_to_delete_goes_with_the_topic(recorded: RecordedTree) -> None:
    recorded.do((Create("/admin/delete_topics/t", b""),))
    image = recorded.lead().image
    recorded.change(image._replace(topics={}, topic_names={}), ["t"])
    assert [path for path in recorded.nodes if path.endswith("/t") or "/t/" in path] == []


def test_partitions_configs_and_leaders_change(recorded: RecordedTree) -> None:
    image = recorded.lead().image
    topic = image.topic("t")
    changed = raised_by(topic.partitions[0], 1)._replace(isr=(0,), leader=0)
    partitions = (changed, *topic.partitions[1:], PartitionState(0, 0, (0, 1), (0,), 0))
    wanted = topic._replace(configs={"retention.ms": "7"}, partitions=partitions)
    assert recorded.change(image._replace(topics={"t": wanted}), ["t"]).topic("t")[2:] == wanted[2:]
    assert recorded.nodes["/config/changes/config_change_0000000000"].data == (
        b'{"version":2,"entity_path":"topics/t"}'
    )


def test_a_move_that_was_written_in_part_is_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The states come first: replicas that are not in sync must not be the only ones for a moment."""
    monkeypatch.setattr(plans, "MULTI_BYTES", 1)
    recorded = RecordedTree(NEW)
    image = recorded.lead().image
    topic = image.topic("t")
    moved = raised_by(topic.partitions[0], 1)._replace(leader=7, replicas=(7, 0), isr=(7,), removing_replicas=(0,))
    wanted = image._replace(topics={"t": topic._replace(partitions=(moved, *topic.partitions[1:]))})
    first, second = plans.change_image(recorded.read(), wanted, ["t"])
    recorded.do(first)
    in_part = moved._replace(replicas=topic.partitions[0].replicas, removing_replicas=())
    assert recorded.read().image.topic("t").partitions[0] == in_part
    assert plans.change_image(recorded.read(), wanted, ["t"]) == [second]
    recorded.do(second)
    assert recorded.read().image.topics == wanted.topics


def test_configs_of_brokers_change(recorded: RecordedTree) -> None:
    image = recorded.lead().image
    configs = {(BROKER_RESOURCE, ""): {"num.io.threads": "3"}, (BROKER_RESOURCE, "0"): {"log.flush.interval.ms": "1"}}
    if "/config/brokers" not in recorded.nodes:
        recorded.do((Create("/config/brokers"),))
    assert recorded.change(image._replace(configs=configs)).configs == configs


def test_producer_ids_go_on(recorded: RecordedTree) -> None:
    cluster = recorded.lead()
    taken = plans.take_producer_ids(cluster, 0, 1000)
    recorded.do(taken)
    assert recorded.read().image.next_producer_id == cluster.image.next_producer_id + 1000
    if cluster.producer_ids_version != -1:
        assert isinstance(recorded.attempt(taken), Refused)


def test_who_is_no_controller_any_more_writes_nothing(recorded: RecordedTree) -> None:
    cluster = recorded.lead()
    recorded.do((Delete("/controller"),))
    recorded.lead()
    (multi,) = raise_leader_epochs(cluster, 0)
    refused = recorded.attempt(multi)
    assert isinstance(refused, Refused)
    assert refused.place == 0


def test_who_has_an_old_image_writes_nothing(recorded: RecordedTree) -> None:
    cluster = recorded.lead()
    plan = raise_leader_epochs(cluster, 0)
    recorded.do(*plan)
    assert isinstance(recorded.attempt(plan[0]), Refused)


def test_unknown_fields_stay() -> None:
    recorded = RecordedTree(NEW)
    path = "/brokers/topics/t/partitions/1/state"
    data = recorded.nodes[path].data[:-1] + b',"ours":1}'
    recorded.do((SetData(path, data),))
    recorded.do(*raise_leader_epochs(recorded.lead(), 0))
    assert recorded.nodes[path].data.endswith(b'"leader_epoch":1,"isr":[0,1],"ours":1}')


@pytest.mark.slow
def test_many_partitions_are_many_multis() -> None:
    """Each has the check, and fits into a request."""
    recorded = RecordedTree(NEW)
    image = recorded.lead().image
    many = U._replace(partitions=(PartitionState(0, 0, (0,), (0,), 0),) * 5_000)
    multis = plans.change_image(recorded.read(), image._replace(topics={**image.topics, "u": many}), ["u"])
    assert len(multis) > 2
    for multi in multis:
        assert isinstance(multi[0], Check)
    recorded.do(*multis)
    assert recorded.read().image.topic("u").partitions == many.partitions


def test_a_partition_epoch_that_is_not_the_next_is_a_mistake() -> None:
    recorded = RecordedTree(NEW)
    image = recorded.lead().image
    topic = image.topic("t")
    partitions = (raised_by(topic.partitions[0], 2), *topic.partitions[1:])
    with pytest.raises(ValueError, match=r"^the partition epoch of t-0 goes from 0 to 2$"):
        recorded.change(image._replace(topics={"t": topic._replace(partitions=partitions)}), ["t"])
