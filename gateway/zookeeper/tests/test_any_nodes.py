"""Any bytes under any names below /brokers, /config, /consumers and /admin, and then a lost session, or a restart.

After each of them a topic can be created and is led, groups are listed and described, each node that cannot be read is
named once, and no traceback is logged. In the end no offset is gone of a topic that nobody has deleted. Nobody deletes
one here: the writer leaves out orders for topics of the broker, the places of the broker itself (`/brokers/ids/0`), and
whole registrations of other brokers, which would get partitions.
"""

from __future__ import annotations

import logging
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.gateway.metadata.image import CONSUMER_OFFSETS
from headgate.gateway.tests.builders import over_the_wire
from headgate.gateway.zookeeper.layout.brokers import BrokerRegistration, broker_id_of
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.tree import ZNode, read_cluster
from headgate.gateway.zookeeper.session import is_valid_path
from headgate.gateway.zookeeper.tests.model import ZooKeeperModel
from headgate.gateway.zookeeper.tests.whole_broker import WholeBroker
from headgate.gateway.zookeeper.unreadable import MAX_SHOWN
from headgate.protocol.errors import KafkaError
from headgate.protocol.messages.describe_groups import DescribeGroupsRequest
from headgate.protocol.messages.list_groups import ListGroupsRequest
from headgate.protocol.tests.examples import share

GROUPS: Final = {"separate": 0, "dual": 1}
"""Groups of the broker, and the partition of `t` that each commits."""
OWN: Final = ("t", CONSUMER_OFFSETS)
READ: Final = ("/brokers/topics/", "/config/brokers/", "/config/groups/")
"""What a running broker reads without a notification."""

_names = st.sampled_from(
    [
        "01", "-1", "0", "5", "99999999999999999999", "\u00b2", "\u0663", " 1", "1_0", "+1", "abc", "my group", "%zz",
        "%ff", "%41", "<default>", "t", "u", "copy", "x" * 300, "y" * 40_000, "state", "partitions", "ids", "offsets",
        "owners", "clients", "dual", "separate", "later", "config_change_0000000000", CONSUMER_OFFSETS, "\u202e", "{}",
    ]
) | st.text(min_size=1, max_size=5)  # fmt: skip
_paths = st.sampled_from(
    [
        "/brokers/topics/{}", "/brokers/topics/{}/partitions/{}/state", "/brokers/topics/{}/{}", "/brokers/ids/{}",
        "/brokers/{}", "/brokers/seqid", "/config/{}", "/config/{}/{}", "/config/topics/{}", "/config/brokers/{}",
        "/config/groups/{}", "/config/users/{}", "/config/users/{}/clients/{}", "/config/clients/{}", "/config/ips/{}",
        "/config/changes/{}", "/consumers/{}", "/consumers/{}/ids/{}", "/consumers/{}/owners/{}/{}",
        "/consumers/{}/offsets/{}/{}", "/consumers/{}/{}/{}/{}", "/admin/{}", "/admin/{}/{}",
        "/admin/delete_topics/{}", "/admin/reassign_partitions", "/admin/preferred_replica_election",
    ]
)  # fmt: skip
_TEXTS: Final = [
    b"", b"x", b"{}", b"[]", b"null", b"77", b"-5", b"007", b"99999999999999999999", b"\xff", "\u0663".encode(), b"t-0",
    b'"t"', b'"\\ud800"', b"[" * 500 + b"]" * 500, b'{"a":' * 500 + b"1" + b"}" * 500, b"9" * 5_000, b'{"version":NaN}',
    b'{"version":1,"partitions":{"0":[0]}}',
    b'{"version":1,"partitions":{"0":[0]},"partitions":{"1":[0]}}',
    b'{"version":1,"partitions":{"01":[0]}}',
    b'{"version":1,"partitions":{"0":[]}}',
    b'{"version":1,"partitions":{"0":[0]},"x":' + b"[" * 400 + b"]" * 400 + b"}",
    b'{"version":3,"partitions":{"0":[0]},"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ"}',
    b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[]}]}',
    b'{"version":1,"partitions":[{"topic":"u","partition":0,"replicas":[0,0]}]}',
    b'{"controller_epoch":2147483647,"leader":0,"version":1,"leader_epoch":2147483647,"isr":[0]}',
    b'{"controller_epoch":1,"leader":9,"version":1,"leader_epoch":2147483646,"isr":[]}',
    b'{"version":1,"config":{"a":"b","retention.ms":"\\u0663","log.retention.ms":"1_0"}}',
    b'{"version":1,"config":{"retention.ms":5}}',
    b'{"version":2,"entity_path":"brokers/01"}',
    b'{"version":2,"entity_path":"groups/%zz"}',
    b'{"version":2,"entity_path":"topics/t"}',
    b'{"version":1,"entity_type":"topics","entity_name":"my topic"}',
    b'{"version":1,"subscription":{"' + b"x" * 40_000 + b'":1},"pattern":"static"}',
]  # fmt: skip
_data = st.none() | st.sampled_from(_TEXTS) | st.just("copy") | st.binary(max_size=8)
_writes = st.tuples(_paths, st.lists(_names, min_size=4, max_size=4), _data).map(
    lambda drawn: (drawn[0].format(*drawn[1]), drawn[2])
)
_ends = st.sampled_from(["lose_session", "restart", "kill", "depose"])


