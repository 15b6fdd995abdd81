"""The plans that carry metadata: there and back over the model, stopped at every write, and every refusal."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from headgate.gateway.metadata.image import Image, PartitionState, Topic
from headgate.gateway.runtime.tasks import Task, run
from headgate.gateway.security.acls.acls_image import image_of
from headgate.gateway.security.tokens.delegation_token import DelegationToken
from headgate.gateway.zookeeper.layout.cluster import ClusterId, Controller, ControllerEpoch
from headgate.gateway.zookeeper.layout.tree import ClusterTree, read_cluster
from headgate.gateway.zookeeper.metadata import metadata_transfer as transfer
from headgate.gateway.zookeeper.metadata.acl_watcher import ensure_acl_paths, read_acls
from headgate.gateway.zookeeper.metadata.metadata_transfer import TransferRefused
from headgate.gateway.zookeeper.metadata.reading import ensure_paths, read_tree
from headgate.gateway.zookeeper.metadata.token_watcher import ensure_token_paths, read_tokens
from headgate.gateway.zookeeper.requests import ensure, multi
from headgate.gateway.zookeeper.session import Create, Operation, SetData
from headgate.gateway.zookeeper.tests.model import ModelSession, ZooKeeperModel
from headgate.protocol.acls import AclBinding, AclOperation, AclPermission, AclResource, PatternType, ResourcePattern
from headgate.protocol.internal.metadata import BROKER_RESOURCE, GROUP_RESOURCE

NODE = 4
TOPIC = ResourcePattern(AclResource.TOPIC, "a", PatternType.LITERAL)
CLUSTER = "j372A7cSffPJhP3o2Z1SUQ"


def topic(name: str, *leader_epochs: int, configs: dict[str, str] | None = None) -> Topic:
    states = [PartitionState(NODE, epoch, (NODE,), (NODE,), epoch) for epoch in leader_epochs]
    return Topic(name, name.encode().ljust(16, b"."), tuple(states), configs or {})


def image(*topics: Topic, **changes: Any) -> Image:
    ids = {one.topic_id: one.name for one in topics}
    whole = Image(CLUSTER, NODE, {}, {one.name: one for one in topics}, ids, {}, {}, 0)
    return whole._replace(**changes)


FULL = image(
    topic("a", 3, 3, 7, configs={"retention.ms": "100"}),
    topic("b", 0),
    features={"group.version": 0},
    configs={
        (BROKER_RESOURCE, ""): {"log.retention.ms": "5"},
        (BROKER_RESOURCE, "4"): {"log.cleaner.threads": "2"},
        (GROUP_RESOURCE, "g/1"): {"consumer.session.timeout.ms": "50000"},
    },
    next_producer_id=7_000,
    acls=image_of([AclBinding(*TOPIC, "User:a", "*", AclOperation.READ, AclPermission.ALLOW)]),
    tokens={"id": DelegationToken("id", "User:a", "User:b", ("User:c",), 1, 3, 2)},
)


class EmptyCluster:
    """ZooKeeper with the directories of a cluster, and nothing in them."""

    def __init__(self) -> None:
        self.keeper = ZooKeeperModel()
        self.session: ModelSession = self.keeper.session()
        self.session.start()
        self.keeper.run()
        self.finish(ensure_paths(self.session))
        self.finish(ensure_acl_paths(self.session))
        self.finish(ensure_token_paths(self.session))
        self.finish(ensure(self.session, "/cluster"))
        self.write([Create(ClusterId.path(), ClusterId(CLUSTER).encode()), Create("/controller_epoch", b"0")])

    def finish(self, steps: Task[Any]) -> Any:
        results: list[Any] = []
        run(steps, results.append)
        self.keeper.run()
        (result,) = results
        if isinstance(result, Exception):
            raise result
        return result

    def write(self, operations: Sequence[Operation]) -> None:
        assert isinstance(self.finish(multi(self.session, operations)), tuple)

    def cluster(self) -> ClusterTree:
        tree = self.finish(read_tree(self.session, lambda _: None))
        tree |= self.finish(read_acls(self.session, None))
        tree |= self.finish(read_tokens(self.session, None))
        return read_cluster(tree, lambda: bytes(16))

    def carry(self, carried: Image) -> None:
        for operations in transfer.into_zookeeper(carried, self.cluster(), NODE):
            self.write(operations)


def without_epochs(carried: Image) -> Any:
    """What does not change on the way: partition epochs are ZooKeeper's."""
    topics = {
        name: one._replace(partitions=tuple(state._replace(partition_epoch=0) for state in one.partitions))
        for name, one in carried.topics.items()
    }
    return carried._replace(topics=topics, brokers={}, controller_id=NODE)


