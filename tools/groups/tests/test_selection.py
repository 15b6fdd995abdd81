"""The groups that a question is about."""

import pytest

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_groups import DescribeGroupsRequest
from headgate.tools.groups.selection import NO_GROUPS, group_failures, select_groups
from headgate.tools.tests.model_cluster import ModelCluster, ModelGroup, opened


def test_all_groups_with_offsets_are_selected(model: ModelCluster) -> None:
    model.groups = {"a": ModelGroup(), "b": ModelGroup(type="consumer"), "c": ModelGroup(type="share")}
    with opened() as cluster:
        groups, failures, notes = select_groups(cluster, [])
    assert (sorted(groups), failures) == (["a", "b"], [])
    assert notes == ["groups of the type share are left out"]


@pytest.mark.parametrize("version", [5, 6])
def test_a_named_group_of_offsets_alone_is_selected(model: ModelCluster, version: int) -> None:
    model.served[DescribeGroupsRequest] = (0, version)
    model.groups = {"a": ModelGroup(type="unknown", offsets={("t", 0): (1, 0, "")})}
    with opened() as cluster:
        groups, failures, _ = select_groups(cluster, ["a", "gone"])
    assert groups["a"].state == "Empty"
    assert [text.partition(":")[0] for text in failures] == ["group gone"]


def test_a_cluster_without_groups_has_a_note(model: ModelCluster) -> None:
    with opened() as cluster:
        assert select_groups(cluster, []) == ({}, [], [NO_GROUPS])


def test_missing_groups_can_be_accepted() -> None:
    failed = {"a": Failure(ErrorCode.GROUP_ID_NOT_FOUND, "is gone"), "b": Failure(1, "failed")}
    assert group_failures(failed) == ["group a: is gone", "group b: failed"]
    assert group_failures(failed, accept_missing=True) == ["group b: failed"]
