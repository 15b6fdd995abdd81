"""Plans of ACLs: what is there already needs no record, and a request has a limit."""

from __future__ import annotations

import pytest

from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.planning import acls as plans
from headgate.gateway.security.acls.acls_image import acl_id_of, image_of, record_of
from headgate.protocol.acls import AclBinding, AclFilter, AclOperation, AclPermission, AclResource, PatternType
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import RemoveAccessControlEntryRecord
from headgate.protocol.steps import finish


def acl(name: str) -> AclBinding:
    return AclBinding(
        AclResource.TOPIC, name, PatternType.LITERAL, "User:a", "*", AclOperation.READ, AclPermission.ALLOW
    )


A, B, C = acl("a"), acl("b"), acl("c")
IMAGE = Image.empty()._replace(acls=image_of([A, B]))
ALL = AclFilter(AclResource.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, AclPermission.ANY)


def test_only_new_acls_are_recorded_each_once() -> None:
    assert plans.create_acls(IMAGE, [A, C, C]) == [record_of(C, acl_id_of(C))]
    assert IMAGE.apply_all(plans.create_acls(IMAGE, [C])).acls == image_of([A, B, C])


def test_only_present_acls_are_removed_each_once() -> None:
    records = plans.delete_acls(IMAGE, [A, C, A])
    assert records == [RemoveAccessControlEntryRecord(acl_id_of(A))]
    assert IMAGE.apply_all(records).acls == image_of([B])


def test_a_request_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "MAX_CHANGES", 1)
    for plan in (plans.create_acls(IMAGE, [C]), plans.delete_acls(IMAGE, [A])):
        assert len(plan) == 1
    with pytest.raises(KafkaError, match="Unable to perform excessively large batch operation") as refused:
        plans.delete_acls(IMAGE, [A, B])
    assert refused.value.code == ErrorCode.POLICY_VIOLATION


def test_matching_takes_a_step_for_each_thousand() -> None:
    acls = image_of([acl(f"t{number}") for number in range(2500)])
    steps = plans.matching(acls, ALL._replace(resource_name="t7"))
    assert [*steps] == [None, None]
    assert finish(plans.matching(acls, ALL._replace(resource_name="t7"))) == [acl("t7")]


def test_the_log_has_each_change_or_the_number_of_many() -> None:
    created, deleted = plans.create_acls(IMAGE, [C]), plans.delete_acls(IMAGE, [A])
    assert [*plans.log_lines(created + deleted, IMAGE)] == [f"created ACL: {C}", f"deleted ACL: {A}"]
    many = plans.create_acls(IMAGE, [acl(f"t{number}") for number in range(21)])
    assert [*plans.log_lines(many, IMAGE)] == ["created 21 ACLs"]