def test_there_and_back() -> None:
    target = EmptyCluster()
    target.carry(FULL)
    cluster = target.cluster()
    assert transfer.into_zookeeper(FULL, cluster, NODE) == []
    transfer.check(cluster, CLUSTER)
    assert without_epochs(transfer.out_of_zookeeper(cluster, NODE)) == without_epochs(FULL)


def test_an_image_that_grew_in_between_is_carried_again() -> None:
    target = EmptyCluster()
    target.carry(FULL)
    grown = FULL._replace(
        topics=image(topic("a", 4, 4, 8, 0, configs={"retention.ms": "1"}), topic("b", 1), topic("c", 0)).topics,
        next_producer_id=9_000,
    )
    target.carry(grown)
    assert without_epochs(transfer.out_of_zookeeper(target.cluster(), NODE)).topics == without_epochs(grown).topics
    assert target.cluster().image.next_producer_id == 9_000


def test_a_transfer_may_stop_behind_every_multi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.gateway.zookeeper.metadata.plans.MULTI_BYTES", 1)
    count = len(transfer.into_zookeeper(FULL, EmptyCluster().cluster(), NODE))
    assert count > 15
    for stop in range(1, count):
        target = EmptyCluster()
        for operations in transfer.into_zookeeper(FULL, target.cluster(), NODE)[:stop]:
            target.write(operations)
        target.carry(FULL)
        assert transfer.into_zookeeper(FULL, target.cluster(), NODE) == []
        assert without_epochs(transfer.out_of_zookeeper(target.cluster(), NODE)) == without_epochs(FULL)


def test_random_images_arrive_whole() -> None:
    random = Random(1)
    for _ in range(20):
        topics = [topic(f"t{number}", *range(random.randint(1, 4))) for number in range(random.randint(0, 6))]
        carried = image(*topics, next_producer_id=random.choice([0, 1, 999, 5_000]))
        target = EmptyCluster()
        target.carry(carried)
        found = target.cluster()
        assert transfer.into_zookeeper(carried, found, NODE) == []
        assert found.image.next_producer_id >= carried.next_producer_id
        assert without_epochs(found.image).topics == without_epochs(carried).topics


REGISTRATION = b'{"jmx_port":-1,"timestamp":"1","host":"h","version":1,"port":9092}'


@pytest.mark.parametrize(
    "node, reason",
    [
        (Create("/brokers/ids/7", REGISTRATION), "broker 7 is registered in ZooKeeper; stop it"),
        (Create("/controller", Controller(7, 1).encode()), "broker 7 is the controller in ZooKeeper; stop it"),
        (Create("/brokers/topics/t", b"{"), "/brokers/topics/t: the data are not JSON"),
        (SetData("/cluster/id", ClusterId("other").encode()), "the cluster id other in ZooKeeper is not j372A7"),
    ],
)
def test_a_cluster_in_use_or_another_one_is_refused(node: Operation, reason: str) -> None:
    target = EmptyCluster()
    target.write([node])
    with pytest.raises(TransferRefused) as raised:
        transfer.check(target.cluster(), CLUSTER)
    assert reason in str(raised.value)


