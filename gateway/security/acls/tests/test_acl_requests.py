"""ACLs and filters of requests; `gateway/api/handlers/tests/admin/test_acls.py` has whole requests."""

from __future__ import annotations

import pytest

from headgate.gateway.security.acls.acl_requests import binding_of, filter_of
from headgate.protocol.acls import AclFilter, AclOperation, AclPermission, AclResource, PatternType
from headgate.protocol.messages.create_acls import AclCreation
from headgate.protocol.messages.describe_acls import DescribeAclsRequest
from headgate.protocol.security.acls.tests.made import READ, acl


def test_a_creation_is_an_acl() -> None:
    assert binding_of(AclCreation(2, "t", 3, "User:alice", "*", 3, 3)) == acl()
    assert binding_of(AclCreation(2, "t", 3, "User:alice", "*", 77, 3)).operation is AclOperation.UNKNOWN


def test_a_filter_has_kafkas_numbers() -> None:
    found = filter_of(DescribeAclsRequest(2, None, 2, None, "*", READ, 1))
    expected = AclFilter(AclResource.TOPIC, None, PatternType.MATCH, None, "*", READ, AclPermission.ANY)
    assert found == expected


@pytest.mark.parametrize("place", range(4))
def test_the_number_0_ends_the_connection(place: int) -> None:
    numbers = [0 if number == place else 3 for number in range(4)]
    resource, pattern, operation, permission = numbers
    with pytest.raises(ValueError, match="number 0"):
        binding_of(AclCreation(resource, "t", pattern, "User:a", "*", operation, permission))
    with pytest.raises(ValueError, match="number 0"):
        filter_of(DescribeAclsRequest(resource, "t", pattern, "User:a", "*", operation, permission))
