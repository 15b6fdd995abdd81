"""Groups and their members: classic groups (DescribeGroups) and consumer groups (KIP-848, ConsumerGroupDescribe)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode, MalformedRequest
from headgate.protocol.internal.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from headgate.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headgate.protocol.messages.delete_groups import DeleteGroupsRequest
from headgate.protocol.messages.describe_groups import DescribeGroupsRequest
from headgate.protocol.messages.list_groups import ListGroupsRequest
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.client import Client
from headgate.tools.client.cluster import Answers, Cluster, shorten_list

CLASSIC, CONSUMER = "classic", "consumer"
ZOOKEEPER = "zookeeper"
"""The type of a group that only ZooKeeper has; also the client id of the members there, in Headgate's answers."""
_WITHOUT_MEMBERS = ("Empty", "Dead")
_GROUPS_AT_ONCE = 200
_NO_SUCH_GROUP = Failure(ErrorCode.GROUP_ID_NOT_FOUND, "there is no such group; `headgate groups list` shows all")


class GroupListing(NamedTuple):
    """A group in the answer of ListGroups. An old broker sends no state and no type: both are empty then."""

    name: str
    state: str
    type: str
    protocol: str
    coordinator: int


class MemberDescription(NamedTuple):
    """A member and its assigned partitions. `epoch`: the member epoch of KIP-848; None in a classic group."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[TopicPartition]
    epoch: int | None = None

    @property
    def is_of_zookeeper(self) -> bool:
        """True for a client of the 0.8 age, which is registered in ZooKeeper."""
        return self.client_id == ZOOKEEPER

    def __str__(self) -> str:
        return f"{self.member_id} (client {self.client_id or '-'} at {self.host or '-'})"


class GroupDescription(NamedTuple):
    """A group. `assignor`: the chosen protocol of a classic group, or the server-side assignor of a consumer group."""

    name: str
    state: str
    type: str
    protocol: str
    assignor: str
    coordinator: str
    members: list[MemberDescription]

    @property
    def is_active(self) -> bool:
        """True if members may consume now; the offsets of an active group belong to the members."""
        return bool(self.members) or self.state not in _WITHOUT_MEMBERS

    def member_names(self) -> str:
        """The members as part of a sentence."""
        return shorten_list([str(member) for member in self.members]) or f"nobody yet, but it is {self.state}"


def list_groups(cluster: Cluster) -> tuple[list[GroupListing], list[str]]:
    """All groups of all brokers, each once, sorted by name, and a sentence for each broker that failed.

    Every broker lists all groups that only ZooKeeper has, as far as its own coordinator knows.
    """

    def ask(client: Client, nodes: list[int]) -> Answers[int, list[Any]]:
        answer = client.ask(ListGroupsRequest())
        yield nodes[0], Failure.of(answer.error_code) if answer.error_code else answer.groups

    found, failed = cluster.ask_all_brokers(ask)
    listed = [
        GroupListing(row.group_id, row.group_state, row.group_type, row.protocol_type, node)
        for node, rows in found.items()
        for row in rows
    ]
    coordinated = {row.name for row in listed if row.type != ZOOKEEPER}
    once = {row.name: row for row in sorted(listed, reverse=True) if row.type == ZOOKEEPER}
    groups = [row for row in listed if row.type != ZOOKEEPER]
    groups += (row for name, row in once.items() if name not in coordinated)
    return sorted(groups), [f"the groups of broker {node} are not known: {why.text}" for node, why in failed.items()]


def complete_states(cluster: Cluster, listed: list[GroupListing]) -> tuple[list[GroupListing], list[str]]:
    """The list with all states and types; DescribeGroups adds those that an old broker leaves out of the list."""
    incomplete = [row.name for row in listed if not row.state]
    if not incomplete:
        return listed, []
    groups, failed = describe_groups(cluster, incomplete)
    completed = [
        row._replace(state=groups[row.name].state, type=groups[row.name].type) if row.name in groups else row
        for row in listed
    ]
    return completed, [f"the state of group {name} is not known: {why.text}" for name, why in failed.items()]


def describe_groups(cluster: Cluster, names: Iterable[str]) -> tuple[dict[str, GroupDescription], dict[str, Failure]]:
    """Groups with their members by name. A group that does not exist is a failure with GROUP_ID_NOT_FOUND."""

    def ask(client: Client, wanted: list[str]) -> Answers[str, GroupDescription]:
        for start in range(0, len(wanted), _GROUPS_AT_ONCE):
            yield from _describe(client, wanted[start : start + _GROUPS_AT_ONCE])

    return cluster.ask_coordinators(names, ask)


def _describe(client: Client, names: list[str]) -> Iterator[tuple[str, GroupDescription | Failure]]:
    """Ask for consumer groups first; every group unknown there may be a classic group."""
    others = names
    if client.serves(ConsumerGroupDescribeRequest):
        others = []
        for row in client.ask(ConsumerGroupDescribeRequest(group_ids=names)).groups:
            if row.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                others.append(row.group_id)
            elif row.error_code:
                yield row.group_id, Failure.of(row.error_code, row.error_message)
            else:
                yield row.group_id, _consumer_group(row, client.address)
    if others:
        for row in client.ask(DescribeGroupsRequest(groups=others)).groups:
            if row.error_code == ErrorCode.GROUP_ID_NOT_FOUND or (not row.error_code and row.group_state == "Dead"):
                yield row.group_id, _NO_SUCH_GROUP
            elif row.error_code:
                yield row.group_id, Failure.of(row.error_code, row.error_message)
            else:
                yield row.group_id, _classic_group(row, client.address)


def _consumer_group(row: Any, address: str) -> GroupDescription:
    members = [
        MemberDescription(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            [
                TopicPartition(topic.topic_name, number)
                for topic in member.assignment.topic_partitions
                for number in topic.partitions
            ],
            member.member_epoch,
        )
        for member in row.members
    ]
    return GroupDescription(row.group_id, row.group_state, CONSUMER, PROTOCOL_TYPE, row.assignor_name, address, members)


def _classic_group(row: Any, address: str) -> GroupDescription:
    is_of_consumers = row.protocol_type == PROTOCOL_TYPE
    members = [
        MemberDescription(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            _assigned(member.member_assignment) if is_of_consumers else [],
        )
        for member in row.members
    ]
    kind = ZOOKEEPER if row.protocol_data == ZOOKEEPER else CLASSIC
    return GroupDescription(row.group_id, row.group_state, kind, row.protocol_type, row.protocol_data, address, members)


def _assigned(data: bytes) -> list[TopicPartition]:
    """The partitions of a classic member; none if only the member's own client can read the assignment."""
    if not data:
        return []
    try:
        topics = decode_assignment(data).assigned_partitions
    except MalformedRequest:
        return []
    return [TopicPartition(topic.topic, number) for topic in topics for number in topic.partitions]


def delete_groups(cluster: Cluster, names: Iterable[str]) -> tuple[list[str], dict[str, Failure]]:
    """Delete groups with all their offsets. Returns the deleted groups, and failures by group."""

    def ask(client: Client, wanted: list[str]) -> Answers[str, bool]:
        for row in client.ask(DeleteGroupsRequest(groups_names=wanted)).results:
            yield row.group_id, Failure.of(row.error_code, row.error_message) if row.error_code else True

    found, failed = cluster.ask_coordinators(names, ask)
    return list(found), failed