def test_topics_that_the_directories_do_not_have_are_refused() -> None:
    target = EmptyCluster()
    target.carry(FULL)
    with pytest.raises(TransferRefused, match="ZooKeeper has topic b of its own"):
        transfer.into_zookeeper(image(FULL.topics["a"]), target.cluster(), NODE)
    made_anew = FULL.topics["b"]._replace(topic_id=bytes(range(16)))
    with pytest.raises(TransferRefused, match="ZooKeeper has topic b of its own"):
        transfer.into_zookeeper(image(FULL.topics["a"], made_anew), target.cluster(), NODE)


def test_a_log_that_is_older_than_zookeeper_is_refused() -> None:
    target = EmptyCluster()
    target.carry(FULL)
    with pytest.raises(TransferRefused, match="a-2 has leader epoch 7 in ZooKeeper, and 6"):
        transfer.into_zookeeper(image(topic("a", 3, 3, 6), FULL.topics["b"]), target.cluster(), NODE)
    with pytest.raises(TransferRefused, match="ZooKeeper has 3 partitions of a, and the own log 2"):
        transfer.into_zookeeper(image(topic("a", 3, 3), FULL.topics["b"]), target.cluster(), NODE)


@pytest.mark.parametrize(
    "operation, reason",
    [
        (Create("/admin/delete_topics/a"), "topic a waits in ZooKeeper for its deletion"),
        (Create("/brokers/topics/old", b'{"version":1,"partitions":{"0":[4]}}'), "topic old has no id yet"),
        (
            SetData("/brokers/topics/b", b'{"version":3,"topic_id":"Yi4uLi4uLi4uLi4uLi4uLg","partitions":{"0":[4,5]}}'),
            "partition b-0 has replicas elsewhere than on broker 4",
        ),
    ],
)
def test_what_an_own_log_cannot_have_is_refused(operation: Operation, reason: str) -> None:
    target = EmptyCluster()
    target.carry(FULL)
    target.write([operation])
    with pytest.raises(TransferRefused, match=reason):
        transfer.out_of_zookeeper(target.cluster(), NODE)


def test_a_partition_without_a_leader_is_led_here() -> None:
    target = EmptyCluster()
    target.carry(FULL)
    target.write([SetData("/controller_epoch", ControllerEpoch(2).encode())])
    state = b'{"controller_epoch":2,"leader":-1,"version":1,"leader_epoch":5,"isr":[4]}'
    target.write([SetData("/brokers/topics/b/partitions/0/state", state)])
    (found,) = transfer.out_of_zookeeper(target.cluster(), NODE).topics["b"].partitions
    assert (found.leader, found.leader_epoch, found.isr) == (NODE, 5, (NODE,))


def test_a_dry_run_says_what_is_there_and_what_stays() -> None:
    assert list(transfer.describe(FULL)) == [
        "a: 3 partitions, id YS4uLi4uLi4uLi4uLi4uLg, retention.ms=100",
        "b: 1 partitions, id Yi4uLi4uLi4uLi4uLi4uLg, no configs of its own",
        "1 ACLs, 1 delegation tokens",
        "2 topics with 4 partitions, configs of 3 brokers and groups, producer ids from 7000 on, 1 features",
    ]
    assert len(list(transfer.left_behind([f"users/{number}" for number in range(9)], 2))) == 3
    assert list(transfer.left_behind([], 0)) == ["nothing is deleted in ZooKeeper"]


def test_groups_in_both_stores_are_refused() -> None:
    transfer.check_groups(FULL, ())
    dual = FULL._replace(configs={(GROUP_RESOURCE, "g"): {"headgate.offsets.store": "dual"}})
    with pytest.raises(TransferRefused, match="group g has its offsets in both stores; start the broker"):
        transfer.check_groups(dual, ())
    with pytest.raises(TransferRefused, match="group g, h has its offsets in both stores"):
        transfer.check_groups(dual, ["h"])