class Anybody:
    """A broker with offsets, and a writer."""

    def __init__(self, directory: Path) -> None:
        self.lines: list[logging.LogRecord] = []
        self.broker = WholeBroker(directory, ZooKeeperModel())
        metadata = self.broker.services.metadata
        self.broker.change(lambda: metadata.create_topic("t", 2))
        self.broker.change(lambda: metadata.create_topic(CONSUMER_OFFSETS, 1))
        configs = {"headgate.offsets.store": "dual", "headgate.offsets.source": "kafka"}
        self.broker.change(lambda: metadata.change_group_configs("dual", configs))
        self.broker.settle()
        for group, index in GROUPS.items():
            assert self.broker.commit(group, "t", index, 40 + index) == 0
        self.good: dict[str, bytes | None] = {}
        self.written: dict[str, set[bytes | None]] = {}
        self.writes = Counter[str]()
        self.offsets: dict[str, bytes | None] = {}
        self.count = 0

    def write(self, path: str, data: bytes | str | None) -> None:
        nodes = self.broker.keeper.tree.nodes
        if isinstance(data, str):
            data = nodes["/brokers/topics/t"].data
        if not self._is_allowed(path, data):
            return
        before = nodes[path].data if path in nodes else None
        is_there = path in nodes
        if self.broker.write(path, data):
            self.writes[path] += 1
            if is_there and before not in self.written.get(path, ()):
                self.good[path] = before
            self.written.setdefault(path, set()).add(data)
            if "/offsets/" in path and path.startswith("/consumers/"):
                self.offsets[path] = data

    def _is_allowed(self, path: str, data: bytes | None) -> bool:
        if not is_valid_path(path):
            return False
        names = path.split("/")[1:]
        if names[:2] == ["brokers", "ids"] and len(names) > 2:
            return names[2] != "0" and not _is_registration(names[2], data)
        if names[:2] == ["admin", "delete_topics"] and len(names) > 2:
            return names[2] not in OWN
        return path not in {f"/consumers/{group}/offsets/t/{index}" for group, index in GROUPS.items()}

    def end(self, kind: str) -> None:
        """Lose the session, or the process."""
        broker = self.broker
        broker.settle()
        if kind == "lose_session":
            broker.lose_session()
        elif kind == "depose":
            broker.delete("/controller")
        else:
            broker.stop() if kind == "restart" else broker.kill()
            self.check_lines()
            self.lines.clear()
            for path in self.writes:
                self.writes[path] = 1
            broker.start()
        broker.settle()
        self.check()

    def check(self) -> None:
        self.count += 1
        name = f"fresh{self.count}"
        change = self.broker.change(lambda: self.broker.services.metadata.create_topic(name, 1))
        assert not isinstance(change, KafkaError), change
        assert self.broker.services.metadata.image.topics[name].partitions[0].leader == 0
        listed = over_the_wire(self.broker.answer(ListGroupsRequest(), 5), 5)
        groups = [row.group_id for row in listed.groups]
        described = over_the_wire(self.broker.answer(DescribeGroupsRequest(groups), 0), 0)
        assert {row.error_code for row in described.groups} <= {0}
        self.check_lines()
        named = "\n".join(line.getMessage() for line in self.lines)
        for path in self.unreadable():
            assert f"ZooKeeper's {path[:MAX_SHOWN]}" in named, path

    def unreadable(self) -> set[str]:
        nodes = self.broker.keeper.tree.nodes
        tree = {path: ZNode(node.data, node.version, node.czxid, node.mzxid) for path, node in nodes.items()}
        invalid = {error.path for error in read_cluster(tree, lambda: bytes(16)).invalid}
        return {path for path in invalid if path.startswith(READ) and path in self.writes}

    def check_lines(self) -> None:
        """Each node is named once, and again only after a change; a fault of the broker has a traceback."""
        assert [line.getMessage() for line in self.lines if line.exc_info] == []
        named = Counter(line.getMessage() for line in self.lines if line.getMessage().startswith("ZooKeeper's "))
        for sentence, count in named.items():
            path = sentence.removeprefix("ZooKeeper's ").split(": ")[0]
            assert count <= max(self.writes.get(path, 1), 1), sentence

    def check_offsets(self) -> None:
        """Whoever wrote over the broker's topics corrects that: then all offsets are there."""
        nodes = self.broker.keeper.tree.nodes
        for path, data in self.good.items():
            if path in nodes and nodes[path].data in self.written[path]:
                assert self.broker.write(path, data)
        self.end("restart")
        for group, index in GROUPS.items():
            assert self.broker.committed(group, "t", index) == (40 + index, 0), group
        for path, data in self.offsets.items():
            assert path in nodes, path
            assert nodes[path].data == data


class _Lines(logging.Handler):
    def __init__(self, lines: list[logging.LogRecord]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record)


def _is_registration(name: str, data: bytes | None) -> bool:
    try:
        BrokerRegistration.decode(broker_id_of(name), data)
    except InvalidNode:
        return False
    return True


@pytest.mark.slow
@given(rounds=st.lists(st.tuples(st.lists(_writes, min_size=1, max_size=8), _ends), min_size=1, max_size=3))
@settings(max_examples=share(30, soak=100))
def test_any_nodes_end_nothing(rounds: list[tuple[list[tuple[str, bytes | str | None]], str]]) -> None:
    logger = logging.getLogger("headgate")
    with tempfile.TemporaryDirectory() as directory:
        anybody = Anybody(Path(directory))
        handler = _Lines(anybody.lines)
        logger.addHandler(handler)
        try:
            for writes, end in rounds:
                for path, data in writes:
                    anybody.write(path, data)
                anybody.end(end)
            anybody.check_offsets()
            anybody.broker.stop()
        finally:
            logger.removeHandler(handler)
